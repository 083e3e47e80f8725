"""Everything that is made from finished runs: tables for terminals and pages, figures, and a summary for machines.

`python -m recoup_lab.experiments.report [runs.parquet]` makes the pictures of docs/experiments.md again, from the runs
that are kept beside it, or after those of a new experiment took the place of the same runs; then `recoup_lab.figures`
writes its numbers.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recoup._files import write_whole
from recoup.plots import png
from recoup.privacy.statement import NOT_PRIVATE
from recoup.report import html
from recoup_lab.experiments import figures
from recoup_lab.experiments.peers import LABEL, SOURCE
from recoup_lab.experiments.results import Result, read_results, write_parquet
from recoup_lab.experiments.run import METRICS, Metric
from recoup_lab.experiments.summary import (
    DATA_FREE,
    LAST_ITERATE,
    TITLES,
    Panel,
    Ratio,
    Score,
    method_title,
    summarise,
)
from recoup_lab.pages import Table, markdown
from recoup_lab.tree import ROOT

NOTE = (
    f"{NOT_PRIVATE}, and scores computed on the records. Mean within-cluster sum of squares ± standard error over "
    "seeds."
)
_BOLD = "In bold: the best private method of a line."
_SET = "set (non-private)"
PEER_NOTE = f"{LABEL}: figures of {SOURCE}; measured elsewhere on the same records, not run here."


def score_table(panels: Sequence[Panel], metric: Metric) -> Table:
    """The mean score of every method in a metric: a row is a set at an epsilon; no rows if nothing was run in it."""
    shown = [panel for panel in panels if panel.metric == metric]
    methods = list(dict.fromkeys(name for panel in shown for name in panel.methods))
    with_peers = any(panel.peers for panel in shown)
    header = [_SET, "epsilon", *map(method_title, methods), method_title(DATA_FREE)]
    header += [LABEL] if with_peers else []
    rows, best = [], []
    for panel in shown:
        for epsilon in panel.epsilons:
            scores = [panel.scores.get(name, {}).get(epsilon) for name in methods]
            row = [_set(panel), f"{epsilon:g}", *map(_cell, scores), _cell(panel.scores.get(DATA_FREE, {}).get(None))]
            row += [_number(panel.peers[epsilon]) if epsilon in panel.peers else "-"] if with_peers else []
            rows.append(row)
            means = {position: score.mean for position, score in enumerate(scores, start=2) if score is not None}
            best.append(min(means, key=means.__getitem__) if means else None)
    return Table(title=TITLES[metric], header=header, rows=rows, best=best, note=PEER_NOTE if with_peers else "")


def ratio_table(panels: Sequence[Panel], metric: Metric) -> Table:
    """What reading the whole transcript gives over its last iterate: ratios of WCSS, paired by transcript."""
    shown = [panel for panel in panels if panel.metric == metric and panel.ratios]
    methods = list(dict.fromkeys(name for panel in shown for name in panel.ratios))
    rows, best = [], []
    for panel in shown:
        for epsilon in panel.epsilons:
            ratios = [panel.ratios.get(name, {}).get(epsilon) for name in methods]
            last = panel.scores[LAST_ITERATE].get(epsilon)
            rows.append([_set(panel), f"{epsilon:g}", _cell(last), *map(_ratio, ratios)])
            means = {position: ratio.mean for position, ratio in enumerate(ratios, start=3) if ratio is not None}
            best.append(min(means, key=means.__getitem__) if means else None)
    return Table(
        title="The same transcripts: WCSS as a part of that of their last iterate",
        header=[_SET, "epsilon", method_title(LAST_ITERATE), *map(method_title, methods)],
        rows=rows,
        best=best,
        note="Means of ratios, seed by seed, ± standard error: below 1, post-processing helped.",
    )


def tables(panels: Sequence[Panel]) -> list[tuple[Metric, Table]]:
    """All tables that have rows, with the metric that each belongs to.

    >>> tables([])
    []
    """
    every = [(metric, make(panels, metric)) for metric in METRICS for make in (score_table, ratio_table)]
    return [(metric, table) for metric, table in every if table.rows]


def in_markdown(panels: Sequence[Panel]) -> str:
    """All tables as Markdown, each with its heading."""
    parts = [f"{NOTE} {_BOLD}"]
    for _, table in tables(panels):
        rows = [
            [f"**{cell}**" if position == place else cell for position, cell in enumerate(row)]
            for row, place in zip(table.rows, table.best, strict=True)
        ]
        parts += [f"## {table.title}", markdown(table.header, rows)]
        parts += [table.note] if table.note else []
    return "\n\n".join(parts) + "\n"


def page(panels: Sequence[Panel], pictures: Mapping[Metric, bytes]) -> str:
    """One HTML page with tables and figures: a PNG for each metric, held by the page itself."""
    sections: list[html.Markup] = []
    seen = set[Metric]()
    for metric, table in tables(panels):
        sections.append(_section(len(sections), table, None if metric in seen else pictures.get(metric)))
        seen.add(metric)
    lead = f"{NOTE} {_BOLD}"
    title = "The evaluation of the paper, run again"
    return html.document("Recoup: the paper's evaluation", html.heading("Recoup experiment", title, lead), sections)


def _section(number: int, table: Table, picture: bytes | None) -> html.Markup:
    rows = [
        [html.element("b", cell) if i == place else cell for i, cell in enumerate(row)]
        for row, place in zip(table.rows, table.best, strict=True)
    ]
    return html.section(
        f"table-{number}",
        table.title,
        None,
        None if picture is None else html.picture(table.title, picture),
        html.table(table.header, rows, table.title),
        html.element("p", table.note, class_="soft") if table.note else None,
    )


def _set(panel: Panel) -> str:
    known = "" if panel.non_private is None else f" ({_number(panel.non_private)})"
    return f"{panel.title}{known}"


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    return _number(score.mean) + (f"±{_number(score.error)}" if score.n_runs > 1 else "")


def _ratio(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.mean:.3f}±{ratio.error:.3f}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def write_report(folder: Path, results: Iterable[Result]) -> tuple[list[Panel], list[Path]]:
    """Write `tables.md`, `index.html` and a figure for each metric of finished runs.

    Returns:
        The means over seeds, and the paths written.
    """
    panels = summarise(results)
    pictures: dict[Metric, bytes] = {}
    for metric in METRICS:
        if any(panel.metric == metric and panel.methods for panel in panels):
            pictures[metric] = _few_colours(png(figures.six_panels(panels, metric)))
    files: dict[str, str | bytes] = {"tables.md": in_markdown(panels), "index.html": page(panels, pictures)}
    files |= {f"wcss-{metric}-metric.png": picture for metric, picture in pictures.items()}
    for name, content in files.items():
        write_whole(folder / name, content)
    return panels, [folder / name for name in files]


def _few_colours(picture: bytes) -> bytes:
    """A drawing of lines needs no more than 256 colours, and a third of the space."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def as_json(panels: Sequence[Panel]) -> dict[str, Any]:
    """The means over seeds as values for JSON.

    >>> as_json([])["scores"]
    []
    """
    scores = []
    for panel in panels:
        n, d, k = panel.shape
        for method, by_epsilon in panel.scores.items():
            for epsilon, score in by_epsilon.items():
                ratio = None if epsilon is None else panel.ratios.get(method, {}).get(epsilon)
                scores.append(
                    {
                        "set": panel.name,
                        "title": panel.title,
                        "n_records": n,
                        "n_columns": d,
                        "n_clusters": k,
                        "metric": panel.metric,
                        "method": method,
                        "epsilon": epsilon,
                        "wcss": score.mean,
                        "standard_error": score.error,
                        "times_non_private": score.mean / panel.non_private if panel.non_private else None,
                        "ratio_to_last_iterate": None if ratio is None else ratio.mean,
                        "n_runs": score.n_runs,
                        "epsilon_spent": score.spent,
                        "seconds": score.seconds,
                    }
                )
    return {"statement": NOT_PRIVATE, "scores": scores}


def main() -> None:
    """Take over new runs, and write the pictures of the page."""
    docs = ROOT / "docs"
    runs = docs / "data" / "paper-runs.parquet"
    if len(sys.argv) > 1:
        found = {result.key: result for path in (runs, Path(sys.argv[1])) for result in read_results(path)}
        write_parquet(runs, list(found.values()))
    with tempfile.TemporaryDirectory() as name:
        write_report(Path(name), read_results(runs))
        for path in Path(name).glob("*.png"):
            (docs / "images" / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
