"""The runs behind the pages, read once: those of the evaluation, and those of single studies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from recoup_lab.experiments.results import Result, read_results
from recoup_lab.experiments.run import Metric
from recoup_lab.experiments.summary import Panel, Ratio, summarise
from recoup_lab.pages import read_json
from recoup_lab.tree import ROOT

DOCS = ROOT / "docs"


@cache
def paper_runs() -> tuple[Result, ...]:
    """All runs of the evaluation."""
    return tuple(read_results(DOCS / "data" / "paper-runs.parquet"))


@cache
def panels(metric: Metric) -> tuple[Panel, ...]:
    """The means over seeds in one metric, a panel per set."""
    return tuple(panel for panel in summarise(paper_runs()) if panel.metric == metric)


def panel(metric: Metric, name: str) -> Panel:
    """One set in one metric."""
    return next(panel for panel in panels(metric) if panel.name == name)


def settings(metric: Metric) -> Iterator[tuple[Panel, float]]:
    """Every set at every epsilon."""
    return ((panel, epsilon) for panel in panels(metric) for epsilon in panel.epsilons)


def ratios(method: str) -> list[Ratio]:
    """What a method makes of the last iterate of the same transcripts, in all settings of the paper's metric."""
    return [panel.ratios[method][epsilon] for panel, epsilon in settings("paper")]


def helps(ratio: Ratio) -> bool:
    """Below 1 by more than two standard errors: the one criterion of the page.

    >>> helps(Ratio(0.9, 0.04)), helps(Ratio(0.9, 0.06))
    (True, False)
    """
    return ratio.mean + 2 * ratio.error < 1


def is_worse(ratio: Ratio) -> bool:
    """Above 1 by as much."""
    return ratio.mean - 2 * ratio.error > 1


@cache
def _study(name: str) -> Any:
    return read_json(DOCS / "data" / f"{name}.json", "a study")


def study(name: str, **chosen: Any) -> list[dict[str, Any]]:
    """The runs of a study with these values."""
    return [run for run in _study(name)["runs"] if all(run[key] == value for key, value in chosen.items())]


def source(name: str) -> str:
    """Where the runs of a study are and how they are made again, for a page."""
    kept = _study(name)
    note = f" ({kept['note']})" if kept["note"] else ""
    return f"Runs: `docs/data/{name}.json`{note}; again by `{kept['command']} -o docs/data/{name}.json`."


def plus_minus(pair: Sequence[float], digits: int = 3) -> str:
    """A mean with its standard error, if that was kept.

    >>> plus_minus([1.0604, 0.0121]), plus_minus([1.0604])
    ('1.060±0.012', '1.060')
    """
    return "±".join(f"{value:.{digits}f}" for value in pair)
