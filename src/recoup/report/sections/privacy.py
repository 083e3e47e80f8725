"""What was promised, in plain words and in numbers, what the promise does not cover, and where the budget went."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from recoup.inference.evidence import releases_behind
from recoup.inference.inferred import InferredDataset
from recoup.privacy.statement import CSV_MEANING, NOT_PRIVATE, REPLACED, PrivacyStatement
from recoup.queries.base import asked_by
from recoup.report.html import (
    Markup,
    appended,
    band,
    counted,
    element,
    figure,
    folded,
    join,
    scale_row,
    section,
    table,
    terms,
    tracks,
)
from recoup.report.sections import Json
from recoup.transcript.transcript import Transcript

_MECHANISMS = {
    "laplace": "integer Laplace noise on every number that was asked for",
    "gaussian": "discrete Gaussian noise on every number that was asked for",
    "exponential": "a noisy choice among candidates",
}
_DOMAINS = {
    "box": "the box of the bounds: a value outside its bounds counts as the bound",
    "l1": "an L1 ball inside the bounds: a record outside it is moved to its nearest point",
    "l2": "an L2 ball inside the bounds: a record outside it is moved to its nearest point",
    "mixed": "declared columns: numbers on their scales, a value outside its bounds counting as the bound; categories",
}
_NOISE = {
    "secure": "drawn by a cryptographic generator that the operating system seeds; nobody else can seed it",
    "simulated": "drawn from a seed: NOT PRIVATE",
    "unverified": "made elsewhere; nothing here can tell how it was drawn",
}
_OPENINGS = {"simulated": "With secure noise: ", "unverified": "As claimed, and not verified by Recoup: "}
_WARNINGS = {
    "simulated": (
        NOT_PRIVATE,
        "The noise came from a seed, for an experiment. Whoever has the seed can take it off again, so treat this page "
        "like the records themselves. What is said about privacy below is what secure noise of the same size would "
        "have promised.",
    ),
    "unverified": (
        "Privacy claimed, not verified",
        "{which} were made elsewhere. What is said about privacy below is claimed by whoever made them, not verified "
        "by Recoup: neither the noise, nor what one record could change, nor the budget.",
    ),
}


def best_guess(epsilon: float, delta: float = 0.0) -> float:
    """How often at most somebody guesses right whether a record was in the table, at even odds beforehand.

    The bound is (e^epsilon + delta) / (1 + e^epsilon), whatever else is known.
    """
    return 1.0 if epsilon > 700 else min(1.0, (exp(epsilon) + delta) / (1.0 + exp(epsilon)))


def content(
    privacy: Mapping[str, Any],
    *,
    n_records: int | None = None,
    budget: Json | None = None,
    clusters: bool = True,
    found: PrivacyStatement | None = None,
) -> Json:
    """The privacy statement of a transcript, of several together, or of a model, as the report says it.

    The budget is what `budget_content` returns; a model has none. What found the bounds, if anything did, is one of
    those that the statement is of.
    """
    lost, n_releases = (0.0, 1) if budget is None else (budget["lost"], budget["n_others"] + 1)
    n_releases += found is not None
    epsilon, delta, noise = float(privacy["epsilon"]), float(privacy["delta"]), str(privacy["noise"])
    low, high = privacy["bounds"]["low"], privacy["bounds"]["high"]
    names = privacy["bounds"]["columns"] or [f"column {j}" for j in range(len(low))]
    bounds = zip(names, low, high, strict=True)
    which = "These answers" if n_releases == 1 else "Some of the answers behind this page"
    title, text = _WARNINGS.get(noise, ("", ""))
    return {
        "private": noise == "secure",
        "n_releases": n_releases,
        "statement": str(privacy["statement"]),
        "warning": {"title": title, "text": text.format(which=which)} if title else None,
        "words": _words(privacy, epsilon, delta, clusters) + ([] if found is None else [_found_words(found)]),
        "numbers": _numbers(privacy, epsilon, delta, n_records, lost, n_releases),
        "bounds": [{"column": str(name), "low": float(a), "high": float(b)} for name, a, b in bounds],
        "not_covered": _not_covered(privacy, n_records, delta, found),
    } | ({} if found is None else {"found": {"epsilon": found.epsilon, "delta": found.delta}})


def _found_words(found: PrivacyStatement) -> str:
    n_columns = len(found.bounds["low"])
    part = f"epsilon = {figure(found.epsilon, 6)}" + (f" and delta = {found.delta:g}" if found.delta else "")
    return (
        f"Bounds of {counted(n_columns, 'column')} were found by another release of the same records, for {part}: the "
        "promise is that of both together."
    )


def _words(privacy: Mapping[str, Any], epsilon: float, delta: float, clusters: bool) -> list[str]:
    unit, _, _ = str(privacy["unit"]).partition(",")  # and not by which column
    one = unit.startswith("one ")
    who, them = (f"any {unit}", "it") if one else (f"all {unit}", "them")
    present = f"{who} {'was' if one else 'were'} in the table"
    right = round(100 * best_guess(epsilon, delta))
    limit = f"if both are equally likely beforehand, a guess is right at most {right} times in 100."
    if privacy["neighbours"] == REPLACED:
        change = f"With either value of {them}"
        first = f"Nobody who sees this page can tell for sure which of two values {who} had: {limit}"
    else:
        change = f"With {them} or without {them}"
        first = f"Nobody who sees this page can tell for sure whether {present}: {limit}"
        if right == 100:
            first = f"At this epsilon the promise is weak: a guess whether {present} could be right nearly every time."
    factor = f"{exp(epsilon):.3g}" if epsilon < 50 else f"e^{epsilon:g}"
    event = "set of possible releases" if delta else "possible release"
    second = f"{change}, every {event} is at most {factor} times as likely (e to the power of {figure(epsilon)})"
    second += f", plus {delta:g}." if delta else "."
    everything = "the clusters, the pictures and the intervals" if clusters else "the answer and how well it fits"
    third = (
        f"This holds whatever else somebody knows, and for everything here: the inferred data, {everything} were "
        "computed from the noisy answers alone, so they cost no more privacy."
    )
    opening = _OPENINGS.get(privacy["noise"])
    return [first if opening is None else f"{opening}{first[0].lower()}{first[1:]}", second, third]


def _numbers(
    privacy: Mapping[str, Any], epsilon: float, delta: float, n_records: int | None, lost: float, n_releases: int
) -> list[dict[str, str]]:
    noise, claimed = str(privacy["noise"]), privacy["noise"] == "unverified"
    mechanisms = [_MECHANISMS.get(name, name) for name in str(privacy["mechanism"]).split(" and ")]
    whose = "of this release" if n_releases == 1 else f"of {n_releases} releases together, which this was made from"
    priced = f"of epsilon, by OpenDP's own privacy map{', lost rounds included' * (lost > 0)}"
    neighbours = "add or remove", "two tables are neighbours if one is the other plus one unit"
    if privacy["neighbours"] == REPLACED:
        neighbours = "replace", "two tables are neighbours if they differ in the values of one unit"
    rows = [
        ("epsilon", figure(epsilon, 6), f"the privacy budget {whose}; smaller promises more"),
        ("delta", f"{delta:g}", "0: nothing is added" if delta == 0 else "is added to the probability of any event"),
        ("spent", figure(float(privacy["spent"]), 6), "of epsilon, as claimed" if claimed else priced),
        ("neighbours", *neighbours),
        ("unit", str(privacy["unit"]), "what is protected as a whole"),
        ("mechanism", str(privacy["mechanism"]), "the noise, as claimed" if claimed else "; ".join(mechanisms)),
        ("noise", noise, _NOISE[noise]),
        ("domain", str(privacy["domain"]), _DOMAINS.get(str(privacy["domain"]), "declared")),
    ]
    if privacy["csv_dialect"] is not None:
        meaning = CSV_MEANING[privacy["csv_dialect"]]
        rows.append(("dialect of CSV", str(privacy["csv_dialect"]), f"as declared: one unit is {meaning}"))
    if n_records is not None:
        rows.append(("declared records", f"{n_records:,}", "a public number that was typed, not counted"))
    rows.append(("version", f"Recoup {privacy['version']}", "that read it" if claimed else "that released it"))
    return [{"name": name, "value": value, "meaning": meaning} for name, value, meaning in rows]


def _not_covered(
    privacy: Mapping[str, Any], n_records: int | None, delta: float, found: PrivacyStatement | None
) -> list[dict[str, str]]:
    claimed, unit = privacy["noise"] == "unverified", str(privacy["unit"]).removesuffix(" of one person")
    claim = "Noise, clipping and budget were somebody else's. If they are not what was stated, nothing here shows it."
    up_to_delta = (
        "Every event may be more likely than the factor above allows, by up to delta. A delta of 1 / N would still "
        "allow somebody to publish one record drawn at random, so it should be far smaller."
    )
    if not claimed:
        up_to_delta += (
            " This kind of noise never does that: every answer that is possible with one table is possible with all."
        )
    typed = "It is public as it was typed, like column names and titles."
    declared = "The bounds below" if found is None else "The bounds below that no release found"
    gaps = {
        "The claim itself": claim if claimed else "",
        "Bounds taken from the data": f"{declared} were declared as public knowledge. If they were computed from the "
        "table, or by a step before this one that looked at it, the promise does not hold.",
        "Other releases": "Every further release from the same records adds its own epsilon. Only a shared ledger adds "
        "them up; what was published outside it is not counted here.",
        **_more_than_one(unit, delta),
        "Exact helpers": "Labels from predict, distances from transform and values of score are computed exactly from "
        "the records that they are given. They are for local use and are not on this page.",
        "Time and machines": "How long a run took, how much memory it used, and who may read the table or the machine "
        "are not hidden.",
        "What is true of many": "What is learned about a group may apply to its members, whether they are in the table "
        "or not.",
        "The declared number of records": "" if n_records is None else typed,
        "Up to delta": up_to_delta if delta else "",
    }
    return [{"title": title, "text": text} for title, text in gaps.items() if text]


def _more_than_one(unit: str, delta: float) -> dict[str, str]:
    """What becomes of those who hold more than a unit."""
    if unit.startswith("one person"):
        return {
            "People under two names": "The table's identifiers decide who a record belongs to, exactly as they are "
            "written: somebody with two identifiers counts as two persons, each protected separately."
        }
    more = ", and the delta is 1 + e^epsilon times as large" if delta else ""
    text = "The limit is declared and not enforced. Somebody with twice as many is protected with twice the epsilon"
    return {f"People with more than {unit}": f"{text}{more}."}


def html(privacy: Json) -> Markup:
    """The promise in words and numbers, the bounds, and what is not covered."""
    first, *rest = privacy["words"]
    words = [element("p", first, class_="promise"), [element("p", text) for text in rest]]
    numbers = [(row["name"], join(row["value"], " ", element("small", row["meaning"]))) for row in privacy["numbers"]]
    bounds = [[b["column"], figure(b["low"], 12), figure(b["high"], 12)] for b in privacy["bounds"]]
    which, source = "Declared bounds", "public, not computed from the data"
    if "found" in privacy:
        which, source = "Bounds", "declared as public, or found by a release that is counted here"
    gaps = [element("li", element("strong", f"{row['title']}."), " ", row["text"]) for row in privacy["not_covered"]]
    return section(
        "privacy",
        "What is promised",
        None,
        element("div", element("div", words), terms(numbers, class_="numbers"), class_="columns"),
        element("h3", "What is not covered"),
        element("ul", gaps, class_="plain two"),
        folded(
            f"{which} of each column",
            table(["column", "low", "high"], bounds, f"{which}: {source}"),
            opened=len(bounds) <= 4,
        ),
    )


def budget_content(
    transcript: Transcript, inferred: InferredDataset | None = None, found: PrivacyStatement | None = None
) -> Json:
    """What each round cost, how that was split, and how noisy its counts were; and what found the bounds, if it did.

    Where privacy is only claimed, the rounds have what such noise would cost here, and the total is theirs.
    """
    context, claimed = transcript.context, transcript.imported
    total = float(sum(r.price.amount for r in transcript.rounds) if claimed else context.budget.amount)
    rounds = []
    for t, answered in enumerate(transcript.rounds, start=1):
        price, parts, count_noise = float(answered.price.amount), answered.price_of_blocks(context), None
        if "count" in parts:
            count_noise = context.noise.deviation(float(answered.scales[answered.block("count", context)][0]))
        rounds.append(
            asked_by(answered.query)._asdict()
            | {"round": t, "price": price, "share": price / total}
            | {"parts": [{"name": f"{name}s", "price": part, "share": part / total} for name, part in parts.items()]}
            | {"count_noise": count_noise}
        )
    measure, spent = "epsilon" if context.budget_measure == "pure" else "rho", float(transcript.amount_spent)
    lost = float(sum(transcript.lost) + (transcript.pending or 0)) * total
    amounts = {"measure": measure, "total": total, "spent": total if claimed else spent}
    promised = {"epsilon": float(context.epsilon), "delta": float(context.delta), "claimed": claimed, "lost": lost}
    before = {} if found is None else {"bounds": found.epsilon}
    return amounts | promised | before | {"n_others": releases_behind(transcript, inferred) - 1, "rounds": rounds}


def budget_html(budget: Json) -> Markup:
    """What each round cost, on top of the rounds before it."""
    unit = budget["measure"]
    lost = f"What was charged and then lost in an interruption counts as spent: {unit} {figure(budget['lost'])}."
    names = dict.fromkeys(["counts", "sums", *(part["name"] for row in budget["rounds"] for part in row["parts"])])
    others = ", ".join(name for name in names if name != "counts")
    keys = {"counts": "counts", "sums": others, "before": "spent in earlier rounds"}
    before, rows = 0.0, []
    for entry in budget["rounds"]:
        marks = [band("before", 0.0, before)]
        for part in entry["parts"]:
            marks.append(band("counts" if part["name"] == "counts" else "sums", before, before + part["share"]))
            before += part["share"]
        split = ", ".join(f"{part['name']} {figure(part['price'])}" for part in entry["parts"])
        noise = (
            ""
            if entry["count_noise"] is None
            else f"; each count has noise of about ±{figure(entry['count_noise'], 2)}"
        )
        price = f"{unit} {figure(entry['price'])}"
        rows.append(scale_row(f"Round {entry['round']}", entry["words"], price, marks, f"{split}{noise}"))
    return appended(
        "budget",
        "Rounds and budget",
        _lead(budget),
        element("p", lost, class_="note") if budget["lost"] > 0 else None,
        tracks([(band(kind, 0.0, 1.0), text) for kind, text in keys.items()]),
        element("ol", rows, class_="plain rows"),
    )


def _lead(budget: Json) -> str:
    unit, epsilon, total = budget["measure"], figure(budget["epsilon"], 6), figure(budget["total"], 4)
    spent = "all" if budget["spent"] > 0.99999 * budget["total"] else figure(budget["spent"], 4)
    if budget["claimed"]:
        lead = (
            f"Epsilon = {epsilon} is claimed for all rounds together, not verified by Recoup. The bars show what noise "
            f"of the stated scales would cost had Recoup drawn it, for adding or removing one unit: {unit} {total} in "
            "all."
        )
    elif unit == "epsilon":
        lead = f"Of epsilon = {epsilon}, {spent} was spent, round after round."
    else:
        lead = (
            f"Gaussian noise is priced in rho, half the square of sensitivity over noise. Epsilon = {epsilon} with "
            f"delta = {budget['delta']:g} allows rho = {total}, of which {spent} was spent."
        )
    if "bounds" in budget:
        lead += f" Before that, another release found bounds for epsilon = {figure(budget['bounds'], 6)}."
    if budget["n_others"]:
        others = "another release" if budget["n_others"] == 1 else f"{budget['n_others']} other releases"
        lead += f" The inferred data was made from {others} as well; the promise is that of all together."
    return lead
