"""Where the budget went, round by round."""

from __future__ import annotations

from recoup.inference.evidence import releases_behind
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import asked_by
from recoup.report.html import Markup, band, element, figure, legend, scale_row, section, track
from recoup.report.result import Json
from recoup.transcript.transcript import Transcript


def content(transcript: Transcript, inferred: InferredDataset | None = None) -> Json:
    """What each round cost, how that was split, and how noisy its counts were.

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
            | {
                "round": t,
                "price": price,
                "share": price / total,
                "parts": [{"name": f"{name}s", "price": part, "share": part / total} for name, part in parts.items()],
                "count_noise": count_noise,
            }
        )
    return {
        "measure": "epsilon" if context.budget_measure == "pure" else "rho",
        "total": total,
        "spent": total if claimed else float(transcript.amount_spent),
        "epsilon": float(context.epsilon),
        "delta": float(context.delta),
        "claimed": claimed,
        "lost": float(sum(transcript.lost) + (transcript.pending or 0)) * total,
        "n_others": releases_behind(transcript, inferred) - 1,
        "rounds": rounds,
    }


def html(budget: Json) -> Markup:
    """What each round cost, on top of the rounds before it."""
    unit, lost = budget["measure"], None
    if budget["lost"] > 0:
        words = f"What was charged and lost in an interruption counts as spent: {unit} {figure(budget['lost'])}."
        lost = element("p", words, class_="note")
    names = dict.fromkeys(["counts", "sums", *(part["name"] for row in budget["rounds"] for part in row["parts"])])
    keys = legend(
        [
            (track(band("counts", 0.0, 1.0)), "counts"),
            (track(band("sums", 0.0, 1.0)), ", ".join(name for name in names if name != "counts")),
            (track(band("before", 0.0, 1.0)), "spent in earlier rounds"),
        ]
    )
    before, rows = 0.0, []
    for entry in budget["rounds"]:
        marks = [band("before", 0.0, before)]
        for part in entry["parts"]:
            marks.append(band("counts" if part["name"] == "counts" else "sums", before, before + part["share"]))
            before += part["share"]
        split = ", ".join(f"{part['name']} {figure(part['price'])}" for part in entry["parts"])
        noise = "" if entry["count_noise"] is None else f"; noise of a count ±{figure(entry['count_noise'], 2)} records"
        price = f"{unit} {figure(entry['price'])}"
        rows.append(scale_row(f"Round {entry['round']}", entry["words"], price, track(*marks), f"{split}{noise}"))
    return section(
        "budget", "Where the budget went", _lead(budget), lost, keys, element("ol", rows, class_="plain rows")
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
            f"Gaussian noise is priced in rho (zero-concentrated privacy). Epsilon = {epsilon} with delta = "
            f"{budget['delta']:g} allows rho = {total}, of which {spent} was spent."
        )
    if budget["n_others"]:
        others = "another release" if budget["n_others"] == 1 else f"{budget['n_others']} other releases"
        lead += f" The inferred data was made from {others} as well; the promise is that of all together."
    return lead
