"""Kills, interrupts and planted bugs: scenarios are ended at any point, and checked."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup_lab.audit.faults.children import Ended, Fate, child, measure
from recoup_lab.audit.faults.scenarios import AFTERWARDS, Charge, Create, Release, Save, Scenario, scenarios
from recoup_lab.audit.findings import Finding

GROUP: Final = "faults"


def killed(names: list[str] | None, n: int, seed: int, by: int = signal.SIGKILL) -> list[Finding]:
    """End scenarios, or all, at random points by a signal; n are to be hit, over all scenarios of the table."""
    found = []
    for name, (scenario, part) in scenarios().items():
        # What takes seconds is left out where few are asked for.
        times = max(1, round(n * part / 100)) if part > 1 else n * part // 100
        if times and (names is None or name in names):
            found.append(_ended(scenario, times, Random(f"{seed} {name} {by}"), by))
    return found


def _ended(scenario: Scenario, n: int, rng: Random, by: int) -> Finding:
    with _place(scenario) as (folder, witness, again):
        length = measure(lambda: scenario.act(folder), again)
        # Without any fault everything must be right, and the reference is taken.
        problems = scenario.problems(folder)
        reached, tries = Counter[str](), 0
        # What has ended by itself before its fate came was not hit: another one is drawn for it.
        while reached.total() < n and tries < 3 * n + 10:
            again()
            tries += 1
            fate = length.fate(rng, scenario.hows, by)
            ended = child(lambda: scenario.act(folder), fate, witness=witness)
            reached[fate.how] += ended.signal == by or ended.code == 130
            problems += _checked(scenario, folder, ended, fate)
    where = ", ".join(f"{count} by {how}" for how, count in sorted(reached.items()))
    said = (
        f"{reached.total()} ended on the way ({where}); nothing lost, {AFTERWARDS.get(scenario.name, 'all continued')}"
    )
    if reached.total() < n:
        problems.append(f"only {reached.total()} of {tries} were ended on the way")
    return Finding(
        group=GROUP,
        attack="kill -9" if by == signal.SIGKILL else "Ctrl-C",
        target=scenario.name,
        tries=tries,
        result="; ".join(dict.fromkeys(problems)) or said,
        passed=not problems,
        figures={"reached": reached.total(), "lines": length.lines, "calls": length.calls},
    )


@contextmanager
def _place(scenario: Scenario) -> Iterator[tuple[Path, Path, Callable[[], None]]]:
    """A folder, a witness of draws beside it, and what makes both ready again."""
    with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
        folder, witness = Path(top) / "case", Path(top) / "witness"

        def again() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            witness.unlink(missing_ok=True)
            folder.mkdir()
            scenario.ready(folder)

        yield folder, witness, again


def _checked(scenario: Scenario, folder: Path, ended: Ended, fate: Fate) -> list[str]:
    wrong = []
    if ended.signal not in (0, fate.by):
        wrong.append(f"crashed with signal {ended.signal} at {fate.how} {fate.at:g}")
    if ended.code not in (0, 130) or (ended.code == 130 and fate.by != signal.SIGINT):
        wrong.append(f"ended with code {ended.code} at {fate.how} {fate.at:g}")
    try:
        wrong += [f"{problem} (at {fate.how} {fate.at:g})" for problem in scenario.problems(folder)]
    except Exception as error:
        wrong.append(f"could not be continued at {fate.how} {fate.at:g}: {type(error).__name__}: {error}")
    return wrong


# ---- planted bugs, which random kills and the same checks must catch -------------------------------------------------


def _draw_first() -> None:
    from recoup.privacy.ledger import Ledger
    from recoup.privacy.mechanism import SecureNoise

    charge, laplace, late = Ledger.charge, SecureNoise.laplace, []

    def charge_later(self: Any, price: Any, **named: Any) -> None:
        late.append(lambda: charge(self, price, **named))

    def draw(self: Any, totals: Any, scale: float) -> list[int]:
        drawn = laplace(self, totals, scale)
        late.pop()()
        return drawn

    Ledger.charge = charge_later  # type: ignore[assignment,method-assign]
    SecureNoise.laplace = draw  # type: ignore[method-assign]


def _forget_the_pending_round() -> None:
    from recoup.transcript.transcript import Transcript

    save = Transcript.save
    Transcript.save = lambda self, path: None if self.pending is not None else save(self, path)  # type: ignore[method-assign]


def _save_in_place() -> None:
    import recoup.transcript.transcript

    def write(path: Any, content: str) -> None:
        descriptor, data = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), content.encode()
        for start in range(0, len(data), 1024):
            os.write(descriptor, data[start : start + 1024])
        os.close(descriptor)

    recoup.transcript.transcript.write_whole = write  # type: ignore[attr-defined,assignment]


def _create_in_place() -> None:
    import recoup.privacy.ledger

    @contextmanager
    def in_place(path: Path) -> Any:
        path.touch(exist_ok=False)
        yield path

    recoup.privacy.ledger.appearing = in_place  # type: ignore[attr-defined,assignment]


def _release_before_the_commit() -> None:
    from recoup.privacy.ledger import Ledger

    charge, late = Ledger.charge, list[Callable[[], object]]()

    def postponed(self: Any, price: Any, **named: Any) -> None:
        # The last one is made when the next is asked for.
        if late:
            late.pop()()
        late.append(lambda: charge(self, price, **named))

    Ledger.charge = postponed  # type: ignore[assignment,method-assign]


PLANTED: Final[dict[str, tuple[Callable[[], Scenario], Callable[[], None]]]] = {
    "noise before its charge": (lambda: Release("laplace"), _draw_first),
    "a round not announced": (lambda: Release("laplace"), _forget_the_pending_round),
    "a file written in place": (Save, _save_in_place),
    "a ledger made in place": (Create, _create_in_place),
    "a release before the commit": (Charge, _release_before_the_commit),
}
_KILLS_AT_MOST: Final = 200


def planted(seed: int) -> Finding:
    """Bugs whose traces random kills and the checks above must find."""
    needed = {
        name: _kills_until_caught(make(), plant, Random(f"{seed} {name}")) for name, (make, plant) in PLANTED.items()
    }
    missed = [name for name, n in needed.items() if n is None]
    caught = ", ".join(f"{name}: {n}" for name, n in needed.items())
    return Finding(
        group=GROUP,
        attack="control: planted bugs",
        target=", ".join(PLANTED),
        tries=sum(n or _KILLS_AT_MOST for n in needed.values()),
        result=f"not caught: {', '.join(missed)}" if missed else f"all {len(PLANTED)} caught; kills needed: {caught}",
        passed=not missed,
    )


def _kills_until_caught(scenario: Scenario, plant: Callable[[], None], rng: Random) -> int | None:
    with _place(scenario) as (folder, witness, again):
        length = measure(lambda: scenario.act(folder), again)
        for number in range(1, _KILLS_AT_MOST + 1):
            again()
            fate = length.fate(rng, scenario.hows)
            ended = child(lambda: scenario.act(folder), fate, witness=witness, plant=plant)
            if ended.signal == signal.SIGKILL and _checked(scenario, folder, ended, fate):
                return number
    return None
