"""Tables of the pages, each from the runs of one study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from recoup.planner import LEAST_EXCESS
from recoup_lab.bench.performance import PLACE, performance_text, read_parts
from recoup_lab.bench.tables import cluster_tables, markdown_of
from recoup_lab.experiments.datasets import SETS
from recoup_lab.experiments.report import in_markdown
from recoup_lab.figures.runs import DOCS, helps, is_worse, panel, panels, plus_minus, source, study
from recoup_lab.pages import markdown, mean_and_error
from recoup_lab.rivals import page as rivals
from recoup_lab.rivals.cited import DIGITS_AND_EMBEDDING, pe_means

EPSILONS: Final = (0.05, 0.25, 1.0)
_TITLES: Final = {name: entry.title for name, entry in SETS.items()} | {
    "shop": "shop",
    "overlap": "overlap: 26 clusters that overlap, 16 columns of integers",
    "blobs_16_16": "16 blobs in 16 columns",
}


# ---- the evaluation ----


def headline() -> str:
    """The default's loss as a multiple of non-private k-means, with the best peer's."""
    rows = []
    for own in panels("user"):
        cells = []
        for epsilon in EPSILONS:
            score, floor = own.scores["recoup"][epsilon], own.non_private or 1.0
            cells.append(f"{plus_minus((score.mean / floor, score.error / floor))} ({own.peers[epsilon] / floor:.2f})")
        rows.append([own.title, *cells])
    return markdown(("set", "epsilon .05", ".25", "1"), rows)


def default_figures() -> str:
    """The default's loss itself in the user's metric, and in the paper's."""
    rows = []
    for own in panels("user"):
        cells = [f"{_loss(own.name, e)} ({own.peers[e]:,.10g})" for e in EPSILONS]
        paper = [_loss(own.name, e, "paper") for e in EPSILONS]
        rows.append([f"{own.title} ({own.non_private:,.1f})", *cells, " / ".join(paper)])
    return markdown(("set (non-private)", "epsilon .05", ".25", "1", '`domain="l1"`, the paper\'s metric'), rows)


def _loss(name: str, epsilon: float, metric: Any = "user") -> str:
    score = panel(metric, name).scores["recoup"][epsilon]
    return plus_minus((score.mean, score.error), 1 if score.mean < 10_000 else 0)


def claims(method: str) -> str:
    """Ratios to the last iterate, bold where a method helps and slanted where it is worse."""
    rows = []
    for own in panels("paper"):
        found = [own.ratios[method][epsilon] for epsilon in own.epsilons]
        marks = ["**" if helps(r) else "*" if is_worse(r) else "" for r in found]
        cells = [f"{mark}{plus_minus(r)}{mark}" for mark, r in zip(marks, found, strict=True)]
        rows.append([own.title, *cells, *(f"{marks.count(mark)} of {len(marks)}" for mark in ("**", "*"))])
    epsilons = [f"{e:g}".removeprefix("0") for e in panels("paper")[0].epsilons]
    return markdown(("set", f"epsilon {epsilons[0]}", *epsilons[1:], "helps", "worse"), rows)


def every_table() -> str:
    """All means and ratios of the evaluation."""
    return in_markdown([*panels("paper"), *panels("user")])


def rounds_of_the_sampler() -> str:
    """Weights of the rounds in the sampler's proposal."""
    return _by_variant(
        "sampler-rounds",
        {"equal": "all rounds alike", "linear": "linear", "doubled": "doubled", "last": "last round only"},
        lambda run: plus_minus(run["ratio"]),
    )


def length_of_chains() -> str:
    """Longer chains on Gowalla."""
    header = {
        f"{target}, {n:,}": f"{words}, {n:,} steps"
        for target, words in (("noise", "scale of the noise"), ("one", "printed"))
        for n in (30_000, 1_000_000, 10_000_000)
    }
    return _by_variant("sampler-length", header, lambda run: f"{plus_minus(run['ratio'])} ({run['best']:,})")


