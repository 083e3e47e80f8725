"""Code that looks around: an algorithm that is not Recoup's walks from where it is called to the records.

It searches frames, the heap, and what a process is given (arguments, environment, open files, folder), and tells what
it found by the query that it asks, by the law of its noise and by its own description. In a process of its own it must
find nothing; in the curator's process it must find the record each time, or the attack itself is broken.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.domain import Domain
from recoup.driver import release
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Law, Request
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.files import NAMED_BOX, csv_of
from recoup_lab.audit.attacks.subjects import ordinary_table
from recoup_lab.audit.findings import Finding

GROUP: Final = "strangers"
ATTACK: Final = "an algorithm that looks around"
_RECORD: Final = 0.7182818284590452  # of the person who is looked for
_FILE: Final = "canary-table.csv"
_BOXES: Final = (dict, list, tuple)  # whose items are looked at
_VARIABLE: Final = "RECOUP_AUDIT_TABLE"


def _holds(value: object, depth: int = 3) -> bool:
    """Whether a value is, or holds, the record or the name of its file."""
    if isinstance(value, str | os.PathLike):
        return _FILE in str(value)
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64 and bool((value == _RECORD).any())
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return any(_holds(item, depth - 1) for item in list(value.values()))
    if isinstance(value, list | tuple):
        return any(_holds(item, depth - 1) for item in value)
    inner = getattr(value, "__dict__", None)
    return isinstance(inner, dict) and _holds(inner, depth - 1)


def _in_frames() -> bool:
    frames: list[FrameType | None] = [sys._getframe(), *sys._current_frames().values()]
    for frame in frames:
        while frame is not None:
            if _holds(dict(frame.f_locals)):
                return True
            frame = frame.f_back
    return False


def _in_the_heap() -> bool:
    # Arrays alone: the name of the file is also a constant of this module.
    held = (items.values() if isinstance(items, dict) else items for items in gc.get_objects() if type(items) in _BOXES)
    return any(_holds(one) for items in held for one in list(items) if isinstance(one, np.ndarray))


def _around() -> bool:
    said = [*sys.argv, *os.environ.values(), os.getcwd()]
    for number in range(64):
        with suppress(OSError):
            said.append(os.readlink(f"/proc/self/fd/{number}"))
    with suppress(OSError):
        said.append(Path("/proc/self/cmdline").read_text(encoding="utf-8", errors="replace"))
    return _holds(said)


_WAYS: Final[Mapping[str, Callable[[], bool]]] = {"frames": _in_frames, "heap": _in_the_heap, "surroundings": _around}


@dataclass(frozen=True)
class Walker(Algorithm):
    """Looks in one way at one moment, and tells what it found."""

    way: str
    moment: str

    type_name: ClassVar[str] = "audit-walker"

    def _found(self, moment: str) -> bool:
        return moment == self.moment and _WAYS[self.way]()

    def to_json(self) -> dict[str, Any]:
        """Its description, with what it found."""
        return {"type": self.type_name, "found": self._found("described")}

    def law(self, domain: Domain, delta: Fraction) -> Law:  # type: ignore[override]
        """Gaussian if it found something."""
        return "gaussian" if self._found("choosing noise") else "laplace"

    def next_request(self, context: Context, rounds: Any, rng: np.random.Generator) -> Request | None:
        """One more cell if it found something."""
        if rounds:
            return None
        sides = (3 if self._found("asking") else 2, 1)
        return Request(query=GridQuery(sides=sides), share=Fraction(1), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Any) -> Array:
        """Its counts."""
        counts: Array = rounds[-1].noisy
        return counts


def attack(effort: Effort) -> Iterator[Finding]:
    """Look around in every way, at every moment at which a release asks an algorithm for something."""
    ways = [(way, "asking") for way in _WAYS] + [("frames", "described"), ("frames", "choosing noise")]
    table = ordinary_table(NAMED_BOX, 20, effort.rng(12))
    table[7, 0] = _RECORD
    for way, moment in ways[:1] + ways[3:] if effort.quick else ways:
        yield _tried(way, moment, table)


def _tried(way: str, moment: str, table: Array) -> Finding:
    walker = Walker(way=way, moment=moment)
    told = {isolate: list(_told(walker, table, isolate)) for isolate in (True, False)}
    found, powerful = any(told[True]), any(told[False])
    control = "" if powerful else "; in the curator's process it found nothing either, so it has no power"
    return Finding(
        group=GROUP,
        attack=ATTACK,
        target=f"{way}, {moment}",
        tries=len(told[True]),
        result=("it found the record" if found else "nothing is found") + control,
        passed=powerful and not found,
        broken=not powerful and not found,
    )


def _told(walker: Walker, table: Array, isolate: bool) -> Iterable[bool]:
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / _FILE
        path.write_bytes(csv_of(table, {}))
        for records in (table, path):
            ledger = Ledger.create(Path(folder) / f"{type(records).__name__}-of-{_FILE}.db", epsilon=1, delta=1e-6)
            os.environ[_VARIABLE] = str(path)
            try:
                domain = NAMED_BOX if records is path else NAMED_BOX.__class__(NAMED_BOX.low, NAMED_BOX.high)
                released = release(
                    walker, records, domain=domain, epsilon=1, delta=1e-6, ledger=ledger, isolate=isolate
                )
            finally:
                del os.environ[_VARIABLE]
            sides = released.rounds[0].query.to_json()["sides"]
            yield released.algorithm["found"] or sides != [2, 1] or released.context.mechanism != "laplace"
