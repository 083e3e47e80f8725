"""Means over seeds, with their standard errors: what tables and figures show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from recoup_lab.experiments.datasets import SETS
from recoup_lab.experiments.methods import METHODS
from recoup_lab.experiments.peers import best_peer
from recoup_lab.experiments.results import Result
from recoup_lab.experiments.run import Metric

NON_PRIVATE, DATA_FREE, LAST_ITERATE = "non-private", "data-free", "dpkm"
TITLES: dict[Metric, str] = {
    "paper": "The paper's metric: WCSS on records projected onto the unit L1 ball",
    "user": "The user's metric: WCSS on the records themselves, columns scaled to [-1, 1]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A method at one epsilon on one set.

    Attributes:
        mean: of the WCSS over seeds.
        error: the mean's standard error; 0 for a single run.
        n_runs: how many seeds.
        spent: the most that a ledger showed; none without one.
        seconds: the median.
    """

    mean: float
    error: float
    n_runs: int
    spent: float | None
    seconds: float


class Ratio(NamedTuple):
    """The mean of paired ratios, and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Everything about one set in one metric.

    Attributes:
        name: of the set.
        title: for people.
        metric: "paper" or "user".
        shape: N, d and K.
        scores: method to epsilon (none for baselines) to score.
        ratios: method to epsilon to its WCSS over that of the last iterate of the same transcript.
        peers: epsilon to the best peer's quoted WCSS.
    """

    name: str
    title: str
    metric: Metric
    shape: tuple[int, int, int]
    scores: Mapping[str, Mapping[float | None, Score]] = field(repr=False)
    ratios: Mapping[str, Mapping[float, Ratio]] = field(repr=False)
    peers: Mapping[float, float] = field(repr=False)

    @property
    def non_private(self) -> float | None:
        """What non-private k-means scores, if it was run."""
        score = self.scores.get(NON_PRIVATE, {}).get(None)
        return None if score is None else score.mean

    @property
    def methods(self) -> list[str]:
        """The private methods, in the order of the list of methods."""
        return [name for name in self.scores if None not in self.scores[name]]

    @property
    def epsilons(self) -> list[float]:
        """The epsilons of the private methods, growing."""
        return sorted({e for scores in self.scores.values() for e in scores if e is not None})


_Cells = dict[str, dict[float | None, list[Result]]]


def summarise(results: Iterable[Result]) -> list[Panel]:
    """Average runs over their seeds: a panel for each set and metric, the paper's metric first, sets in their order.

    Guarantees: records with another digest make another panel, and so does another version of Recoup, which is then
    named: results of different tables or versions are never averaged.
    """
    panels: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        panels.setdefault((result.metric, result.set, result.digest, result.recoup), []).append(result)
    order = {name: position for position, name in enumerate(SETS)}
    keys = sorted(panels, key=lambda key: (key[0], order.get(key[1], len(order)), key[1:]))
    several = len({key[-1] for key in keys}) > 1
    return [_panel(panels[key], f", Recoup {key[-1]}" if several else "") for key in keys]


def _panel(results: Sequence[Result], version: str) -> Panel:
    first = results[0]
    metric: Metric = "paper" if first.metric == "paper" else "user"
    cells: _Cells = {}
    for result in results:
        cells.setdefault(result.method, {}).setdefault(result.epsilon, []).append(result)
    order = {name: position for position, name in enumerate(METHODS)}
    scores = {
        name: {epsilon: _score(runs) for epsilon, runs in sorted(cells[name].items(), key=lambda cell: cell[0] or 0.0)}
        for name in sorted(cells, key=lambda name: (order.get(name, len(order)), name))
    }
    title = SETS[first.set].title if first.set in SETS else first.set
    known = scores.get(NON_PRIVATE, {}).get(None)
    from_file = first.source == "file"
    return Panel(
        name=first.set,
        title=f"{title}{'' if from_file else ' (generated)'}{version}",
        metric=metric,
        shape=(first.n_records, first.n_columns, first.n_clusters),
        scores=scores,
        ratios={name: ratios for name in scores if (ratios := _ratios(cells, name))},
        peers=best_peer(metric, first.set, None if known is None else known.mean) if from_file else {},
    )


def _ratios(cells: _Cells, name: str) -> dict[float, Ratio]:
    found: dict[float, Ratio] = {}
    for epsilon, runs in cells[name].items():
        last = {run.seed: run for run in cells.get(LAST_ITERATE, {}).get(epsilon, [])}
        pairs = [(run, last[run.seed]) for run in runs if run.seed in last]
        # Only readers of one and the same transcript are paired.
        pairs = [(a, b) for a, b in pairs if a.transcript is not None and a.transcript == b.transcript]
        ratios = [a.wcss / b.wcss for a, b in pairs if b.wcss > 0]
        if name != LAST_ITERATE and epsilon is not None and ratios:
            found[epsilon] = Ratio(*_mean_and_error(ratios))
    return dict(sorted(found.items()))


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error


def _score(runs: Sequence[Result]) -> Score:
    mean, error = _mean_and_error([run.wcss for run in runs])
    spent = [run.epsilon_spent for run in runs if run.epsilon_spent is not None]
    return Score(
        mean=mean,
        error=error,
        n_runs=len(runs),
        spent=max(spent) if spent else None,
        seconds=float(np.median([run.seconds for run in runs])),
    )


def method_title(name: str) -> str:
    """What a method is called for people.

    >>> method_title("mcmc"), method_title("of another day")
    ('MCMC (the paper)', 'of another day')
    """
    return METHODS[name].title if name in METHODS else name
