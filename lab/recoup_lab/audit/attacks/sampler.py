"""Listening at OpenDP's samplers: what goes in, what comes out, and what happens if their answers are held fixed.

Everything random that protects people passes through two functions that make OpenDP's measurements. Here they are
wrapped from outside, so the code under audit stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

import recoup.privacy.mechanism

Kind = Literal["laplace", "gaussian", "selection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One call of a sampler.

    Attributes:
        kind: which sampler.
        exact: the integers that went in.
        answers: the integers that came out.
        scale: of the noise.
        n_winners: of a selection; else 0.
    """

    kind: Kind
    exact: tuple[int, ...]
    answers: tuple[int, ...]
    scale: float
    n_winners: int = 0

    @property
    def public(self) -> tuple[str, int, float, int]:
        """What must be the same for every table: kind, number of values, scale, number of winners."""
        return self.kind, len(self.exact), self.scale, self.n_winners

    def price(self, distance: int) -> Fraction:
        """What it costs between tables whose integers are so far apart: epsilon, or rho of Gaussian noise."""
        ratio = Fraction(distance) / Fraction(self.scale)
        if self.kind == "gaussian":
            return ratio * ratio / 2
        return ratio * max(self.n_winners, 1)


@dataclass(slots=True)
class Heard:
    """All draws while it listened, in order."""

    draws: list[Draw] = field(default_factory=list)

    @property
    def public(self) -> list[tuple[str, int, float, int]]:
        """What must be the same for every table."""
        return [draw.public for draw in self.draws]


@contextmanager
def listening(*, held: int | None = None, before: Callable[[Draw], None] | None = None) -> Iterator[Heard]:
    """Hear every draw of secure noise inside the block.

    Args:
        held: a seed: then the samplers' answers depend on nothing but it and the number of the draw, so that whatever
            else differs between two tables came past the noise.
        before: called with each draw before it is made; its answers are empty.

    Returns:
        What was heard so far.

    >>> from recoup.privacy.mechanism import SecureNoise
    >>> with listening(held=3) as heard:
    ...     same = SecureNoise().laplace([5], 2.0**30) == SecureNoise().laplace([5], 2.0**30)
    >>> same, heard.public[0]
    (False, ('laplace', 1, 1073741824.0, 0))
    """
    heard = Heard()
    mechanism = recoup.privacy.mechanism
    values, choices = mechanism._opendp, mechanism._opendp_selection

    def watched_values(kind: Any, scale: float) -> _Watched:
        return _Watched(values(kind, scale), kind, scale, 0, heard, held, before)

    def watched_choices(n_winners: int, scale: float) -> _Watched:
        return _Watched(choices(n_winners, scale), "selection", scale, n_winners, heard, held, before)

    mechanism._opendp, mechanism._opendp_selection = watched_values, watched_choices  # type: ignore[assignment]
    try:
        yield heard
    finally:
        mechanism._opendp, mechanism._opendp_selection = values, choices


class _Watched:
    """Stands in for a measurement of OpenDP."""

    def __init__(
        self,
        measurement: Any,
        kind: Kind,
        scale: float,
        n_winners: int,
        heard: Heard,
        held: int | None,
        before: Callable[[Draw], None] | None,
    ) -> None:
        self._measurement, self._kind, self._scale, self._n_winners = measurement, kind, scale, n_winners
        self._heard, self._held, self._before = heard, held, before

    def map(self, distance: Any) -> Any:
        """What it costs, by OpenDP."""
        return self._measurement.map(distance)

    def __call__(self, exact: Sequence[int]) -> list[int]:
        def draw(answers: Sequence[int]) -> Draw:
            given = tuple(int(v) for v in exact)
            return Draw(
                kind=self._kind, exact=given, answers=tuple(answers), scale=self._scale, n_winners=self._n_winners
            )

        if self._before is not None:
            self._before(draw(()))
        answers = [int(v) for v in (self._measurement(list(exact)) if self._held is None else self._fixed(len(exact)))]
        self._heard.draws.append(draw(answers))
        return answers

    def _fixed(self, n: int) -> list[int]:
        rng = np.random.default_rng([self._held or 0, len(self._heard.draws)])
        if self._kind == "selection":
            return [int(i) for i in rng.permutation(n)[: self._n_winners]]
        draws = rng.laplace(size=n) if self._kind == "laplace" else rng.normal(size=n)
        # Half of them are moved to where counts of a few records are, so that algorithms go the way that they usually
        # go; the others stay around zero, where nothing is clipped.
        moved = 6 * recoup.privacy.mechanism.SENSITIVITY * (np.arange(n) % 2 == 0)
        return [int(v) for v in np.rint(0.5 * draws * self._scale) + moved]