def accepted() -> str:
    """Acceptance rates."""
    return _by_variant(
        "sampler-accepted", {"one": "printed", "noise": "scale of the noise"}, lambda run: f"{run['accepted']:.2f}"
    )


def _by_variant(name: str, variants: Mapping[str, str], cell: Callable[[dict[str, Any]], str]) -> str:
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for run in study(name):
        rows.setdefault((run["set"], run["epsilon"]), {})[run["variant"]] = cell(run)
    lines = [[_TITLES[s], f"{e:g}", *(cells[v] for v in variants)] for (s, e), cells in rows.items()]
    return markdown(("set", "epsilon", *variants.values()), lines)


# ---- studies of the default ----


def _multiple(run: Mapping[str, Any], digits: int = 3) -> str:
    return plus_minus(run["multiple"] if "multiple" in run else mean_and_error(run["multiples"]), digits)


def declared_bounds() -> str:
    """Bounds that are too tight or too wide."""
    words = {0.5: "half of the range", 1.0: "the range itself", 2.0: "2 times too wide"}
    rows = []
    for run in study("bounds"):
        case, _, width = run["case"].partition(", ")
        if case == "default":
            (last,) = study("bounds", case=f"last iterate, {width}")
            rows.append([words.get(float(width), f"{width} times"), _multiple(run, 2), _multiple(last, 2)])
    return markdown(("declared bounds", "Recoup's default", "DP-KMEANS, last iterate"), rows)


def floor() -> str:
    """What is left at a large epsilon."""
    rows: dict[str, list[str]] = {}
    for run in study("floor"):
        rows.setdefault(run["set"], []).append(f"{np.mean(run['of its own optimum']):.4f}")
    return markdown(("set", "epsilon 1", "10", "100"), [[_TITLES[name], *cells] for name, cells in rows.items()])


def many_columns() -> str:
    """Many columns and clusters beside PE-means."""
    rows: dict[str, list[Any]] = {}
    for run in study("columns"):
        peer = pe_means(run["set"]) or DIGITS_AND_EMBEDDING[run["set"]]
        cells = rows.setdefault(run["set"], [run["set"].split("_")[0], f"{run['n']:,}", str(run["d"]), str(run["k"])])
        cells += [f"{_multiple(run)} ({peer[run['epsilon']]:g})", max(run["seconds"])]
    lines = [[*row[:4], row[4], row[6], f"{max(row[5], row[7]):.1f}"] for row in rows.values()]
    return markdown(("set", "N", "d", "K", "epsilon .25: ours (PE-means)", "1", "CPU s"), lines)


def generated_sets() -> str:
    """Sets that no constant was chosen on."""
    rows: dict[str, list[str]] = {}
    for run in study("generated-sets"):
        text = f"{plus_minus(mean_and_error(run['default']))} / {np.mean(run['last iterate']):.2f}"
        rows.setdefault(f"{run['set']} ({run['n']:,}, {run['d']}, {run['k']})", []).append(text)
    return markdown(("set (N, d, K)", "epsilon .05", ".25", "1"), [[name, *cells] for name, cells in rows.items()])


def wide_bounds() -> str:
    """With and without the test of small clusters."""
    rows = []
    for run in study("wide-bounds"):
        cells = [
            text
            for found in (run["without"], run["with"])
            for text in (f"{found['median']:.2f}", f"{found['worst']:.2f}", str(found["over"]))
        ]
        rows.append([f"{run['d']}, {run['n']:,}, {run['k']}, {run['epsilon']:g}", *cells])
    both = ("median", "worst", "over 1.1")
    return markdown(("d, N, K, epsilon", *(f"{a}: {b}" for a in ("without", "with") for b in both)), rows)


