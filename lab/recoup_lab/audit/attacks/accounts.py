"""Whether a ledger counts all that a person loses: prices for different units, and runs that are continued elsewhere.

Every draw is priced here, at the scale that reached the sampler, for a person with as many records as the ledger counts
for. A run is interrupted after a round and continued where it must not be: under another ledger or none, from a copy.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.curator.source import open_source
from recoup.driver import release
from recoup.errors import ContinuationError, FileInUseError, LedgerUnitError, UnitConverted
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.reference import largest_half_square
from recoup_lab.audit.attacks.sampler import Draw, listening
from recoup_lab.audit.attacks.subjects import Subject, Terms, ordinary_table, subjects
from recoup_lab.audit.findings import Finding

UNITS: Final = "units of one ledger"
RUNS: Final = "a run and its ledger"
_PERSON: Final = 5
_N_ROUNDS: Final = 3
_ROOM: Final = Fraction(1, 10**6)  # of the conversion to epsilon; one wrong record would show a million times


def attack_accounts(effort: Effort, group: str) -> Iterator[Finding]:
    """Release for one and for five records of a person from one ledger, and continue runs where they do not belong."""
    for subject in subjects():
        for mechanism in subject.mechanisms():
            yield _units(effort, group, subject, mechanism)
    for mechanism in ("laplace", "gaussian"):
        for name, way in _WAYS.items():
            yield _continued(effort, group, f"{name}, {mechanism}", mechanism, way)


# ---- units ----


def _units(effort: Effort, group: str, subject: Subject, mechanism: str) -> Finding:
    one, several = (Terms(mechanism=mechanism, records_per_person=m) for m in (1, _PERSON))
    table = ordinary_table(one.domain, 25, effort.rng(2))
    problems = []
    with warnings.catch_warnings(), listening() as heard:
        warnings.simplefilter("ignore", UnitConverted)
        ledger = Ledger.in_memory(epsilon=100, delta=one.delta)
        for terms in (several, one):
            subject.run(table, terms, seed=effort.seed, ledger=ledger)
        lost = _price(heard.draws, several)
        counted = ledger.spent if mechanism == "laplace" else largest_half_square(ledger.spent, one.delta)
        if counted < lost * (1 - _ROOM):
            problems.append(
                f"a person with {_PERSON} records has lost {float(lost / counted):.2f} times what is counted"
            )
        ledger = Ledger.in_memory(epsilon=100, delta=one.delta)
        subject.run(table, one, seed=effort.seed, ledger=ledger)
        n_draws = len(heard.draws)
        try:
            subject.run(table, several, seed=effort.seed, ledger=ledger)
            problems.append(f"was released for {_PERSON} records from a ledger that counts for one")
        except LedgerUnitError:
            problems += ["was drawn for before it was refused"] if len(heard.draws) > n_draws else []
    return Finding(
        group=group,
        attack=UNITS,
        target=f"{subject.name}, {mechanism}",
        tries=len(heard.draws),
        result="; ".join(problems) or f"{float(counted / lost):.9f} of what a person loses counted, more refused",
        passed=not problems,
    )


def _price(draws: Sequence[Draw], terms: Terms) -> Fraction:
    distance = terms.context.sensitivity * terms.records_per_person
    return sum((draw.price(distance) for draw in draws), Fraction(0))


# ---- runs ----


class _Interrupted(Exception):
    """Ends a release after its first round."""


class _Run:
    """A release that was interrupted after its first round, and its folder."""

    def __init__(self, effort: Effort, terms: Terms, folder: Path) -> None:
        self.terms, self.folder = terms, folder
        self.table: Array = ordinary_table(terms.domain, 25, effort.rng(2))

    def ledger(self, name: str) -> Ledger:
        """A new one, with room for several releases."""
        return Ledger.create(self.folder / name, epsilon=4, delta=self.terms.delta)

    def begin(self, ledger: Ledger | None) -> Path:
        """Release one round of a transcript."""

        def interrupt(n_rounds: int) -> None:
            raise _Interrupted

        path = self.folder / "t.json"
        with contextlib.suppress(_Interrupted):
            self.go_on(path, ledger, resume=False, on_round=interrupt)
        return path

    def go_on(self, path: Path, ledger: Ledger | None, *, table: object = None, **more: Any) -> Transcript:
        """Release the rest."""
        terms = self.terms
        return release(
            KMeans(n_clusters=2, n_rounds=_N_ROUNDS),
            self.table if table is None else table,
            domain=terms.domain,
            epsilon=terms.epsilon,
            delta=terms.delta,
            ledger=ledger,
            path=path,
            **({"resume": True} | more),
        )

    def slow_table(self, meanwhile: Callable[[], object]) -> object:
        """The records; while they are read for the first time, something else happens."""
        source, waiting = open_source(self.table, self.terms.domain), [meanwhile]

        class Slow:
            def total(self, query: Any, factors: Any) -> list[int]:
                if waiting:
                    waiting.pop()()
                return source.total(query, factors)

        return Slow()

    def copy(self, path: Path) -> Path:
        """A copy of a transcript."""
        return Path(shutil.copyfile(path, self.folder / "copy.json"))


def _under_another(run: _Run) -> None:
    run.go_on(run.begin(run.ledger("one.db")), run.ledger("other.db"))


def _under_none(run: _Run) -> None:
    run.go_on(run.begin(run.ledger("one.db")), None)


def _begun_under_none(run: _Run) -> None:
    run.go_on(run.begin(None), run.ledger("one.db"))


def _from_a_copy(run: _Run) -> None:
    ledger = run.ledger("one.db")
    path = run.begin(ledger)
    copy = run.copy(path)
    run.go_on(path, ledger)
    run.go_on(copy, ledger)


def _from_two_copies_at_once(run: _Run) -> None:
    ledger = run.ledger("one.db")
    path = run.begin(ledger)
    run.go_on(run.copy(path), ledger, table=run.slow_table(lambda: run.go_on(path, ledger)))


def _by_a_link(run: _Run) -> bool:
    path = run.begin(None)
    link = run.folder / "link.json"
    link.symlink_to(path)
    run.go_on(link, None)
    run.go_on(path, None)
    return True  # it is one file, which is complete then


def _by_a_link_at_once(run: _Run) -> None:
    path = run.begin(None)
    link = run.folder / "link.json"
    link.symlink_to(path)
    run.go_on(link, None, table=run.slow_table(lambda: run.go_on(path, None)))


def _by_a_second_name(run: _Run) -> None:
    path = run.begin(None)
    other = run.folder / "other.json"
    other.hardlink_to(path)
    run.go_on(path, None)
    run.go_on(other, None)


# What returns true may go on, if no more is spent than was promised.
_WAYS: Final[Mapping[str, Callable[[_Run], bool | None]]] = {
    "continued under another ledger": _under_another,
    "continued under none": _under_none,
    "begun under none, continued under one": _begun_under_none,
    "continued from a copy, too": _from_a_copy,
    "continued from two copies at once": _from_two_copies_at_once,
    "continued by a link, and by its name": _by_a_link,
    "continued by a link and by its name at once": _by_a_link_at_once,
    "continued under both its names": _by_a_second_name,
}


def _continued(effort: Effort, group: str, target: str, mechanism: str, way: Callable[[_Run], bool | None]) -> Finding:
    terms, problem = Terms(mechanism=mechanism), ""
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder, listening() as heard:
        try:
            may = way(_Run(effort, terms, Path(folder)))
            problem = "" if may else "was not refused"
        except (ContinuationError, FileInUseError):
            pass
    share = _price(heard.draws, terms) / terms.claimed
    if share > 1 + _ROOM:
        problem += f"; all draws together cost {float(share):.2f} times what was promised"
    return Finding(
        group=group,
        attack=RUNS,
        target=target,
        tries=len(heard.draws),
        result=problem.removeprefix("; ") or f"refused, or nothing left; {float(share):.2f} of what was promised spent",
        passed=not problem,
    )
