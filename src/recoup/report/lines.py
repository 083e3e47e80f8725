"""The sections with a line chart: how many clusters, and how the chains ran."""

from __future__ import annotations

from recoup.report.blocks import Facts, legend_of, more, rows_of, section, table
from recoup.report.charts import line_chart
from recoup.report.markup import Markup, element, join
from recoup.report.numbers import figure, share

_GOOD_R_HAT, _GOOD_ESS = 1.05, 100


def choice(facts: Facts) -> Markup | None:
    """The curve for choosing K, with the suggestion and what it is worth."""
    found = facts["choice"]
    if found is None:
        return None
    chosen, suggested, most = found["chosen"], _suggested(found), found["n_clusters"][-1]
    asked = f"{chosen} {'was' if chosen == 1 else 'were'} asked for."
    lead = f"{found['sentence']} {asked} Another number costs no privacy: refit the same transcript."
    words = f"at least {suggested}" if found["outcome"] == "at least" else f"suggested: {suggested}"
    marked = []
    if suggested == chosen:
        lead = f"{found['sentence']} {asked}"
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
    if found["low"] is not None:
        caption += f" Shaded: {share(found['level'])} intervals, which hold the noise of the release."
    return section(
        "choice",
        "How many clusters?",
        join(lead, None if chosen <= most else f" The curve ends at {most}."),
        element(
            "figure",
            legend_of([(element("span", class_=f"dot {kind}"), text) for kind, text in marked]),
            _curve(found),
            element("figcaption", caption),
        ),
        more("The curve as a table", _curve_table(found)),
    )


def _suggested(found: Facts) -> int | None:
    """The number to mark; none where nothing is suggested."""
    return None if found["outcome"] == "not conclusive" else int(found["suggested"])


def _curve(found: Facts) -> Markup:
    ks, loss = found["n_clusters"], found["loss"]
    top = max(1.0, *(found["high"] or [1.0]))
    n = max(len(ks) - 1, 1)
    across = [(k - 1) / n for k in ks]
    between = None
    if found["low"] is not None:
        ends = zip(across, found["low"], found["high"], strict=True)
        between = [(x, low / top, min(high / top, 1.0)) for x, low, high in ends]
    kinds = {found["chosen"]: "chosen", _suggested(found): "suggested"}
    if found["chosen"] == _suggested(found):
        kinds = {found["chosen"]: "both"}
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
        f"{found['sentence']} The table below has the numbers.",
    )


def _curve_table(found: Facts) -> Markup:
    header, rows = ["clusters", "spread left"], []
    if found["low"] is not None:
        header.append("interval")
    for i, k in enumerate(found["n_clusters"]):
        row = [k, share(found["loss"][i])]
        if found["low"] is not None:
            row.append(f"{share(found['low'][i])} to {share(found['high'][i])}")
        rows.append([*row, figure(found["gap"][i]), figure(found["gap_error"][i], 2)])
    return table([*header, "gap", "its error"], rows, "Spread left by number of clusters, and the gap statistic")


def chains(facts: Facts) -> Markup | None:
    """Trace, acceptance, effective sample size and R-hat, where a sampler ran."""
    found = None if facts["fit"] is None else facts["fit"]["chains"]
    if found is None:
        return None
    accepted = [share(part) for part in found["acceptance"]]
    tiles = [
        ("chains" if len(accepted) > 1 else "chain", len(accepted)),
        ("accepted", " ".join(accepted) if len(accepted) < 3 else f"{accepted[0]} ..."),
        ("effective samples", "too short" if found["ess"] is None else figure(found["ess"], 3)),
        ("R-hat", "needs more chains" if found["r_hat"] is None else f"{found['r_hat']:.3f}"),
    ]
    best = found["best_step"] or [None] * len(accepted)
    rows = [
        [f"chain {i}", part, "" if step is None else f"{step:,}"]
        for i, (part, step) in enumerate(zip(accepted, best, strict=True), start=1)
    ]
    return section(
        "chains",
        "Did the chains settle?",
        _verdict(found),
        _traces(found["traces"]),
        rows_of(tiles, class_="tiles small"),
        more("Each chain", table(["chain", "accepted", "step of the best data set"], rows, "Chains")),
    )


def _verdict(found: Facts) -> str:
    words = []
    if found["interrupted"]:
        words.append("The run was stopped early.")
    if found["r_hat"] is not None:
        agree = "agree" if found["r_hat"] <= _GOOD_R_HAT else "do not agree yet: run them longer"
        words.append(f"The chains {agree} (R-hat {found['r_hat']:.2f}).")
    if found["ess"] is not None and found["ess"] < _GOOD_ESS:
        few = f"Few effective samples ({found['ess']:.0f})"
        words.append(f"{few}: look at the trace; one that still climbs has not settled.")
    if not words:
        words.append("A trace that has stopped climbing explains the answers about as well as the chain can.")
    return " ".join(words)


def _traces(traces: list[list[float]]) -> Markup | None:
    values = [value for trace in traces for value in trace]
    if not values or max(map(len, traces)) < 2:
        return None
    low, high = min(values), max(values)
    span = high - low or 1.0
    lines = [
        [(i / max(len(trace) - 1, 1), 0.03 + 0.94 * (value - low) / span) for i, value in enumerate(trace)]
        for trace in traces
    ]
    chart = line_chart(
        lines,
        x_labels=[(0.0, "start"), (1.0, "end")],
        y_labels=[(0.03, figure(low, 4)), (0.97, figure(high, 4))],
        x_title="steps of the chain",
        y_title="log target",
        label=f"Log-likelihood of {len(traces)} chains along their steps, from {figure(low, 5)} to {figure(high, 5)}.",
    )
    return element("figure", chart)
