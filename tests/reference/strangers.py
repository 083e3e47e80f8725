"""Algorithms by strangers, as a release may meet them: honest ones, and those that fail, lie or look around."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from own_queries import First

from recoup import KMeans
from recoup.custom import Request, SimpleAlgorithm
from recoup.errors import ParameterError
from recoup.queries.counts import GridQuery


class Pair(NamedTuple):
    """Two numbers with names."""

    first: float
    second: float


class Honest(KMeans):
    """Recoup's own under another class, so that it is a stranger's; its starts are drawn."""

    type_name: ClassVar[str] = "test-honest"


@dataclass(frozen=True)
class Asks(SimpleAlgorithm):
    """Asks one grid after the other, of as many cells as its fields and a generator say."""

    n_rounds: int = 3
    pair: Pair | None = None
    sides: np.ndarray | None = None
    type_name: ClassVar[str] = "test-asks"

    def to_json(self):
        """Its description."""
        return {"type": self.type_name, "n_rounds": self.n_rounds}

    def next_request(self, context, rounds, rng):
        """A grid, whose size depends on everything that an algorithm is given."""
        if len(rounds) == self.n_rounds:
            return None
        print("what is printed goes nowhere")
        more = int(rng.spawn(1)[0].integers(5)) + int(rng.integers(7)) + sum(abs(r.integers[0]) % 3 for r in rounds)
        sides = (2 + more, *(1 for _ in range(context.domain.n_columns - 1)))
        return Request(query=GridQuery(sides=sides), share=Fraction(1, self.n_rounds), split={"count": 1})

    def estimate(self, context, rounds):
        """The last counts."""
        return rounds[-1].noisy

    def refit(self, context, rounds, points, weights, rng):
        """The mean."""
        return np.average(points, axis=0, weights=weights)


@dataclass(frozen=True)
class AsksFirst(Asks):
    """Asks a query that is not Recoup's."""

    type_name: ClassVar[str] = "test-asks-first"

    def next_request(self, context, rounds, rng):
        """The sum of the first column."""
        asked = Request(query=First(context.domain.n_columns), share=Fraction(1, 2), split={"sum": 1})
        return None if len(rounds) == 2 else asked


@dataclass(frozen=True)
class Faulty(Asks):
    """Does something wrong after its first round, or when it is asked for its description."""

    fault: str = "raise"
    type_name: ClassVar[str] = "test-faulty"

    def to_json(self):
        """Its description, which is no JSON for some."""
        described = {"no description": "text", "not json": {"type": object()}, "nan": {"type": "t", "x": float("nan")}}
        return described.get(self.fault, super().to_json())

    def next_request(self, context, rounds, rng):
        """The fault."""
        if not rounds:
            return super().next_request(context, rounds, rng)
        match self.fault:
            case "raise":
                raise RuntimeError("a sentence of its own")
            case "ours":
                raise ParameterError("n_rounds is odd")
            case "exit":
                sys.exit(0)
            case "abort":
                os.abort()
            case "text":
                return "more"
            case "share":
                return Request(query=GridQuery(sides=(2, 1)), share=Fraction(9, 10), split={"count": 1})
            case "garbage" | "huge" | "deep" | "twice" | "other":
                sent = {
                    "garbage": b"\xff\xfe\n",
                    "huge": b"[" + b"0," * 2**25,
                    "deep": b"[" * 10**6 + b"\n",
                    "twice": b'{"value": 1, "value": 2}\n',
                    "other": b'{"value": {"query": {"type": "os.system"}, "share": "1", "split": {}}}\n',
                }[self.fault]
                frame = sys._getframe()
                while "outgoing" not in frame.f_locals:
                    frame = frame.f_back
                frame.f_locals["outgoing"].write(sent)
                frame.f_locals["outgoing"].flush()
        return None


class Hooked(KMeans):
    """Runs code of its own wherever Python asks an object about itself, and keeps who called."""

    type_name: ClassVar[str] = "test-hooked"
    callers: ClassVar[list[str]] = []

    def _called(self):
        Hooked.callers.append(sys._getframe(2).f_code.co_name)

    def __getstate__(self):
        """For pickles."""
        self._called()
        return {}

    def __reduce_ex__(self, protocol):
        """For pickles."""
        self._called()
        return super().__reduce_ex__(protocol)

    def __getattribute__(self, name):
        """For everything."""
        if name not in ("_called", "__class__"):
            object.__getattribute__(self, "_called")()
        return super().__getattribute__(name)

    def to_json(self):
        """For transcripts."""
        return {"type": "test-hooked", "n_callers": len(Hooked.callers)}

    @property
    def __class__(self):  # type: ignore[override]
        """For isinstance."""
        object.__getattribute__(self, "_called")()
        return KMeans

    @classmethod
    def law(cls, domain, delta):
        """For the law of the noise."""
        Hooked.callers.append("law")
        return "laplace"


class Surroundings(Asks):
    """Says in its description what it finds around it, by names of files and variables, and in frames."""

    type_name: ClassVar[str] = "test-surroundings"

    def to_json(self):
        """What is there."""
        frames, arrays, frame = [], [], sys._getframe()
        while frame is not None:
            frames.append(frame.f_code.co_name)
            arrays += [one for one in frame.f_locals.values() if isinstance(one, np.ndarray)]
            frame = frame.f_back
        open_files = []
        for number in range(100):
            with suppress(OSError):
                open_files.append(os.readlink(f"/proc/self/fd/{number}"))
        return {
            "type": self.type_name,
            "argv": sys.argv,
            "environment": sorted(os.environ),
            "folder": os.getcwd(),
            "files": [name for name in open_files if not name.startswith(("pipe:", "/proc", "/dev/null"))],
            "frames": frames,
            "arrays": len(arrays),
            "main": sorted(vars(sys.modules["__main__"])),
            "modules": [name for name in ("recoup.curator", "recoup.driver", "sqlite3") if name in sys.modules],
        }
