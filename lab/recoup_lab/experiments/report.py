"""Everything that is made from finished runs: tables, page, figures, and a summary for machines."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recoup._files import write_whole
from recoup.plots import png
from recoup.privacy.statement import NOT_PRIVATE
from recoup_lab.experiments import figures, tables
from recoup_lab.experiments.results import Result
from recoup_lab.experiments.run import METRICS, Metric
from recoup_lab.experiments.summary import Panel, summarise


def write_report(folder: Path, results: Iterable[Result]) -> tuple[list[Panel], list[Path]]:
    """Write `tables.md`, `index.html` and a figure for each metric.

    Args:
        folder: where to.
        results: finished runs.

    Returns:
        The means over seeds, and the paths written.
    """
    panels = summarise(results)
    pictures: dict[Metric, bytes] = {}
    for metric in METRICS:
        if any(panel.metric == metric and panel.methods for panel in panels):
            pictures[metric] = _few_colours(png(figures.six_panels(panels, metric)))
    files: dict[str, str | bytes] = {"tables.md": tables.markdown(panels), "index.html": tables.page(panels, pictures)}
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
