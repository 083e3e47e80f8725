"""How well the inferred data explains each round, and how far the method that made it can be trusted."""

from __future__ import annotations

import numpy as np

from recoup.inference.diagnostics import ABSOLUTE_NOISE, Diagnostics, fit_of_blocks
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import asked_by
from recoup.report import html as h
from recoup.report.sections import Json
from recoup.transcript.transcript import Transcript

_EXACT = 1e-6  # noise scales: what is left is the solver's
_MOST_STEPS = 400
_WIDEST_FIT = 4.0  # noise scales that the scale of the fit shows at least; a worse misfit stands at its end
_GOOD_R_HAT, _GOOD_ESS = 1.05, 100
_VERDICTS = {  # in words, and as the mark is drawn
    "within": ("as far off as noise alone would be", "within"),
    "above": ("not explained well", "above"),
    "below": ("closer than noise alone would be", "below"),
    "exact": ("followed exactly, noise and all", "below"),
}


def content(transcript: Transcript, data: InferredDataset) -> Json:
    """The misfit of each block of each round in units of its noise, with what noise alone would leave."""
    rows = []
    for t, name, n_values, value, low, high in fit_of_blocks(transcript, data.points, data.weights):
        verdict = "above" if value > high else "below" if value < low else "within"
        if value < _EXACT:
            # As many unknowns as answers: the data can follow any noise, so its fit says nothing for it.
            value, verdict = 0.0, "exact"
        asked = asked_by(transcript.rounds[t].query).words
        rows.append(
            {"round": t + 1, "asked": asked, "block": f"{name}s", "values": n_values, "residual": value}
            | {"low": low, "high": high, "verdict": verdict}
        )
    return {
        "expected": ABSOLUTE_NOISE[transcript.context.mechanism][0],
        "method": data.method,
        "rows": rows,
        "solver": _solver(data.diagnostics),
        "chains": _chains(data.diagnostics),
    }


def _solver(ran: Diagnostics | None) -> list[dict[str, str]]:
    if ran is None:
        return []
    rows = {"converged": "yes" if ran.converged else "no: the result may not be the optimum"}
    if ran.gap_per_row is not None:
        rows["certified gap to the optimum"] = f"{ran.gap_per_row:.2g} nats for each noisy value"
    if ran.n_iterations is not None:
        rows["steps of the solver"] = f"{ran.n_iterations:,}"
    if ran.primal_residual is not None and ran.dual_residual is not None:
        rows["residuals of the consistency step"] = f"{ran.primal_residual:.1g}, {ran.dual_residual:.1g}"
    rows["log-likelihood of the transcript"] = f"{ran.log_likelihood:,.1f}, up to a constant"
    return [{"name": name, "value": value} for name, value in rows.items()]


def _chains(ran: Diagnostics | None) -> Json | None:
    if ran is None or ran.log_likelihood_trace is None or ran.acceptance is None:
        return None
    traces = []
    for trace in ran.log_likelihood_trace:
        kept = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), _MOST_STEPS)).round().astype(int))
        traces.append([float(v) for v in trace[kept]])
    best = None if ran.best_step is None else [int(v) for v in ran.best_step]
    chains = {"traces": traces if any(traces) else [], "acceptance": [float(v) for v in ran.acceptance]}
    return chains | {"best_step": best, "ess": ran.ess, "r_hat": ran.r_hat, "interrupted": ran.interrupted}