def which_noise() -> str:
    """Laplace and Gaussian noise side by side."""
    rows: dict[tuple[str, float], list[str]] = {}
    for run in study("noise"):
        name = _TITLES.get(run["set"], "blobs")
        rows.setdefault((f"{name} ({run['d']})", run["epsilon"]), []).append(_multiple(run, 4))
    lines = [[name, f"{epsilon:g}", *cells] for (name, epsilon), cells in rows.items()]
    return markdown(("set (columns)", "epsilon", "Laplace", "Gaussian"), lines)


def robustness() -> str:
    """A wrong number of records, and a delta."""
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for run in study("robustness"):
        key = f"{run['set']} ({run['n']:,}, {run['d']}, {run['k']})", run["epsilon"]
        rows.setdefault(key, {})[run["case"]] = plus_minus(run["multiple"])
    cases = list(next(iter(rows.values())))
    lines = [
        [name, f"{epsilon:g}", *(cells.get(case, "") for case in cases)] for (name, epsilon), cells in rows.items()
    ]
    return markdown(("set (N, d, K)", "epsilon", *cases), lines)


# ---- what a plan predicts ----


def excess(run: Mapping[str, Any]) -> float:
    """The geometric mean over fits."""
    return float(np.exp(np.mean(np.log(run["measured"]))))


def told(run: Mapping[str, Any]) -> str:
    """Whether a plan was right: within a factor of three, or less where it says less.

    >>> told({"measured": [0.01], "predicted": 0.02}), told({"measured": [0.01], "predicted": 0.001})
    ('right', 'wrong')
    """
    predicted, found = run["predicted"], excess(run)
    if predicted is None:
        return "not told"
    right = found <= LEAST_EXCESS if predicted <= LEAST_EXCESS else 1 / 3 <= found / predicted <= 3
    return "right" if right else "wrong"


def plan_table() -> str:
    """Measured excess in per cent, and what the plan says."""
    rows: dict[str, list[str]] = {}
    for run in study("plan"):
        mark = "**" if told(run) == "wrong" else ""
        predicted = run["predicted"]
        said = "not told" if predicted is None else "< .3" if predicted <= LEAST_EXCESS else f"{100 * predicted:.2g}"
        first = "" if run["list"] == "chosen" else f"{run['list']}: "
        name = f"{first}{run['kind']} ({run['d']}, {run['k']}, {run['n']:,})"
        rows.setdefault(name, []).append(f"{mark}{100 * excess(run):.2g}{mark} ({said})")
    return markdown(("table (d, K, N)", "epsilon .25", "1", "4"), [[name, *cells] for name, cells in rows.items()])


def plan_counts() -> str:
    """How often it was right."""
    lists = {
        "the constants were chosen on it": ("chosen",),
        "these too, when it was decided what is not told": ("added", "checked"),
        "drawn: looked at only after that": ("drawn",),
        "all": ("chosen", "added", "checked", "drawn"),
    }
    rows = []
    for name, chosen in lists.items():
        found = [told(run) for run in study("plan") if run["list"] in chosen]
        n_told = len(found) - found.count("not told")
        rows.append([name, str(found.count("right")), str(n_told), str(found.count("not told"))])
    return markdown(("list", "right", "told", "not told"), rows)


# ---- bounds, intervals, verdicts ----


def private_bounds() -> str:
    """Bounds that were found against true ones."""
    rows = []
    for run in study("private-bounds"):
        cells = [*(f"{loss:.3f}" for loss in run["loss"]), f"{run['within 1.10']} of {run['seeds']}"]
        cells += [f"{width:.2f}" for width in run["widths"]]
        rows.append([f"{_TITLES[run['set']]}, {run['n']:,} records", str(run["d"]), *cells])
    header = ("set", "columns", "loss: median", "worst", "within 1.10", "width: least", "median", "largest")
    return markdown(header, rows)


