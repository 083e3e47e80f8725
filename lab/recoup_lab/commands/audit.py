"""`recoup audit`: attack Recoup with its own noise, and end with an error if any attack succeeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup.cli import options
from recoup.cli.output import ExitCode
from recoup.errors import ParameterError
from recoup_lab.commands import PANEL

_OUTPUT = "Output"

app = typer.Typer(add_completion=False)


@app.command(rich_help_panel=PANEL, short_help="Attack Recoup: can anybody tell whether one record was there?")
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer tries, in two to three minutes.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this group of attacks; may be given again.", metavar="NAME", show_default="all"),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many groups of attacks to run at a time.")] = 1,
    seed: Annotated[
        int, typer.Option(min=0, help="For tables and initial centres; the noise that is attacked has no seed.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A folder: findings go to data/audit.json, and into evidence.md between its markers.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack Recoup: can anybody who sees what it releases tell whether one record was there?

    Secure noise is attacked, as it is used. The command ends with code 1 if any attack succeeds. Example:

        recoup audit --quick
    """
    from recoup.cli import output as out
    from recoup.cli.tables import print_table

    folder = None if output is None else options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup_lab.audit.attacks.effort import Effort
    from recoup_lab.audit.attacks.table import ATTACKS, run_attacks
    from recoup_lab.audit.evidence import write_audit
    from recoup_lab.audit.findings import HEADER, power_sentences

    known = [attack.name for attack in ATTACKS]
    for name in only or ():
        if name not in known:
            raise ParameterError(f"--only {name}: choose from {', '.join(known)}.")
    findings = []
    for found in run_attacks(Effort(quick=quick, seed=seed, say=out.say), only or None, n_processes=processes):
        findings.append(found)
        if not found.passed:
            out.say(f"  FAILED {found.attack}, {found.target}: {found.result}")
    passed = all(found.passed for found in findings)
    files = [] if folder is None else write_audit(folder, findings, quick=quick, seed=seed)
    if as_json:
        out.print_json(
            passed=passed,
            quick=quick,
            findings=[found.to_json() for found in findings],
            power=power_sentences(findings),
            files=[str(path) for path in files],
        )
    else:
        title = "Attacks on Recoup" + (", quick" if quick else "")
        print_table(title, HEADER, [found.row() for found in findings], left=len(HEADER))
        for sentence in power_sentences(findings):
            out.say(sentence)
    n_failed = sum(not found.passed for found in findings)
    out.say("No attack succeeded." if passed else f"{out.counted(n_failed, 'attack')} succeeded or could not be run.")
    if folder is not None:
        out.say(f"Wrote {', '.join(path.name for path in files)} to {folder}.")
    if not passed:
        raise typer.Exit(ExitCode.FAILED)
