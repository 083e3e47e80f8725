"""What was checked, what broke, and why: the same rule is tried in many places and reported once."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from recoup.errors import ContractViolation
from recoup.testing.rules import RULES


class Broken(Exception):
    """A check does not hold; the message says where one sees it and what to do."""

    def __init__(self, message: str, *, check: str | None = None) -> None:
        self.check = check
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule of the contract, as it was found.

    Attributes:
        name: its short name.
        rule: what it asks.
        passed: whether it held wherever it was tried.
        n_places: in how many places it was tried: domains, kinds of noise, data sets, rounds.
        message: if it broke, how, where first, and what to do.
    """

    name: str
    rule: str
    passed: bool
    n_places: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All checks of one query or algorithm.

    Attributes:
        subject: what was checked.
        checks: every rule that was tried, in a fixed order.
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every rule held."""
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        """The rules that broke."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        broken = self.failures
        if not broken:
            places = sum(check.n_places for check in self.checks)
            return f"{self.subject} keeps its contract: {len(self.checks)} checks in {places} places."
        parts = [f"{self.subject} breaks its contract in {len(broken)} of {len(self.checks)} checks."]
        parts += [f"{check.name}: {check.rule}\n  {check.message}" for check in broken]
        return "\n\n".join(parts)


@dataclass(slots=True)
class Recorder:
    """Tries checks and keeps what came of them."""

    subject: str
    places: dict[str, int] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)

    def run(self, name: str, where: str, check: Callable[[], None]) -> bool:
        """Try one check in one place; an error of the code under test counts as broken."""
        self.tried(name)
        try:
            # Warnings are looked at by one check of their own; in the others they would hide what is wrong.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                check()
        except Broken as found:
            self._add(found.check or name, where, str(found))
        except Exception as error:  # the code under test may raise anything
            self._add(name, where, f"{_place(error)} raised {type(error).__name__}: {error}")
        else:
            return True
        return False

    def tried(self, name: str) -> None:
        """Count a check that another one does on its way."""
        self.places[name] = self.places.get(name, 0) + 1

    def _add(self, name: str, where: str, message: str) -> None:
        self.places.setdefault(name, 1)
        self.broken.setdefault(name, []).append(f"{where}: {message}" if where else message)

    def report(self, raise_on_failure: bool) -> Report:
        """Put everything together, and raise if asked to."""
        found = Report(
            subject=self.subject,
            checks=tuple(
                Check(name=name, rule=rule, passed=name not in self.broken, n_places=self.places[name], message=text)
                for name, rule in RULES.items()
                if name in self.places
                for text in [_summary(self.broken.get(name, []))]
            ),
        )
        if raise_on_failure and not found.passed:
            raise ContractViolation(found)
        return found


def _summary(messages: list[str]) -> str:
    if len(messages) < 2:
        return "".join(messages)
    others = len(messages) - 1
    return f"{messages[0]} (So it is in {others} more {'place' if others == 1 else 'places'}.)"


def _place(error: Exception) -> str:
    """The innermost function of the traceback that is not ours: the one that the author can look at."""
    name, trace = "the code under test", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(("recoup.testing", "numpy")):
            name = f"{code.co_name} (line {trace.tb_lineno} of {code.co_filename.rsplit('/', 1)[-1]})"
        trace = trace.tb_next
    return name


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what the code under test says: warnings, and what it prints."""
    said: list[str] = []
    out = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        np.errstate(all="warn"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        warnings.simplefilter("always")
        yield said
    said += [f"{item.category.__name__}: {item.message}" for item in caught]
    if out.getvalue().strip():
        said.append(f"printed: {out.getvalue().strip()[:80]!r}")
