"""What benchmarks find, as values: races of one shape each, gathered into parts that were run in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self, get_args

PartName = Literal["whole", "release", "inference", "streaming", "persons", "databases", "spark"]
PARTS: Final[tuple[PartName, ...]] = get_args(PartName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Contestants that took turns on the same records.

    Attributes:
        shape: what was raced on: numbers of records, columns, clusters, ...
        seconds: the best of each contestant; None: not measured.
        facts: what else was found, such as peak memory in megabytes.

    >>> race = Race(shape={"n_records": 10}, seconds={"ours": 1.0, "theirs": 4.0, "absent": None})
    >>> race.ratio("theirs", "ours"), race.ratio("absent", "ours")
    (4.0, None)
    """

    shape: dict[str, int | str]
    seconds: dict[str, float | None]
    facts: dict[str, Any] = field(default_factory=dict)

    def ratio(self, of: str, to: str) -> float | None:
        """How many times as long one contestant took as another; None if either was not measured."""
        a, b = self.seconds.get(of), self.seconds.get(to)
        return None if a is None or b is None else a / b


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the benchmark, run in one go on one machine.

    Attributes:
        name: which part.
        quick: whether sizes were reduced to finish in a minute.
        machine: on what; the load is that at the start.
        races: what was raced.
        facts: what was derived or measured beside the races.
        notes: sentences for the reader, such as why something was not measured.
    """

    name: PartName
    quick: bool
    machine: dict[str, Any]
    races: tuple[Race, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a part back from its JSON value."""
        races = tuple(Race(**race) for race in value["races"])
        return cls(**{**value, "races": races, "notes": tuple(value["notes"])})
