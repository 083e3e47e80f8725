"""One query with its noisy answer, and its JSON: drawn by Recoup as integers, or imported as real numbers.

What Recoup drew carries its price by OpenDP's own privacy map, and a file whose price does not follow from its noise is
refused. What was imported carries numbers that nobody here can check; its price is what noise of that size
would cost here, for comparison, and never a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from recoup.queries.base import Array, Query, check_columns
from recoup.transcript.context import Context

_LONGEST_FRACTION = 20_000  # characters; a hostile file must not make us parse unbounded integers
# Of what is imported: far wider than any use, and narrow enough for the solver's arithmetic.
_LARGEST_VALUE = 1e12
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-6, 1e12
_LARGEST_RATIO = 1e12  # of a value to its noise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One query with its noisy answer.

    Attributes:
        query: what was asked.
        integers: the noisy integer totals as they left the mechanism; none where the answer is imported.
        weights: the integer sensitivity of each block of the answer.
        scale: the noise scale of the integers.
        price: what the round cost, by OpenDP's privacy map; of an imported answer, what such noise would cost here.
        share: its share of the total budget; 0 where it is imported, as nobody knows.
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
        factors = context.noise.factors(query.sensitivity(context.domain), weights)
        units = 1.0 / factors
        units.setflags(write=False)
        return cls(
            query=query, integers=integers, weights=weights, scale=scale, price=price, share=share, units=units
        )  # fmt: skip

    @classmethod
    def of_imported(cls, context: Context, *, query: Query, noisy: ArrayLike, scales: ArrayLike) -> Self:
        """Assemble a round from an imported answer, all in the unit domain.

        Its scales are one for all values, for each block, or for each value. Its price is what noise of these scales
        would cost here, and promises nothing.

        >>> from recoup import Box
        >>> from recoup.queries.counts import GridQuery
        >>> terms = Context(domain=Box([0], [1]), epsilon=Fraction(1))
        >>> found = Round.of_imported(terms, query=GridQuery(sides=(2,)), noisy=[3.5, 7.25], scales=2)
        >>> found.noisy, found.scales, found.price.amount
        (array([3.5 , 7.25]), array([2., 2.]), Fraction(1, 2))
        """
        check_columns(query, context.domain)
        blocks = query.sensitivity(context.domain).blocks
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
        reach, start = [], 0
        for block in blocks:
            bound = block.l1 if context.mechanism == "laplace" else block.l2
            reach.append(context.records_per_person * float(np.max(bound / each[start : start + block.size])))
            start += block.size
        pure = context.budget_measure == "pure"
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
        """The same query with another answer: exact values and fresh noise of the same scales, which protects nobody.

        >>> from recoup import Box, KMeans, release
        >>> answered = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=1e6).rounds[0]
        >>> answered.simulated(np.array([4.0, 6.0, 1.0, -1.0]), np.random.default_rng(0)).noisy.round()
        array([ 4.,  6.,  1., -1.])
        """
        draw = rng.laplace if self.mechanism == "laplace" else rng.normal
        steps = exact / self.units + self.scale * draw(size=len(exact))
        if self.imported is not None:
            return replace(self, imported=steps * self.units)
        return replace(self, integers=tuple(int(value) for value in np.rint(steps)))


def round_to_json(r: Round, context: Context) -> dict[str, Any]:
    """A JSON value that `round_from_json` reads back."""
    if r.imported is not None:
        scales = r.scales
        same = bool((scales == scales[0]).all())
        return {
            "query": r.query.to_json(),
            "noisy": r.imported.tolist(),
            "scales": float(scales[0]) if same else scales.tolist(),
        }
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
    """Read an exact fraction that is written as text.

    >>> fraction_from_json("1/10")
    Fraction(1, 10)
    """
    if not isinstance(text, str) or len(text) > _LONGEST_FRACTION or not set(text) <= set("0123456789/"):
        raise TranscriptFormatError("budgets must be fractions written as text, such as '1/10'.")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise TranscriptFormatError("budgets must be fractions written as text, such as '1/10'.") from None


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
