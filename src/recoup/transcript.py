"""Everything that was released, and nothing else: queries, noisy integers, noise scales and prices, as versioned JSON.

The file holds no seed of noise and nothing of the records. Reading it never imports a name from it: types come from
closed registries. Evolution rules: fields are never removed and never change their meaning; a new field is optional or
raises `SCHEMA_VERSION`; files of every version that was ever written are kept as golden files and load for ever.
`docs/transcript.md` describes each field.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recoup.accounting import Price, epsilon_of_rho
from recoup.context import NEIGHBOURS, Context
from recoup.domain import domain_from_json
from recoup.errors import ParameterError, RecoupError, TranscriptFormatError, TranscriptVersionError
from recoup.files import write_whole
from recoup.mechanism import MECHANISMS, Mechanism
from recoup.queries.base import Array, Query
from recoup.queries.registry import query_from_json
from recoup.version import __version__

SCHEMA_VERSION = 1
FORMAT = "recoup-transcript"
NOT_PRIVATE = "NOT PRIVATE: simulated noise"
_LONGEST_FRACTION = 20_000  # characters; a hostile file must not make us parse unbounded integers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One query with its noisy answer.

    Attributes:
        query: what was asked.
        integers: the noisy integer totals as they left the mechanism.
        weights: the integer sensitivity of each block of the answer.
        scale: the noise scale of the integers.
        price: what the round cost, by OpenDP's privacy map.
        share: its share of the total budget.
        units: what one step of each integer is worth in the unit domain.
    """

    query: Query
    integers: tuple[int, ...]
    weights: tuple[int, ...]
    scale: float
    price: Price
    share: Fraction
    units: Array = field(repr=False)

    @classmethod
    def of(
        cls,
        context: Context,
        *,
        query: Query,
        integers: tuple[int, ...],
        weights: tuple[int, ...],
        scale: float,
        price: Price,
        share: Fraction,
    ) -> Self:
        """Assemble a round; the units follow from query, domain, mechanism and weights."""
        factors = context.noise.factors(query.sensitivity(context.domain), weights)
        units = 1.0 / factors
        units.setflags(write=False)
        return cls(
            query=query, integers=integers, weights=weights, scale=scale, price=price, share=share, units=units
        )  # fmt: skip

    @property
    def noisy(self) -> Array:
        """The noisy answer in the unit domain's units."""
        return np.array([float(v) for v in self.integers]) * self.units

    @property
    def scales(self) -> Array:
        """The noise scale of each value of `noisy` (Laplace: b; Gaussian: the standard deviation)."""
        return self.scale * self.units

    @property
    def mechanism(self) -> str:
        """The law of its noise, "laplace" or "gaussian": its price is measured accordingly."""
        return "laplace" if self.price.measure == "pure" else "gaussian"

    @property
    def noise(self) -> Mechanism:
        """The mechanism itself."""
        return MECHANISMS[self.mechanism]

    def block(self, name: str, context: Context) -> slice:
        """Where a block of the answer lies."""
        start = 0
        for block in self.query.sensitivity(context.domain).blocks:
            if block.name == name:
                return slice(start, start + block.size)
            start += block.size
        raise ParameterError(f"the query has no block {name!r}.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transcript:
    """All rounds of a release, with the terms under which they were released.

    Attributes:
        context: domain, budget, mechanism, declared number of records.
        algorithm: the algorithm's public description.
        rounds: the queries with their noisy answers.
        simulated: true if the noise was simulated, so that nothing here is private.
        lost: shares of the budget that a crash spent without an answer.
        pending: the share of a round that was about to be answered when the file was written.
        library_version: of Recoup, when it was written.
    """

    context: Context
    algorithm: Mapping[str, Any]
    rounds: tuple[Round, ...] = ()
    simulated: bool
    lost: tuple[Fraction, ...] = ()
    pending: Fraction | None = None
    library_version: str = __version__

    @property
    def shares_spent(self) -> Fraction:
        """The part of the total budget that is spent, answered or lost."""
        return sum((r.share for r in self.rounds), Fraction(0)) + sum(self.lost, Fraction(0)) + (self.pending or 0)

    @property
    def amount_spent(self) -> Fraction:
        """What was spent, as epsilon, or rho for Gaussian noise.

        Answered rounds count with their price by OpenDP's privacy map, rounds that a crash lost with their whole share.
        """
        lost = sum(self.lost, Fraction(0)) + (self.pending or 0)
        answered = sum((r.price.amount for r in self.rounds), Fraction(0))
        return answered + (self.context.budget.amount * lost if lost else 0)

    @property
    def epsilon_spent(self) -> Fraction:
        """What was spent as an epsilon, at the transcript's delta; lost rounds included."""
        amount = self.amount_spent
        return amount if self.context.budget_measure == "pure" else epsilon_of_rho(amount, self.context.delta)

    @property
    def statement(self) -> str:
        """Whether this is private at all, in words that go wherever it is printed, saved or drawn."""
        return NOT_PRIVATE if self.simulated else "differentially private"

    @property
    def privacy(self) -> dict[str, Any]:
        """The privacy statement: what is promised, to whom, under which assumptions."""
        c = self.context
        return {
            "statement": self.statement,
            "epsilon": float(c.epsilon),
            "delta": float(c.delta),
            "neighbours": NEIGHBOURS,
            "unit": "one record" if c.records_per_person == 1 else f"{c.records_per_person} records of one person",
            "bounds": {"low": list(c.domain.low), "high": list(c.domain.high), "columns": c.domain.columns},
            "domain": c.domain.kind,
            "mechanism": c.mechanism,
            "noise": "simulated" if self.simulated else "secure",
            "spent": float(self.epsilon_spent),
            "version": self.library_version,
        }

    def with_round(self, answered: Round) -> Transcript:
        """The transcript with one more round."""
        return replace(self, rounds=(*self.rounds, answered), pending=None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transcript durably: to a temporary file, flushed to disk, then renamed.

        Guarantees: after a crash at any point the path holds the old file or the new one, never a part.
        """
        write_whole(path, json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Transcript:
        """Read a transcript back; what is not exactly a transcript is refused."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise TranscriptFormatError(f"{path} is not a text file, so not a transcript.") from None
        except OSError as error:
            raise TranscriptFormatError(f"{path} cannot be read: {error.strerror}.") from None
        try:
            value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constants)
        except (ValueError, RecursionError):
            raise TranscriptFormatError(f"{path} is not complete JSON: it was truncated, or is another file.") from None
        return cls.from_json(value)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        body = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "library_version": self.library_version,
            "privacy": self.statement,
            "simulated": self.simulated,
            "neighbours": NEIGHBOURS,
            "context": self.context.to_json(),
            "algorithm": dict(self.algorithm),
            "rounds": [_round_to_json(r, self.context) for r in self.rounds],
            "lost": [str(share) for share in self.lost],
            "pending": None if self.pending is None else str(self.pending),
        }
        return body | {"checksum": _checksum(body)}

    @classmethod
    def from_json(cls, value: object) -> Transcript:
        """Read a transcript back from its JSON value."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise TranscriptFormatError("this is not a Recoup transcript.")
        version = value.get("schema_version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise TranscriptFormatError("the transcript's schema_version is not a whole number.")
        if version > SCHEMA_VERSION:
            raise TranscriptVersionError(
                f"the transcript has schema version {version}, this Recoup reads up to {SCHEMA_VERSION}: "
                "update Recoup to read it."
            )
        body = {name: item for name, item in value.items() if name != "checksum"}
        try:
            checksum = _checksum(body)
        except (TypeError, ValueError, RecursionError):
            raise TranscriptFormatError("the transcript holds a value that is not JSON, or nests too deeply.") from None
        if value.get("checksum") != checksum:
            raise TranscriptFormatError("the transcript was changed after it was written: its checksum does not match.")
        try:
            return _from_body(body)
        except TranscriptFormatError:
            raise
        except RecoupError as error:
            raise TranscriptFormatError(f"the transcript cannot be used: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise TranscriptFormatError("the transcript misses a field, or one has the wrong type.") from None


def _from_body(body: Mapping[str, Any]) -> Transcript:
    terms = body["context"]
    context = Context(
        domain=domain_from_json(terms["domain"]),
        epsilon=_fraction(terms["epsilon"]),
        delta=_fraction(terms["delta"]),
        mechanism=terms["mechanism"],
        n_records=terms["n_records"],
        records_per_person=terms["records_per_person"],
    )
    if body["neighbours"] != NEIGHBOURS or not isinstance(body["simulated"], bool):
        raise TranscriptFormatError("the transcript's neighbours or noise are of an unknown kind.")
    if not isinstance(body["algorithm"], dict) or not isinstance(body["library_version"], str):
        raise TranscriptFormatError("the transcript's algorithm or version is of the wrong type.")
    if not isinstance(body["rounds"], list) or not isinstance(body["lost"], list):
        raise TranscriptFormatError("the transcript's rounds and lost shares must be lists.")
    transcript = Transcript(
        context=context,
        algorithm=body["algorithm"],
        rounds=tuple(_round_from_json(item, context) for item in body["rounds"]),
        simulated=body["simulated"],
        lost=tuple(_fraction(share) for share in body["lost"]),
        pending=None if body["pending"] is None else _fraction(body["pending"]),
        library_version=body["library_version"],
    )
    if transcript.shares_spent > 1:
        raise TranscriptFormatError("the transcript's rounds ask for more than the whole budget.")
    return transcript


def _round_to_json(r: Round, context: Context) -> dict[str, Any]:
    blocks, start = [], 0
    for block, weight in zip(r.query.sensitivity(context.domain).blocks, r.weights, strict=True):
        units = r.units[start : start + block.size]
        unit = float(units[0]) if (units == units[0]).all() else units.tolist()
        blocks.append({"name": block.name, "size": block.size, "weight": weight, "unit": unit})
        start += block.size
    return {
        "query": r.query.to_json(),
        "noisy": list(r.integers),
        "blocks": blocks,
        "scale": r.scale,
        "price": {"measure": r.price.measure, "amount": str(r.price.amount)},
        "share": str(r.share),
    }


def _round_from_json(item: Mapping[str, Any], context: Context) -> Round:
    query = query_from_json(item["query"])
    sensitivity = query.sensitivity(context.domain)
    integers, scale, price = item["noisy"], item["scale"], item["price"]
    if not isinstance(integers, list) or len(integers) != query.size:
        raise TranscriptFormatError("a round's noisy answer does not have the size of its query.")
    if any(isinstance(v, bool) or not isinstance(v, int) or abs(v) >= 2**63 for v in integers):
        raise TranscriptFormatError("a round's noisy answer must be 64-bit integers.")
    if [(b["name"], b["size"]) for b in item["blocks"]] != [(b.name, b.size) for b in sensitivity.blocks]:
        raise TranscriptFormatError("a round's blocks are not those of its query.")
    weights = [b["weight"] for b in item["blocks"]]
    if any(isinstance(w, bool) or not isinstance(w, int) or not 0 < w <= context.sensitivity for w in weights):
        raise TranscriptFormatError("a block's weight must be a positive integer within the round's sensitivity.")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < 2**62:
        raise TranscriptFormatError("a round's noise scale must be a positive number.")
    if price["measure"] != context.budget_measure:
        raise TranscriptFormatError("a round's price is of another measure than the transcript's mechanism.")
    amount = _fraction(price["amount"])
    ratio = context.distance / float(scale)
    expected = ratio if price["measure"] == "pure" else 0.5 * ratio * ratio
    if not abs(float(amount) - expected) <= 1e-9 * expected:
        raise TranscriptFormatError("a round's price does not follow from its noise scale.")
    answered = Round.of(
        context,
        query=query,
        integers=tuple(integers),
        weights=tuple(weights),
        scale=float(scale),
        price=Price(measure=price["measure"], amount=amount),
        share=_fraction(item["share"]),
    )
    if not 0 < answered.share <= 1 or amount > context.budget.amount * answered.share:
        raise TranscriptFormatError("a round's share does not cover its price.")
    stored: NDArray[np.float64] = np.concatenate([np.broadcast_to(b["unit"], (b["size"],)) for b in item["blocks"]])
    if stored.shape != answered.units.shape or not np.allclose(stored, answered.units, rtol=1e-9, atol=0):
        raise TranscriptFormatError("a block's unit does not follow from its weight and its query.")
    return answered


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str) or len(text) > _LONGEST_FRACTION or not set(text) <= set("0123456789/"):
        raise TranscriptFormatError("budgets must be fractions written as text, such as '1/10'.")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise TranscriptFormatError("budgets must be fractions written as text, such as '1/10'.") from None


def _checksum(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _no_constants(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