def coverage() -> str:
    """How often intervals hold."""
    measures = {
        "near": "centres, near",
        "near sizes": "sizes, near",
        "centres": "centres, best",
        "sizes": "sizes, best",
        "centres at once": "centres at once",
        "sizes at once": "sizes at once",
    }
    rows = []
    for run in study("intervals"):
        size = [run["set"], str(run["d"]), str(run["k"]), f"{run['n']:,}", f"{run['epsilon']:g}", str(run["fits"])]
        cells = [plus_minus(run[name]) if name in run else "-" for name in measures]
        rows.append([*size, *cells, f"{run['half width']:.4f}"])
    return markdown(("set", "d", "K", "N", "epsilon", "fits", *measures.values(), "half width"), rows)


def suggested_clusters() -> str:
    """How often a suggested number of clusters is right, flagged or wrong."""
    outcomes = ("right", "at least, right", "at least, too many", "not conclusive", "wrong, unflagged")
    rows = [
        [f"seed {run['seed']}, {run['tables']} tables: {run['method']}", *(str(run.get(name, 0)) for name in outcomes)]
        for run in study("choose-clusters")
    ]
    return markdown(("", *outcomes), rows)


def _counted(part: str, names: Mapping[str, str]) -> str:
    runs = study("verdict", part=part)
    rows = [[run["table"], *(f"{run[name]:,}" for name in names)] for run in runs]
    rows.append(["all", *(f"{sum(run[name] for run in runs):,}" for name in names)])
    return markdown(("table", *names.values()), rows)


def false_alarms() -> str:
    """Verdicts on smooth tables, and planted errors."""
    simulated = {"null": "simulated from the inferred data", "null alarms": "doubtful"}
    return _counted(
        "smooth", {"fits": "fits", "alarms": "doubtful"} | simulated | {"planted": "planted errors", "named": "named"}
    )


def spikes() -> str:
    """Verdicts on tables with spikes."""
    far = {"far": "off by three widths", "near": "within one width"}
    return _counted("rough", {"fits": "fits", "alarms": "doubtful"} | far)


def _performance() -> str:
    return performance_text(read_parts(DOCS / "data" / "performance.json"))


def _cluster() -> str:
    return markdown_of(cluster_tables(read_parts(DOCS / "data" / "performance.json")["spark"]))


def with_command(name: str, table: Callable[[], str]) -> str:
    """A table, and how its runs are made again."""
    return f"{table()}\n\n{source(name)}"


PAGES: Final[dict[str, dict[str, Callable[[], str]]]] = {
    "README.md": {},
    "docs/adaptive.md": {
        "figures": default_figures,
        "many columns": partial(with_command, "columns", many_columns),
        "generated sets": partial(with_command, "generated-sets", generated_sets),
        "plan": partial(with_command, "plan", plan_table),
        "plan counts": plan_counts,
        "wide bounds": partial(with_command, "wide-bounds", wide_bounds),
        "noise": partial(with_command, "noise", which_noise),
        "robustness": partial(with_command, "robustness", robustness),
    },
    "docs/bounds.md": {"private bounds": partial(with_command, "private-bounds", private_bounds)},
    "docs/choosing.md": {"bounds": partial(with_command, "bounds", declared_bounds)},
    "docs/cluster.md": {PLACE: _cluster},
    "docs/comparison.md": {rivals.PART: lambda: rivals.text(rivals.read(DOCS))},
    "docs/experiments.md": {
        "headline": headline,
        "claims of mcmc": partial(claims, "mcmc"),
        "claims of mcmc-noise": partial(claims, "mcmc-noise"),
        "rounds": partial(with_command, "sampler-rounds", rounds_of_the_sampler),
        "length": partial(with_command, "sampler-length", length_of_chains),
        "accepted": partial(with_command, "sampler-accepted", accepted),
        "tables": every_table,
    },
    "docs/intervals.md": {
        "coverage": partial(with_command, "intervals", coverage),
        "clusters": partial(with_command, "choose-clusters", suggested_clusters),
    },
    "docs/limits.md": {},
    "docs/measured.md": {"floor": partial(with_command, "floor", floor)},
    "docs/performance.md": {PLACE: _performance},
    "docs/verdict.md": {"false alarms": false_alarms, "spikes": partial(with_command, "verdict", spikes)},
}
