"""The sections with bars on a scale: what clusters are like, where the budget went, how well rounds are explained."""

from __future__ import annotations

from recoup.report.blocks import Facts, legend_of, more, section, table
from recoup.report.charts import band, mark, track
from recoup.report.markup import Markup, element, join
from recoup.report.numbers import count, figure, in_units, share
from recoup.report.profiles import size_words

_VERDICTS = {
    "within": "as noise would leave it",
    "above": "not explained well",
    "below": "followed closely",
    "exact": "followed exactly, noise and all",
}
_MARKS = {"exact": "below"}
_WIDEST_FIT = 4.0  # noise scales that the scale of the fit shows at least; a worse misfit stands at its end


def clusters(facts: Facts) -> Markup | None:
    """What each cluster is like, largest first."""
    found = facts["profiles"]
    if found is None:
        return None
    whole = {of["column"]: of for of in found["whole"]}
    notes = []
    if found["n_rows"] < len(found["whole"]):
        notes.append(f"Each card shows the {found['n_rows']} columns in which the cluster differs most.")
    if len(found["clusters"]) < found["n_clusters"]:
        notes.append(f"Shown are the {len(found['clusters'])} largest of {found['n_clusters']} clusters.")
    if found["stands_in"]:
        notes.append("Spreads are those of maximum-entropy data inferred from the same transcript.")
    sure = None
    if found["level"] is not None:
        sure = (
            f" Higher and lower are told only where the {share(found['level'])} interval, which stands in brackets, "
            "bears it out."
        )
    legend = legend_of(
        [
            (track(band("whole", 0.1, 0.9)), "middle 80 % of all records"),
            (track(band("own", 0.2, 0.7)), "middle 80 % of the cluster"),
            (track(mark("center", 0.5)), "its centre"),
        ]
    )
    lead = join(
        "Largest first, numbered as ", element("code", "predict"), " numbers them, compared with all records.", sure
    )
    return section(
        "clusters",
        "The clusters",
        lead,
        [element("p", note, class_="soft") for note in notes],
        legend,
        element("div", [_card(cluster, whole) for cluster in found["clusters"]], class_="cards"),
    )


def _card(cluster: Facts, whole: dict[str, Facts]) -> Markup:
    label = cluster["label"]
    head = [
        element("span", label, class_="badge", aria_hidden="true"),
        element("h3", f"Cluster {label}", id=f"cluster-{label}"),
        element("span", share(cluster["share"]), class_="share"),
    ]
    return element(
        "article",
        element("header", head),
        track(band("size", 0.0, cluster["share"]), class_="thin"),
        element("p", f"{size_words(cluster)} records", class_="soft"),
        element("p", cluster["sentence"], class_="sentence"),
        element("ul", [_profile(row, whole[row["column"]]) for row in cluster["rows"]], class_="plain profile"),
        class_="card",
        aria_labelledby=f"cluster-{label}",
    )


def _profile(row: Facts, of: Facts) -> Markup:
    """One column of a cluster against the whole."""
    low, high = of["axis"]

    def at(value: float) -> float:
        return float((value - low) / (high - low))

    def units(value: float) -> str:
        return in_units(value, of["span"])

    marks = [band("whole", at(of["q10"]), at(of["q90"])), band("own", at(row["q10"]), at(row["q90"]))]
    interval = None
    if row["low"] is not None:
        interval = element("small", f"({units(row['low'])} to {units(row['high'])})")
        marks.append(band("interval", at(row["low"]), at(row["high"])))
    marks.append(mark("center", at(row["center"])))
    spread = f"80 % in {units(row['q10'])} to {units(row['q90'])}; overall mean {units(of['mean'])}"
    return element(
        "li",
        element("span", row["column"], class_="name"),
        element("span", element("b", units(row["center"])), " ", interval, class_="value"),
        track(*marks),
        element("small", spread, class_="spread"),
    )


