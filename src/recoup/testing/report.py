"""The contract: its rules, the checks that queries and algorithms share, and what came of trying them, rule by rule."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recoup.errors import ContractViolation

# The contract in plain words: every rule that a query and an algorithm must keep, in the order of the report.
RULES = {
    "protocol": "it has every method and attribute that Recoup calls.",
    "frozen": "it is a value: nothing in it can change after it is made.",
    "json": "its JSON, read back by its registered name, is the same thing to the last bit.",
    "sizes": "the sizes that it declares are those of its contributions and of its blocks.",
    "finite": "every record of the domain contributes finite numbers.",
    "sensitivity": "one record moves each block by at most what `sensitivity` declares, in both norms.",
    "claims": "what a block claims about every record (`ones`, `total`) is true of every record.",
    "purity": "`contribution` gives the same for the same records, whatever was asked before, and leaves them alone.",
    "one by one": "what a record contributes does not depend on the other records of a call, to the last bit.",
    "integer total": "`integer_total` is the sum over records of trunc(contribution * factor), exactly.",
    "silence": "`contribution` neither warns nor prints: whatever it says would tell about records.",
    "requests": "`next_request` asks for queries over the domain's columns, splits them over their blocks, and ends.",
    "budget": "the rounds ask for at most the whole budget, and each divides at most its own share over its blocks.",
    "whole budget": "the rounds ask for all of the budget: what is left would be paid for and never used.",
    "next request": "`next_request` is a function of the context, the rounds and the generator alone.",
    "equal draws": "with equal noisy answers, neighbouring tables are asked the same and as much noise is drawn.",
    "estimate": "`estimate` is finite whatever the table, an empty one too, and the same for the same rounds.",
    "support": "`support` gives as many points of the domain as were asked for, the same for the same generator.",
    "refit": "`refit` is finite, shaped like `estimate`, and the same for the same generator.",
    "weights": "`refit` gives the same where a weighted point is split into two of half its weight.",
    "inference": "a transcript can be inferred from and refitted, in the user's units.",
}


class Broken(Exception):
    """A check does not hold; the message says where one sees it and what to do."""

    def __init__(self, message: str, *, check: str | None = None) -> None:
        self.check = check
        super().__init__(message)


def require(holds: object, message: str, *, check: str | None = None) -> None:
    """Say that a check, or another one that is met on its way, is broken unless something holds."""
    if not holds:
        raise Broken(message, check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one rule of the contract.

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
        n, places = len(self.checks), sum(check.n_places for check in self.checks)
        if self.passed:
            return f"{self.subject} keeps its contract: {n} checks in {places} places."
        parts = [f"{self.subject} breaks its contract in {len(self.failures)} of {n} checks."]
        parts += [f"{check.name}: {check.rule}\n  {check.message}" for check in self.failures]
        return "\n\n".join(parts)


class Recorder:
    """Tries checks and keeps what came of them: in how many places each was tried, and how it broke."""

    def __init__(self, subject: str) -> None:
        self.subject, self.places, self.broken = subject, Counter[str](), defaultdict[str, list[str]](list)

    def run(self, name: str, where: str, check: Callable[..., None], *given: Any) -> bool:
        """Try one check of something in one place; an error of the code under test counts as broken."""
        self.places[name] += 1
        try:
            # Warnings are looked at by one check of their own; in the others they would hide what is wrong.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                check(*given)
            return True
        except Broken as broken:
            name, message = broken.check or name, str(broken)
        except Exception as error:  # the code under test may raise anything
            message = f"{_place(error)} raised {type(error).__name__}: {error}"
        self.places.setdefault(name, 1)
        self.broken[name].append(f"{where}: {message}" if where else message)
        return False

    def report(self, raise_on_failure: bool) -> Report:
        """Put everything together, and raise if asked to."""
        checks = []
        for name in (name for name in RULES if name in self.places):
            first, *others = self.broken.get(name, [""])
            more = f" (So it is in {len(others)} more {'place' if len(others) == 1 else 'places'}.)" if others else ""
            passed, n_places = name not in self.broken, self.places[name]
            checks.append(Check(name=name, rule=RULES[name], passed=passed, n_places=n_places, message=first + more))
        report = Report(subject=self.subject, checks=tuple(checks))
        if raise_on_failure and not report.passed:
            raise ContractViolation(report)
        return report


def _place(error: Exception) -> str:
    """The innermost function of the traceback that is not ours: the one that the author can look at."""
    name, trace = "the code under test", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(("recoup.testing", "numpy")):
            name = f"{code.co_name} (line {trace.tb_lineno} of {code.co_filename.rsplit('/', 1)[-1]})"
        trace = trace.tb_next
    return name


def check_protocol(value: object, names: tuple[str, ...], kind: str) -> None:
    """Every name that Recoup uses must be there."""
    missing = [name for name in names if not hasattr(value, name)]
    hint = f"a base class in recoup.custom (Simple{kind.capitalize()}) brings most of it."
    what = f"{type(value).__name__} has no {', '.join(missing)}, so it is no {kind}."
    require(not missing, f"{what} Add what is missing; {hint}")
    type_name = getattr(value, "type_name", None)
    hint = "type_name must be a text, the name under which transcripts know the class, such as 'my-median'."
    require(isinstance(type_name, str) and type_name, hint)


def check_frozen(value: object) -> None:
    """Nothing in the value can be set or changed."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    hint = f"{type(value).__name__} is not frozen. Write @dataclass(frozen=True) above the class."
    require(parameters is not None and parameters.frozen, hint)
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
    held |= getattr(value, "__dict__", {})
    for name, item in held.items():
        what = f"the array {name!r} can be written to, so the value can change after it was asked."
        hint = "Keep a copy with setflags(write=False), or derive from a base class in recoup.custom, which does it."
        require(not (isinstance(item, np.ndarray) and item.flags.writeable), f"{what} {hint}")
        hint = f"{name!r} is a {type(item).__name__}, in which state can hide between calls. Use a tuple or an array."
        require(not isinstance(item, (list, dict, set, bytearray)), hint)


def is_known(value: Any, registry: Mapping[str, type]) -> bool:
    """Whether files may name its class."""
    return registry.get(value.type_name) is type(value)


def check_json(value: Any, registry: Mapping[str, type], read: Callable[[Any], Any]) -> Any:
    """The value's description is JSON, names its type, and is read back as the same, which is returned."""
    try:
        written = json.loads(json.dumps(value.to_json(), allow_nan=False))
    except (TypeError, ValueError) as error:
        hint = "Write arrays with .tolist() and numbers as int or float, and let them be finite."
        raise Broken(f"to_json gives something that is not JSON ({error}). {hint}") from None
    hint = f'to_json must give a dict with "type": {value.type_name!r}, by which it is read back.'
    require(isinstance(written, dict) and written.get("type") == value.type_name, hint)
    name, taken = type(value).__name__, registry.get(value.type_name)
    why = "is not registered" if taken is None else f"has a type_name that is taken by {taken.__qualname__}"
    hint = f"Call recoup.register({name}) below the class, in every program that reads them."
    require(is_known(value, registry), f"{name} {why}, so its transcripts cannot be read. {hint}")
    again = read(written)
    same = json.loads(json.dumps(again.to_json())) == written
    require(same, "what from_json reads back has another to_json: a field is lost or changed on the way.")
    return again