def html(fit: Json) -> h.Markup:
    """The misfit of each round against its noise, and the solver's own report."""
    worst, highest = (max((row[end] for row in fit["rows"]), default=0.0) for end in ("residual", "high"))
    top = max(2.0 * fit["expected"], highest, min(1.1 * worst, _WIDEST_FIT))
    rows = []
    for row in fit["rows"]:
        verdict, kind = _VERDICTS[row["verdict"]]
        marks = [
            h.band("chance", row["low"] / top, row["high"] / top),
            h.mark("expected", fit["expected"] / top),
            h.mark(f"residual {kind}", row["residual"] / top),
        ]
        value, low, high = (h.figure(row[key], 2) for key in ("residual", "low", "high"))
        words = f"{verdict}; noise alone gives {low} to {high} for {h.counted(row['values'], 'value')}"
        rows.append(h.scale_row(f"Round {row['round']}, {row['block']}", row["asked"], value, marks, words))
    keys = [
        (h.mark("residual within", 0.5), "mean distance, in units of the noise"),
        (h.band("chance", 0.0, 1.0), "range that noise alone would give"),
        (h.mark("expected", 0.5), "average that noise alone would give"),
    ]
    ended = [[row["name"], row["value"]] for row in fit["solver"]]
    solver = h.table(["what", "value"], ended, "Diagnostics of the inference", words=2)
    return h.appended(
        "fit",
        "Does the inferred data explain the answers?",
        "How far each noisy answer is from the answer that the inferred data would give, in units of the noise. If "
        f"only noise separates them, the distance is about {h.figure(fit['expected'], 2)}. A much larger distance "
        "means that the data does not explain the round. A slightly smaller one is usual, because inference follows "
        "the noise a little.",
        h.tracks(keys),
        h.element("ol", rows, class_="plain rows"),
        h.folded("How the inference ended", solver) if ended else None,
    )


def chains_html(fit: Json) -> h.Markup | None:
    """Trace, acceptance, effective sample size and R-hat, where a sampler ran."""
    chains = fit["chains"]
    if chains is None:
        return None
    accepted = [h.share(part) for part in chains["acceptance"]]
    tiles = [
        ("chains" if len(accepted) > 1 else "chain", len(accepted)),
        ("accepted", " ".join(accepted) if len(accepted) < 3 else f"{accepted[0]} ..."),
        ("effective samples", "too short" if chains["ess"] is None else h.figure(chains["ess"], 3)),
        ("R-hat", "needs more chains" if chains["r_hat"] is None else f"{chains['r_hat']:.3f}"),
    ]
    best = chains["best_step"] or [None] * len(accepted)
    rows = [
        [f"chain {i}", part, "" if step is None else f"{step:,}"]
        for i, (part, step) in enumerate(zip(accepted, best, strict=True), start=1)
    ]
    return h.appended(
        "chains",
        "Did the chains settle?",
        _settled(chains),
        _traces(chains["traces"]),
        h.terms(tiles, class_="tiles small"),
        h.folded("Each chain", h.table(["chain", "accepted", "step of the best data set"], rows, "Chains")),
    )


def _settled(chains: Json) -> str:
    words = ["The run was stopped early."] if chains["interrupted"] else []
    if chains["r_hat"] is not None:
        agree = "agree" if chains["r_hat"] <= _GOOD_R_HAT else "do not agree yet: run them longer"
        words.append(f"The chains {agree} (R-hat {chains['r_hat']:.2f}).")
    if chains["ess"] is not None and chains["ess"] < _GOOD_ESS:
        few = f"Few effective samples ({chains['ess']:.0f})"
        words.append(f"{few}: look at the trace; one that still climbs has not settled.")
    settled = "A chain whose trace has stopped climbing explains the answers about as well as it can."
    return " ".join(words) or settled


def _traces(traces: list[list[float]]) -> h.Markup | None:
    values = [value for trace in traces for value in trace]
    if not values or max(map(len, traces)) < 2:
        return None
    low, high = min(values), max(values)
    span, lines = high - low or 1.0, []
    for trace in traces:
        n = max(len(trace) - 1, 1)
        lines.append([(i / n, 0.03 + 0.94 * (value - low) / span) for i, value in enumerate(trace)])
    chart = h.line_chart(
        lines,
        x_labels=[(0.0, "start"), (1.0, "end")],
        y_labels=[(0.03, h.figure(low, 4)), (0.97, h.figure(high, 4))],
        x_title="steps of the chain",
        y_title="log target",
        label=f"Log-likelihood of {len(traces)} chains along their steps, from {h.figure(low, 5)} to "
        f"{h.figure(high, 5)}.",
    )
    return h.element("figure", chart)
