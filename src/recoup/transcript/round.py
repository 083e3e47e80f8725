"""A round: what it will cost (`quote`), then the query with its noisy answer (`Round`), and its JSON.

An answer is drawn by Recoup as integers, or imported as real numbers. What Recoup drew has its price by OpenDP's own
privacy map, and a file whose price does not follow from its noise is refused. What was imported carries numbers that
nobody here can check; its price is what noise of that size would cost here, for comparison, and never a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import ParameterError, TranscriptFormatError
from recoup.privacy.mechanism import MECHANISMS, Mechanism
from recoup.privacy.price import Price
from recoup.queries import query_from_json
from recoup.queries.base import Array, Query, Sensitivity, check_columns, check_sensitivity
from recoup.transcript.context import Context, Request

_LONGEST_FRACTION = 20_000  # characters; a hostile file must not make us parse unbounded integers
# Of what is imported: far wider than any use, and narrow enough for the solver's arithmetic.
_LARGEST_VALUE = 1e12
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-6, 1e12
_LARGEST_RATIO = 1e12  # of a value to its noise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quote:
    """The terms on which a request is answered, all of them public.

    Attributes:
        sensitivity: what one record changes, per block of the answer.
        weights: the integer sensitivity of each block.
        factors: what each value of a contribution is multiplied by before it is truncated to an integer.
        scale: the noise scale of the integers.
        price: what the round costs, by OpenDP's own privacy map.
    """

    sensitivity: Sensitivity
    weights: tuple[int, ...]
    factors: Array
    scale: float
    price: Price

    @property
    def scales(self) -> Array:
        """The noise scale of each value of the answer, in the unit domain."""
        return self.scale / self.factors


def quote(context: Context, request: Request) -> Quote:
    """Price a request without looking at a record, for plans and for the curator alike; what cannot be is refused."""
    sensitivity = request.query.sensitivity(context.domain)
    check_sensitivity(request.query, sensitivity)
    if set(request.split) != set(sensitivity.names):
        raise ParameterError(f"the split names {sorted(request.split)}, the answer has {list(sensitivity.names)}.")
    weights = context.weights(request.split[name] for name in sensitivity.names)
    calibration = context.calibrated(request.share)
    return Quote(
        sensitivity=sensitivity,
        weights=weights,
        factors=context.noise.factors(sensitivity, weights),
        scale=calibration.scale,
        price=calibration.price,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One query with its noisy answer.

    Attributes:
        query: what was asked.
        integers: the noisy integer totals as they left the mechanism; none where the answer is imported.
        weights: the integer sensitivity of each block of the answer.
        scale: the noise scale of the integers.
        price: what the round cost, by OpenDP's privacy map; for an imported answer, what such noise would cost in
            Recoup.
        share: its share of the total budget; 0 where it is imported, because the share is unknown.
        units: what one step of each integer is worth in the unit domain.
        imported: the answer in the unit domain, where it was made elsewhere; its units are then its noise scales.
    """

    query: Query
    integers: tuple[int, ...]
    weights: tuple[int, ...]
    scale: float
    price: Price
    share: Fraction
    units: Array = field(repr=False)
    imported: Array | None = field(default=None, repr=False)

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
        units = 1.0 / context.noise.factors(query.sensitivity(context.domain), weights)
        units.setflags(write=False)
        return cls(query=query, integers=integers, weights=weights, scale=scale, price=price, share=share, units=units)

    @classmethod
    def of_imported(cls, context: Context, *, query: Query, noisy: ArrayLike, scales: ArrayLike) -> Self:
        """Assemble a round from an imported answer, all in the unit domain.

        There is one scale for all values, one per block, or one per value. Its price is what noise of these scales
        would cost in Recoup, and promises nothing.
        """
        check_columns(query, context.domain)
        sensitivity = query.sensitivity(context.domain)
        blocks = sensitivity.blocks
        values = _real(noisy, "a noisy answer")
        if values.shape != (query.size,):
            raise ParameterError(f"a noisy answer of {values.size} values to a query of {query.size}.")
        if not (np.abs(values) <= _LARGEST_VALUE).all():
            raise ParameterError(f"a noisy answer must be finite numbers of at most {_LARGEST_VALUE:g}.")
        given = _real(scales, "noise scales")
        if not ((given >= _SMALLEST_SCALE) & (given <= _LARGEST_SCALE)).all():
            raise ParameterError(
                f"noise scales must be positive numbers between {_SMALLEST_SCALE:g} and {_LARGEST_SCALE:g}: an answer "
                "without noise is not private."
            )
        if given.size == 1:
            each = np.full(query.size, given.ravel()[0])
        elif given.shape == (query.size,):
            each = given
        elif given.shape == (len(blocks),):
            each = np.repeat(given, [block.size for block in blocks])
        else:
            names = ", ".join(f"{block.name} ({block.size})" for block in blocks)
            raise ParameterError(
                f"{given.size} noise scales for a query of {query.size} values: give one, one for each block "
                f"({names}), or one for each value."
            )
        if not (np.abs(values) <= _LARGEST_RATIO * each).all():
            raise ParameterError(f"a noisy answer is more than {_LARGEST_RATIO:g} times its noise: check the scales.")
        pure = context.budget_measure == "pure"
        reach = [
            context.records_per_person * float(np.max((block.l1 if pure else block.l2) / each[part]))
            for block, part in sensitivity.parts()
        ]
        amount = sum(reach) if pure else 0.5 * sum(part**2 for part in reach)
        whole = max(reach)
        values.setflags(write=False)
        each.setflags(write=False)
        return cls(
            query=query,
            integers=(),
            weights=tuple(max(1, round(context.sensitivity * part / whole)) for part in reach),
            scale=1.0,
            price=Price(measure=context.budget_measure, amount=Fraction(amount)),
            share=Fraction(0),
            units=each,
            imported=values,
        )

    @property
    def noisy(self) -> Array:
        """The noisy answer in the unit domain's units."""
        if self.imported is not None:
            return self.imported
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
        for block, part in self.query.sensitivity(context.domain).parts():
            if block.name == name:
                return part
        raise ParameterError(f"the query has no block {name!r}.")

    def price_of_blocks(self, context: Context) -> dict[str, float]:
        """How its price is split over the blocks of the answer, by their names."""
        parts = np.array(self.weights, dtype=np.float64) ** (1 if context.budget_measure == "pure" else 2)
        names = self.query.sensitivity(context.domain).names
        return dict(zip(names, (float(self.price.amount) * float(part) for part in parts / parts.sum()), strict=True))

    def simulated(self, exact: Array, rng: np.random.Generator) -> Round:
        """The same query with another answer: exact values and fresh noise of the same scales, for experiments."""
        draw = rng.laplace if self.mechanism == "laplace" else rng.normal
        steps = exact / self.units + self.scale * draw(size=len(exact))
        if self.imported is not None:
            return replace(self, imported=steps * self.units)
        return replace(self, integers=tuple(int(value) for value in np.rint(steps)))