def budget(facts: Facts) -> Markup | None:
    """What each round cost, on top of the rounds before it."""
    found = facts["budget"]
    if found is None:
        return None
    unit, epsilon = found["measure"], figure(found["epsilon"], 6)
    spent = "all" if found["spent"] > 0.99999 * found["total"] else figure(found["spent"], 4)
    if found["claimed"]:
        lead = (
            f"Epsilon = {epsilon} is claimed for all rounds together, not verified by Recoup. The bars show what "
            f"noise of the stated scales would cost had Recoup drawn it, for adding or removing one unit: {unit} "
            f"{figure(found['total'], 4)} in all."
        )
    elif unit == "epsilon":
        lead = f"Of epsilon = {epsilon}, {spent} was spent, round after round."
    else:
        lead = (
            f"Gaussian noise is priced in rho (zero-concentrated privacy). Epsilon = {epsilon} with delta = "
            f"{found['delta']:g} allows rho = {figure(found['total'], 4)}, of which {spent} was spent."
        )
    if found["n_others"]:
        more_of_them = "another release" if found["n_others"] == 1 else f"{found['n_others']} other releases"
        lead += f" The inferred data was made from {more_of_them} as well; the promise is that of all together."
    lost = None
    if found["lost"] > 0:
        words = f"What was charged and lost in an interruption counts as spent: {unit} {figure(found['lost'])}."
        lost = element("p", words, class_="note")
    names = dict.fromkeys(["counts", "sums", *(part["name"] for row in found["rounds"] for part in row["parts"])])
    others = [name for name in names if name != "counts"]
    legend = legend_of(
        [
            (track(band("counts", 0.0, 1.0)), "counts"),
            (track(band("sums", 0.0, 1.0)), ", ".join(others)),
            (track(band("before", 0.0, 1.0)), "spent in earlier rounds"),
        ]
    )
    before, rows = 0.0, []
    for entry in found["rounds"]:
        marks = [band("before", 0.0, before)]
        for part in entry["parts"]:
            kind = "counts" if part["name"] == "counts" else "sums"
            marks.append(band(kind, before, before + part["share"]))
            before += part["share"]
        split = ", ".join(f"{part['name']} {figure(part['price'])}" for part in entry["parts"])
        noise = "" if entry["count_noise"] is None else f"; noise of a count ±{figure(entry['count_noise'], 2)} records"
        price = f"{unit} {figure(entry['price'])}"
        rows.append(_row(f"Round {entry['round']}", entry["words"], price, track(*marks), f"{split}{noise}"))
    return section("budget", "Where the budget went", lead, lost, legend, element("ol", rows, class_="plain rows"))


def fit(facts: Facts) -> Markup | None:
    """The misfit of each round against its noise, and the solver's own report."""
    found = facts["fit"]
    if found is None:
        return None
    worst = max((row["residual"] for row in found["rows"]), default=0.0)
    chance = max((row["high"] for row in found["rows"]), default=0.0)
    top = max(2.0 * found["expected"], chance, min(1.1 * worst, _WIDEST_FIT))
    rows = []
    for row in found["rows"]:
        scale = track(
            band("chance", row["low"] / top, row["high"] / top),
            mark("expected", found["expected"] / top),
            mark(f"residual {_MARKS.get(row['verdict'], row['verdict'])}", row["residual"] / top),
        )
        values = "1 value" if row["values"] == 1 else f"{count(row['values'])} values"
        words = f"{_VERDICTS[row['verdict']]}; chance: {figure(row['low'], 2)} to {figure(row['high'], 2)} for {values}"
        name = f"Round {row['round']}, {row['block']}"
        rows.append(_row(name, row["asked"], figure(row["residual"], 2), scale, words))
    legend = legend_of(
        [
            (track(mark("residual within", 0.5)), "mean misfit, in noise scales"),
            (track(band("chance", 0.0, 1.0)), "range of chance"),
            (track(mark("expected", 0.5)), "what noise leaves on average"),
        ]
    )
    lead = (
        "The distance between each noisy answer and what the inferred data would have answered, in units of the noise. "
        f"Near {figure(found['expected'], 2)} is what noise leaves; far above, the data does not explain the round. "
        "Somewhat below is usual: inference follows the noise a little."
    )
    solver = [[row["name"], row["value"]] for row in found["solver"]]
    ended = table(["what", "value"], solver, "Diagnostics of the inference", words=2) if solver else None
    return section(
        "fit",
        "Does the inferred data explain the answers?",
        lead,
        legend,
        element("ol", rows, class_="plain rows"),
        None if ended is None else more("How the inference ended", ended),
    )


def _row(name: str, what: str, value: str, scale: Markup, words: str) -> Markup:
    return element(
        "li",
        element("span", name, class_="name"),
        element("span", what, class_="what"),
        element("span", value, class_="value"),
        scale,
        element("small", words, class_="spread"),
    )
