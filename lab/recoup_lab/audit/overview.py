"""All attacks in one table: what was tried, how often, what came of it, and how many planted bugs it caught.

Reads what `recoup audit`, `planted_bugs`, `faults`, `served` and `fuzz` wrote, prints the table and puts it into
`evidence.md`, and a row for each group of attacks into `trust.md`. Ends with code 1 if anything in them failed or is
missing: an attack or a control that should be there, a planted bug or one of those that must catch it; and if they are
not all of the source as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from recoup.cli.tables import print_table
from recoup_lab.audit.attacks.table import ATTACKS
from recoup_lab.audit.evidence import caught_by_attack, source_digest, write_evidence, write_trust
from recoup_lab.audit.findings import Finding, Row, summary_rows
from recoup_lab.audit.planted_bugs import GROUPS, PATCHES, header, missed_by
from recoup_lab.pages import markdown

PART: Final = "overview"
HEADER: Final = ("attack", "tries", "result", "planted bugs caught")
GROUP_HEADER: Final = ("what must hold", "tries", "found", "bugs caught")
_MUST_HOLD: Final = {attack.name: attack.what for attack in ATTACKS} | {
    "faults": "Kills, races and full disks lose nothing, and nothing unpaid is released.",
    "bad input": "A spoilt file ends in a typed error.",
    "served": "Kills, races and spoilt requests of a served curator lose, double and tell nothing.",
}
# What a control shows is shown for the attack whose checks it tests.
_CONTROL_OF: Final = {
    "control: planted bugs": "kill -9",
    "control: planted bug": "two processes race",
    "control: planted bad loaders": "spoilt files",
    "control: bugs of a server": "kill -9 of a server",
    "control: bug of two servers": "two requests race",
    "control: bug of a header": "replies to neighbours",
    "control: bug of a reader": "spoilt requests",
    "control: bug of a door": "guessed tokens",
}
_SAME_CHECKS: Final = dict.fromkeys(
    ("Ctrl-C", "writes that fail half-way", "full disk", "read-only folder"), "by the checks of kill -9"
)


def attack_rows(findings: Sequence[Finding], planted: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each attack of `recoup audit`."""
    return [_row(row, str(len(row.caught))) for row in summary_rows(findings, caught_by_attack(planted))]


def _row(row: Row, caught: str) -> tuple[str, ...]:
    result = row.result if row.passed else f"FAILED: {row.result}"
    return f"{row.group}: {row.attack}", f"{row.tries:,}", result, caught


def fault_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """A row for each attack of a script, over all that it was run on."""
    controls = {_CONTROL_OF[found.attack]: found for found in findings if found.attack in _CONTROL_OF}
    together: dict[str, list[Finding]] = {}
    for found in findings:
        if found.attack not in _CONTROL_OF:
            together.setdefault(found.attack, []).append(found)
    rows = list[tuple[str, ...]]()
    for attack, members in together.items():
        failed = [found for found in members if not found.passed]
        n_reached = sum(int(found.figures.get("reached", 0)) for found in members)
        hit = f"{n_reached:,} ended on the way, " if n_reached else ""
        kinds = f"{len(members)} kinds of work" if len(members) > 1 else members[0].target
        said = f"FAILED: {failed[0].target}: {failed[0].result}" if failed else f"{hit}nothing wrong; {kinds}"
        control = controls.get(attack)
        caught = _SAME_CHECKS.get(attack, "none planted") if control is None else _caught(control)
        rows.append((f"{members[0].group}: {attack}", f"{sum(f.tries for f in members):,}", said, caught))
    return rows


def _caught(control: Finding) -> str:
    n_planted = len(control.target.split(", "))
    return str(n_planted) if control.passed else f"FAILED: {control.result}"


def group_rows(rows: Sequence[Sequence[str]], planted: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each group of attacks, from the rows of its attacks."""
    groups: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        groups.setdefault(row[0].split(": ")[0], []).append(row)
    caught: dict[str, set[str]] = {}
    for attack, bugs in caught_by_attack(planted).items():
        caught.setdefault(attack.split(": ")[0], set()).update(bugs)
    found = list[tuple[str, ...]]()
    for group, members in groups.items():
        n_failed = sum(any(cell.startswith("FAILED") for cell in row) for row in members)
        # Faults and bad input have controls of their own.
        n_caught = len(caught.get(group, ())) or sum(int(row[3]) for row in members if row[3].isdigit())
        tries = sum(int(row[1].replace(",", "")) for row in members)
        said = f"**{n_failed} failed**" if n_failed else "nothing"
        what = f"**{group}**: {_MUST_HOLD[group]}"
        found.append((what, f"{tries:,}", said, str(n_caught)))
    return found


def missing(findings: Mapping[str, Sequence[Finding]], bugs: Mapping[str, Any]) -> list[str]:
    """What should be there and is not."""
    attacked = {found.group for found in findings["audit"]}
    wrong = [f"no attack of the group {group}" for group in GROUPS if group not in attacked]
    seen = {found.attack for name in _SCRIPTS for found in findings[name]}
    wrong += [f"no {attack}" for attack in (*_CONTROL_OF, *_CONTROL_OF.values(), *_SAME_CHECKS) if attack not in seen]
    for patch in sorted(PATCHES.glob("*.patch")):
        caught = bugs.get(patch.stem, {"caught": []})["caught"]
        wrong += [f"{patch.stem} is not caught by {catcher}" for catcher in missed_by(header(patch)[1], caught)]
    return wrong


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", required=True, help="with data/, evidence.md and trust.md"
    )
    folder = parser.parse_args().output
    try:
        runs = {name: json.loads((folder / "data" / f"{name}.json").read_text()) for name in _RUNS}
        bugs = runs["planted"]["bugs"]
        found = {name: [Finding.from_json(v) for v in run.get("findings", ())] for name, run in runs.items()}
    except (OSError, ValueError, KeyError) as error:
        print(f"FAILED: what the audit wrote cannot be read ({type(error).__name__}: {error}). Run `make audit`.")
        return 1
    rows = [*attack_rows(found["audit"], bugs), *(row for name in _SCRIPTS for row in fault_rows(found[name]))]
    print_table("All attacks", HEADER, rows, left=len(HEADER))
    n_wrong = sum(any(cell.startswith("FAILED") for cell in row) for row in rows)
    n_caught = sum(bool(entry["caught"]) for entry in bugs.values())
    quick = " The attacks are those of a quick run." if runs["audit"]["quick"] else ""
    said = f"{len(rows) - n_wrong} of {len(rows)} attacks found nothing; "
    said += f"{n_caught} of {len(bugs)} bugs planted in the source were caught.{quick}"
    print(said)
    write_evidence(folder, PART, f"{markdown(HEADER, rows, {1})}\n\n{said}")
    write_trust(folder, PART, f"{markdown(GROUP_HEADER, group_rows(rows, bugs), {1, 3})}\n\n{said}")
    now = source_digest()
    wrong = [f"{name} is of another source" for name, run in runs.items() if run.get("source") != now]
    wrong += missing(found, bugs)
    for problem in wrong:
        print(f"FAILED: {problem}")
    return 1 if n_wrong or wrong else 0


_SCRIPTS: Final = ("faults", "served", "fuzz")
_RUNS: Final = ("audit", "planted", *_SCRIPTS)

if __name__ == "__main__":
    sys.exit(main())
