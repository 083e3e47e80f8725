"""Numbers in sentences, each by a key: the name of a function here, and its arguments as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from recoup_lab.bench.performance import read_parts
from recoup_lab.bench.release import OURS
from recoup_lab.bench.tables import short
from recoup_lab.experiments.summary import Panel
from recoup_lab.figures.parts import told
from recoup_lab.figures.runs import (
    DOCS,
    helps,
    is_worse,
    panel,
    panels,
    paper_runs,
    plus_minus,
    ratios,
    settings,
    study,
)
from recoup_lab.pages import mean_and_error, read_json


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1


def loss(metric: Any, name: str, epsilon: str, method: str = "recoup") -> str:
    """A mean loss of the evaluation."""
    mean = panel(metric, name).scores[method][float(epsilon)].mean
    return f"{mean:,.{_digits(mean)}f}"


def loss_without(metric: Any, name: str, method: str = "non-private") -> str:
    """The same of what depends on no epsilon."""
    mean = panel(metric, name).scores[method][None].mean
    return f"{mean:,.{_digits(mean)}f}"


def times(metric: Any, name: str, epsilon: str, method: str = "recoup") -> str:
    """A mean loss as a multiple of non-private k-means."""
    own = panel(metric, name)
    return f"{own.scores[method][float(epsilon)].mean / (own.non_private or 1.0):.2f}"


def worst_excess(metric: Any, epsilon: str) -> str:
    """What the default loses at most, on any set, in per cent of non-private k-means."""
    excesses = [own.scores["recoup"][float(epsilon)].mean / (own.non_private or 1.0) - 1 for own in panels(metric)]
    return f"{100 * max(excesses):.1f}%"


def lowest(metric: Any) -> str:
    """In how many settings the default has the lowest mean of all private methods."""
    return str(sum(_best(own, epsilon) == "recoup" for own, epsilon in settings(metric)))


def _best(own: Panel, epsilon: float) -> str:
    return min(own.methods, key=lambda method: own.scores[method][epsilon].mean)


def worse_than_start(metric: Any, name: str) -> str:
    """Up to which epsilon the last iterate of DP-KMEANS is worse than its own start, which saw no data."""
    own = panel(metric, name)
    start = own.scores["data-free"][None].mean
    return f"{max(e for e, score in own.scores['dpkm'].items() if e is not None and score.mean > start):g}"


def seeds(method: str = "recoup") -> str:
    """Of a method in the evaluation, at least."""
    both = [*settings("paper"), *settings("user")]
    return str(min(own.scores[method][epsilon].n_runs for own, epsilon in both))


def _multiple(name: str, digits: str, **chosen: Any) -> str:
    (run,) = study(name, **chosen)
    pair = run["multiple"] if "multiple" in run else mean_and_error(run["multiples"])
    return f"{pair[0]:.{digits}f}"


def _one(name: str, key: str, of: str, digits: str = "2") -> str:
    (run,) = study(name, set=of)
    return f"{run[key][0]:.{digits}f}"


def _total(part: str, key: str) -> str:
    return f"{sum(run[key] for run in study('verdict', part=part)):,}"


def slower(contestant: str, *shape: str) -> str:
    """How many times as long as a release a contestant took on N records in d columns with K clusters."""
    names = {"sklearn": "scikit-learn Lloyd", "diffprivlib": "diffprivlib"}
    wanted = dict(zip(("n_records", "n_columns", "n_clusters"), map(int, shape), strict=True))
    races = read_parts(DOCS / "data" / "performance.json")["release"].races
    (race,) = (race for race in races if race.shape == wanted)
    return short(race.ratio(names[contestant], OURS))


def crowd(what: str) -> str:
    """Of many analysts at once: how many answers there were, or how many milliseconds one took."""
    run = read_json(DOCS / "data" / "served.json", "attacks on a served curator")
    (found,) = (found for found in run["findings"] if found["attack"] == "many at once")
    return f"{found['tries']:,}" if what == "answers" else f"{1000 * found['figures'][what]:,.0f}"


def plan_right() -> str:
    """How many of ten predictions are right."""
    found = [told(run) for run in study("plan")]
    return f"{found.count('right') / (len(found) - found.count('not told')):.0%}"


FIGURES: Final[dict[str, Callable[..., str]]] = {
    "loss": loss,
    "loss-without": loss_without,
    "times": times,
    "worst-excess": worst_excess,
    "lowest": lowest,
    "settings": lambda metric: str(len(list(settings(metric)))),
    "seeds": seeds,
    "runs": lambda: f"{len(paper_runs()):,}",
    "run-seconds": lambda: f"{sum(run.seconds for run in paper_runs()):,.0f}",
    "below": lambda method: str(sum(ratio.mean < 1 for ratio in ratios(method))),
    "helps": lambda method: str(sum(map(helps, ratios(method)))),
    "worse": lambda method: str(sum(map(is_worse, ratios(method)))),
    "below-other": lambda a, b: str(sum(x.mean < y.mean for x, y in zip(ratios(a), ratios(b), strict=True))),
    "largest-ratio": lambda method: f"{max(ratio.mean for ratio in ratios(method)):.2f}",
    "smallest-ratio": lambda method: f"{min(ratio.mean for ratio in ratios(method)):.2f}",
    "worse-than-start": worse_than_start,
    "bounds": lambda width, case="default": _multiple("bounds", "2", case=f"{case.replace('-', ' ')}, {width}"),
    "columns": lambda name, epsilon, digits="1": _multiple("columns", digits, set=name, epsilon=float(epsilon)),
    "generated": lambda name, epsilon: _generated(name, epsilon),
    "coverage": lambda name, measure: _one("intervals", measure.replace("-", " "), name),
    "slower": slower,
    "crowd": crowd,
    "verdict": lambda part, key: _total(part, key.replace("-", " ")),
    "plan-right": plan_right,
    "megabytes": lambda what: f"{study('install', what=what)[0]['megabytes']:,}",
}


def _generated(name: str, epsilon: str) -> str:
    (run,) = study("generated-sets", set=name.replace("_", " "), epsilon=float(epsilon))
    return plus_minus(mean_and_error(run["default"])[:1], 1)
