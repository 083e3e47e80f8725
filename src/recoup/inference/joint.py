"""Several releases of counts and sums, read together: where their support lies, and how far to trust its base.

Each release alone has at most one first look; together they may have several of different worth. In few columns a grid
tells how columns go together, which marginals cannot. In more columns its cells are a large part of each column, and a
base that is uniform inside them is worse than marginals, or than points around the means that other rounds measured.
Looks that are left out of the support still stand in the rows: nothing that was released is ignored.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recoup.inference.evidence import Evidence
from recoup.maxent.correction import corrected, solved_and_settled
from recoup.maxent.measure import Measure, Mixture, drawn_support, explained, temperature_of, total_of
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.queries.counts import as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_GRID_COLUMNS = 3  # in more, a grid's cells are too wide for a base; the same bound as the default algorithm's
_AROUND_MEANS = Mixture(first_look=0.05, cells=0.6, resampled=0.35)  # where no look is fit to be a base
_FEWEST_PSEUDO_RECORDS = 30.0  # the base weighs at least this much: where noise drowns all rounds, it must hold them
_LARGEST_MEAN_ERROR = 0.3  # of a cell's mean, where the unit domain is 2 wide: beyond, points around it are anywhere
_PASSES, _TOLERANCE, _MAX_STEPS = 2, 0.03, 60


def infer_joint(evidence: Evidence, rng: np.random.Generator, *, n_points: int) -> Measure:
    """Infer one measure from the rounds of several releases.

    Args:
        evidence: their rounds, all of them of counts and sums.
        rng: harmless randomness.
        n_points: points of the support.

    Returns:
        The measure of the last pass, moved to what the last rounds of each release measured, in their order.
    """
    context, total = evidence.context, total_of(evidence.context, evidence.rounds)
    split = [solved_and_settled(part.rounds, part.n_settling) for part in evidence.parts]
    rounds = tuple(answered for solved, _ in split for answered in solved)
    looks = base_looks(rounds, context.domain.n_columns)
    grids = [r for r in rounds if as_grid(r.query)]
    # A grid that is no part of the base says nothing about how far rows must tilt it.
    weighed = rounds if looks and looks[0] in grids else [r for r in rounds if r not in grids]
    temperature = max(temperature_of(evidence.strength, weighed), _FEWEST_PSEUDO_RECORDS / total)
    found: Measure | None = None
    for _ in range(_PASSES):
        points = _support(context, rounds, looks, found, total, n_points, rng)
        found = explained(
            context, rounds, points, total, temperature=temperature, tolerance=_TOLERANCE, max_steps=_MAX_STEPS
        )
        if found.solution is None:
            break
    assert found is not None
    settled = [answered for _, late in split for answered in late]
    points, weights = corrected(context, settled, found.points, found.weights)
    return replace(found, points=points, weights=weights)


def base_looks(rounds: tuple[Round, ...], n_columns: int) -> list[Round]:
    """The first looks that the support is drawn from: grids in few columns, marginals in more.

    Args:
        rounds: of all releases.
        n_columns: of a record.

    Returns:
        Looks of one kind. Where there is only the other kind it is taken; but a grid in many columns only where no
        round has sums to draw around.
    """
    looks = [r for r in rounds if marginals_of(r.query)]
    few = n_columns <= _GRID_COLUMNS
    wanted = [r for r in looks if bool(as_grid(r.query)) == few]
    if wanted or few:
        return wanted or looks
    with_sums = any(as_cells(r.query, "absolute", "relative") for r in rounds)
    return [] if with_sums else looks


def has_means(answered: Round) -> bool:
    """Whether a round tells where the middles of its cells are: most of its records lie in cells whose mean is known.

    >>> from recoup import Box, KMeans, release
    >>> x, terms = np.full((500, 1), 0.2), {"domain": Box([0], [1]), "noise": "simulated", "random_state": 0}
    >>> [has_means(release(KMeans(n_clusters=2), x, epsilon=e, **terms).rounds[0]) for e in (5, 0.01)]
    [True, False]
    """
    query = as_cells(answered.query, "absolute", "relative")
    if query is None:
        return False
    k = query.n_cells
    counts, scales = np.maximum(answered.noisy[:k], 0.0), answered.scales
    errors = scales[k:].reshape(query.centers.shape).mean(axis=1) / np.maximum(counts, scales[:k])
    return bool(counts[errors <= _LARGEST_MEAN_ERROR].sum() > 0.5 * counts.sum())


def _support(
    context: Context,
    rounds: tuple[Round, ...],
    looks: list[Round],
    last: Measure | None,
    total: float,
    n_points: int,
    rng: np.random.Generator,
) -> Array:
    """An equal number of points from each look, each with its share of points around cells and of the last pass."""
    others = [r for r in rounds if not marginals_of(r.query)]
    if not looks:
        return drawn_support(context, others, last, total, n_points, rng, _AROUND_MEANS)
    others = [r for r in others if has_means(r)]
    edges = np.linspace(0, n_points, len(looks) + 1).astype(int)
    parts = [
        drawn_support(context, [look, *others], last, total, int(n), rng, Mixture())
        for look, n in zip(looks, np.diff(edges), strict=True)
    ]
    return np.concatenate(parts)
