"""How cost grows: exponents fitted to measured seconds by least squares between logarithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recoup.errors import ParameterError
from recoup_lab.bench.results import Race


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A power law, seconds = constant * product of factor ** exponent.

    Attributes:
        exponents: one for each factor.
        misfit: the typical factor between a measured time and the law (1 is perfect).
        n_points: how many times were fitted.
    """

    exponents: dict[str, float]
    misfit: float
    n_points: int

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


def fit_growth(shapes: Sequence[Mapping[str, float]], seconds: Sequence[float]) -> Growth:
    """Fit one exponent to each factor, such as numbers of records and clusters, by least squares of logarithms.

    Raises:
        ParameterError: the measurements cannot tell the factors apart, for example because one never varies.

    >>> shapes = [{"n": n, "k": k} for n in (10, 20) for k in (3, 9)]
    >>> growth = fit_growth(shapes, [1e-6 * s["n"] * s["k"] ** 0.5 for s in shapes])
    >>> {name: round(exponent, 3) for name, exponent in growth.exponents.items()}, round(growth.misfit, 3)
    ({'n': 1.0, 'k': 0.5}, 1.0)
    """
    names = list(shapes[0]) if shapes else []
    design = np.array([[1.0, *(np.log(shape[name]) for name in names)] for shape in shapes])
    if not names or np.linalg.matrix_rank(design) < 1 + len(names):
        raise ParameterError(
            f"{len(shapes)} measurement(s) cannot tell the growth with {', '.join(names) or 'nothing'}."
        )
    logs = np.log(np.array(seconds, dtype=np.float64))
    fitted, *_ = np.linalg.lstsq(design, logs, rcond=None)
    n_free = max(1, len(logs) - design.shape[1])
    misfit = np.exp(np.sqrt(((logs - design @ fitted) ** 2).sum() / n_free))
    exponents = {name: float(value) for name, value in zip(names, fitted[1:], strict=True)}
    return Growth(exponents=exponents, misfit=float(misfit), n_points=len(logs))


def growth_of_races(races: Sequence[Race], method: str, factors: Sequence[str]) -> Growth:
    """Fit the growth of one contestant's time with some factors of the shape, wherever it was measured."""
    timed = [(r.shape, taken) for r in races if (taken := r.seconds.get(method)) is not None]
    shapes = [{factor: float(shape[factor]) for factor in factors} for shape, _ in timed]
    return fit_growth(shapes, [taken for _, taken in timed])
