"""What a planned round costs and how noisy it is: the one place that knows, for plans and for the curator alike."""

from __future__ import annotations

from dataclasses import dataclass

from recoup.errors import ParameterError
from recoup.privacy.price import Price
from recoup.queries.base import Array, Sensitivity, check_sensitivity
from recoup.transcript.context import Context, Request


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
    """Price a request without looking at a record; what cannot be answered on these terms is refused.

    >>> from fractions import Fraction
    >>> from recoup.domain import Box
    >>> from recoup.queries.counts import GridQuery
    >>> terms = Context(domain=Box([0], [1]), epsilon=Fraction(1))
    >>> quote(terms, Request(query=GridQuery(sides=(2,)), share=Fraction(1, 2), split={"count": Fraction(1)})).scales
    array([2., 2.])
    """
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