def round_to_json(r: Round, context: Context) -> dict[str, Any]:
    """A JSON value that `round_from_json` reads back."""
    if r.imported is not None:
        return {"query": r.query.to_json(), "noisy": r.imported.tolist(), "scales": _one_or_all(r.scales)}
    parts = r.query.sensitivity(context.domain).parts()
    return {
        "query": r.query.to_json(),
        "noisy": list(r.integers),
        "blocks": [
            {"name": block.name, "size": block.size, "weight": weight, "unit": _one_or_all(r.units[part])}
            for (block, part), weight in zip(parts, r.weights, strict=True)
        ],
        "scale": r.scale,
        "price": {"measure": r.price.measure, "amount": str(r.price.amount)},
        "share": str(r.share),
    }


def _one_or_all(values: Array) -> float | list[float]:
    return float(values[0]) if (values == values[0]).all() else values.tolist()


def imported_round_from_json(item: Mapping[str, Any], context: Context) -> Round:
    """Read back a round that was made elsewhere."""
    if set(item) != {"query", "noisy", "scales"}:
        raise TranscriptFormatError("an imported round holds query, noisy and scales, and nothing else.")
    query = query_from_json(item["query"])
    if not isinstance(item["noisy"], list):
        raise TranscriptFormatError("a round's noisy answer must be a list of numbers.")
    try:
        return Round.of_imported(context, query=query, noisy=item["noisy"], scales=item["scales"])
    except ParameterError as error:
        raise TranscriptFormatError(f"an imported round cannot be used: {error}") from None


def round_from_json(item: Mapping[str, Any], context: Context) -> Round:
    """Read back a round that Recoup drew; what does not follow from the rest of it is refused."""
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
    amount = fraction_from_json(price["amount"])
    ratio = context.distance / float(scale)
    expected = ratio if price["measure"] == "pure" else 0.5 * ratio * ratio
    # An infinite price equals no number, yet differs from none by more than a part of itself.
    if not (isfinite(expected) and abs(float(amount) - expected) <= 1e-9 * expected):
        raise TranscriptFormatError("a round's price does not follow from its noise scale.")
    answered = Round.of(
        context,
        query=query,
        integers=tuple(integers),
        weights=tuple(weights),
        scale=float(scale),
        price=Price(measure=price["measure"], amount=amount),
        share=fraction_from_json(item["share"]),
    )
    if not 0 < answered.share <= 1 or amount > context.budget.amount * answered.share:
        raise TranscriptFormatError("a round's share does not cover its price.")
    stored: NDArray[np.float64] = np.concatenate([np.broadcast_to(b["unit"], (b["size"],)) for b in item["blocks"]])
    if stored.shape != answered.units.shape or not np.allclose(stored, answered.units, rtol=1e-9, atol=0):
        raise TranscriptFormatError("a block's unit does not follow from its weight and its query.")
    return answered


def fraction_from_json(text: object) -> Fraction:
    """Read an exact fraction that is written as text."""
    if isinstance(text, str) and len(text) <= _LONGEST_FRACTION and set(text) <= set("0123456789/"):
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(text)
    raise TranscriptFormatError("budgets must be fractions written as text, such as '1/10'.")


def _real(values: ArrayLike, what: str) -> Array:
    """A copy as numbers: text that reads as a number is not one, and neither is true."""
    try:
        array = np.array(values)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} must be numbers.") from None
    if array.dtype.kind not in "iuf" or array.ndim > 1 or array.size == 0:
        raise ParameterError(f"{what} must be numbers in a list.")
    if isinstance(values, list | tuple) and any(isinstance(v, bool | np.bool_) for v in values):
        raise ParameterError(f"{what} must be numbers: true and false are none.")
    return array.astype(np.float64)
