"""How many clusters the data suggests, read off the inferred data: the curve for choosing K."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.inference.choose import range_for, suggest_clusters
from recoup.report.html import Markup, element, figure, folded, join, legend, line_chart, section, share, table
from recoup.report.result import Json, Result


def content(result: Result, *, level: float | None = 0.9, random_state: Any = 0) -> Json | None:
    """The loss by number of clusters, as a part of that of one cluster, with intervals and a suggestion.

    None where the inferred data has too few points to cluster; without a level there are no intervals.
    """
    chosen = len(result.centers)
    k_max = range_for(chosen)
    if int((result.population.weights > 0).sum()) <= k_max:
        return None
    curve = suggest_clusters(
        result.population,
        k_max=k_max,
        transcript=result.transcript if level is not None else None,
        domain=result.transcript.context.domain,
        level=level or 0.9,
        random_state=random_state,
    )
    whole = max(float(curve.loss[0]), 1e-300)

    def parts(values: Any) -> list[float]:
        return [float(v) for v in np.clip(np.asarray(values) / whole, 0.0, 10.0)]

    return {
        "chosen": chosen,
        "suggested": curve.suggested,
        "outcome": curve.outcome,
        "sentence": curve.sentence,
        "n_clusters": [int(k) for k in curve.n_clusters],
        "loss": parts(curve.loss),
        "low": None if level is None else parts(curve.loss_low),
        "high": None if level is None else parts(curve.loss_high),
        "gap": [float(v) for v in curve.gap],
        "gap_error": [float(v) for v in curve.gap_error],
        "level": level,
    }


def html(choice: Json) -> Markup:
    """The curve for choosing K, with the suggestion and what it is worth."""
    chosen, suggested, most = choice["chosen"], _suggested(choice), choice["n_clusters"][-1]
    asked = f"{chosen} {'was' if chosen == 1 else 'were'} asked for."
    lead = f"{choice['sentence']} {asked} Another number costs no privacy: refit the same transcript."
    words = f"at least {suggested}" if choice["outcome"] == "at least" else f"suggested: {suggested}"
    marked = []
    if suggested == chosen:
        lead = f"{choice['sentence']} {asked}"
        marked.append(("both", f"asked for: {chosen}; {words}"))
    else:
        if chosen <= most:
            marked.append(("chosen", f"asked for: {chosen}"))
        if suggested is not None:
            marked.append(("suggested", words))
    caption = (
        "Look for the bend. A suggestion is the gap statistic's: the smallest number that is as good as the best, "
        "against data without clusters; lowered to what stands out from the noise of the release."
    )
    if choice["low"] is not None:
        caption += f" Shaded: {share(choice['level'])} intervals, which hold the noise of the release."
    keys = legend([(element("span", class_=f"dot {kind}"), text) for kind, text in marked])
    return section(
        "choice",
        "How many clusters?",
        join(lead, None if chosen <= most else f" The curve ends at {most}."),
        element("figure", keys, _chart(choice), element("figcaption", caption)),
        folded("The curve as a table", _table(choice)),
    )


def _suggested(choice: Json) -> int | None:
    """The number to mark; none where nothing is suggested."""
    return None if choice["outcome"] == "not conclusive" else int(choice["suggested"])


def _chart(choice: Json) -> Markup:
    ks, loss = choice["n_clusters"], choice["loss"]
    top = max(1.0, *(choice["high"] or [1.0]))
    n = max(len(ks) - 1, 1)
    across = [(k - 1) / n for k in ks]
    between = None
    if choice["low"] is not None:
        ends = zip(across, choice["low"], choice["high"], strict=True)
        between = [(x, low / top, min(high / top, 1.0)) for x, low, high in ends]
    kinds = {choice["chosen"]: "chosen", _suggested(choice): "suggested"}
    if choice["chosen"] == _suggested(choice):
        kinds = {choice["chosen"]: "both"}
    step = max(1, len(ks) // 10)
    return line_chart(
        [[(x, value / top) for x, value in zip(across, loss, strict=True)]],
        band_between=between,
        points=[(x, value / top, kinds.get(k, "")) for x, value, k in zip(across, loss, ks, strict=True)],
        x_labels=[(x, str(k)) for x, k in zip(across, ks, strict=True) if (k - 1) % step == 0],
        y_labels=[(value / top, f"{100 * value:.0f} %") for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
        x_title="number of clusters",
        y_title="spread that is left inside clusters",
        label=f"Spread left inside clusters, from {share(loss[0])} with 1 to {share(loss[-1])} with {ks[-1]} clusters; "
        f"{choice['sentence']} The table below has the numbers.",
    )


def _table(choice: Json) -> Markup:
    header, rows = ["clusters", "spread left"], []
    if choice["low"] is not None:
        header.append("interval")
    for i, k in enumerate(choice["n_clusters"]):
        row = [k, share(choice["loss"][i])]
        if choice["low"] is not None:
            row.append(f"{share(choice['low'][i])} to {share(choice['high'][i])}")
        rows.append([*row, figure(choice["gap"][i]), figure(choice["gap_error"][i], 2)])
    return table([*header, "gap", "its error"], rows, "Spread left by number of clusters, and the gap statistic")
