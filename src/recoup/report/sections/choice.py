"""How many clusters the data suggests, read off the inferred data: the curve for choosing K."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup._progress import OnProgress
from recoup.inference.choose import range_for, suggest_clusters
from recoup.report import html as h
from recoup.report.sections import Json
from recoup.report.sections.answer import Result


def content(
    result: Result, *, level: float | None = 0.9, random_state: Any = 0, on_progress: OnProgress | None = None
) -> Json | None:
    """The loss by number of clusters, as a part of that of one cluster, with intervals and a suggestion.

    None where the inferred data has too few points to cluster; without a level there are no intervals.
    """
    chosen, transcript = len(result.centers), result.transcript
    k_max = range_for(chosen)
    if int((result.population.weights > 0).sum()) <= k_max:
        return None
    sure: Json = {} if level is None else {"transcript": transcript, "level": level}
    domain = transcript.context.domain
    sure |= {"random_state": random_state, "on_progress": on_progress}
    if result.simulations is not None and result.simulations.plain:
        sure["simulations"] = result.simulations
    curve = suggest_clusters(result.population, k_max=k_max, domain=domain, **sure)

    def parts(values: Any) -> list[float]:
        return [float(v) for v in np.clip(np.asarray(values) / max(float(curve.loss[0]), 1e-300), 0.0, 10.0)]

    low, high = (None if level is None else parts(ends) for ends in (curve.loss_low, curve.loss_high))
    gap = {"gap": [float(v) for v in curve.gap], "gap_error": [float(v) for v in curve.gap_error]}
    return (
        {"chosen": chosen, "suggested": curve.suggested, "outcome": curve.outcome, "sentence": curve.sentence}
        | {"n_clusters": [int(k) for k in curve.n_clusters], "loss": parts(curve.loss), "low": low, "high": high}
        | {**gap, "level": level, "off_range": curve.outcome != "not conclusive" and curve.suggested == k_max}
    )


def html(choice: Json) -> h.Markup:
    """The curve for choosing K, with the suggestion and what it is worth."""
    chosen, most = choice["chosen"], choice["n_clusters"][-1]
    suggested = None if choice["outcome"] == "not conclusive" else int(choice["suggested"])
    lead = f"{choice['sentence']} {chosen} {'was' if chosen == 1 else 'were'} asked for."
    words = f"at least {suggested}" if choice["outcome"] == "at least" else f"suggested: {suggested}"
    if choice["off_range"]:
        words += f" (off-range: the largest number looked at is {most})"
        lead += f" Only 1 to {most} were looked at, and the suggestion is the last of them: there may well be more."
    if suggested == chosen:
        marks = {chosen: ("both", f"asked for: {chosen}; {words}")}
    else:
        lead += " To use another number, refit the same transcript: that costs no privacy."
        marks = {chosen: ("chosen", f"asked for: {chosen}")} if chosen <= most else {}
        marks |= {} if suggested is None else {suggested: ("suggested", words)}
    caption = (
        "Each further cluster leaves less spread inside the clusters. Look for the bend after which little is gained. "
        "The suggestion is the smallest number that does about as well as the best one, compared with data that has no "
        "clusters (the gap statistic). It counts only clusters that stand out from the noise of the release."
    )
    columns: Json = {"clusters": choice["n_clusters"], "spread left": map(h.share, choice["loss"])}
    if choice["low"] is not None:
        caption += (
            f" The shaded band shows {h.share(choice['level'])} intervals, which include the noise of the release."
        )
        ends = zip(map(h.share, choice["low"]), map(h.share, choice["high"]), strict=True)
        columns["interval"] = [f"{low} to {high}" for low, high in ends]
    columns |= {"gap": map(h.figure, choice["gap"]), "its error": [h.figure(error, 2) for error in choice["gap_error"]]}
    rows = list(zip(*columns.values(), strict=True))
    table = h.table(list(columns), rows, "Spread left by number of clusters, and the gap statistic")
    keys = h.legend([(h.element("span", class_=f"dot {kind}"), text) for kind, text in marks.values()])
    chart = _chart(choice, {k: kind for k, (kind, _) in marks.items()})
    return h.section(
        "choice",
        "How many clusters?",
        lead if chosen <= most else f"{lead} The curve ends at {most}.",
        h.element("figure", keys, chart, h.element("figcaption", caption)),
        h.folded("The curve as a table", table),
    )


def _chart(choice: Json, kinds: dict[int, str]) -> h.Markup:
    """The curve, with dots of these kinds by number of clusters."""
    ks, loss = choice["n_clusters"], choice["loss"]
    top, n, step = max(1.0, *(choice["high"] or [1.0])), max(len(ks) - 1, 1), max(1, len(ks) // 10)
    across = [(k - 1) / n for k in ks]
    ends = zip(across, choice["low"] or (), choice["high"] or (), strict=False)
    return h.line_chart(
        [[(x, value / top) for x, value in zip(across, loss, strict=True)]],
        band_between=[(x, low / top, min(high / top, 1.0)) for x, low, high in ends],
        points=[(x, value / top, kinds.get(k, "")) for x, value, k in zip(across, loss, ks, strict=True)],
        x_labels=[(x, str(k)) for x, k in zip(across, ks, strict=True) if (k - 1) % step == 0],
        y_labels=[(value / top, f"{100 * value:.0f}%") for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
        x_title="number of clusters",
        y_title="spread left inside the clusters, as a share of the spread with one cluster",
        label=f"Spread left inside clusters, from {h.share(loss[0])} with 1 to {h.share(loss[-1])} with {ks[-1]} "
        f"clusters; {choice['sentence']} The table below has the numbers.",
    )
