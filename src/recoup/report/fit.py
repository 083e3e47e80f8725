"""How well the inferred data explains each round, and how far the method that made it can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.inference.diagnostics import ABSOLUTE_NOISE, Diagnostics, fit_of_blocks
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import asked_by
from recoup.report.result import Result
from recoup.transcript.transcript import Transcript

_EXACT = 1e-6  # noise scales: what is left is the solver's
_MOST_STEPS = 400


def fit_facts(result: Result) -> dict[str, Any]:
    """The misfit of each round in units of its noise, with what noise alone would leave.

    Args:
        result: what the report is about.

    Returns:
        JSON: for each block of each round its residual, the expected one, the range of chance, and a verdict; the
        solver's certificate; the chains where a sampler ran.
    """
    return fit_of(result.transcript, result.world if result.inferred is None else result.inferred)


def fit_of(transcript: Transcript, data: InferredDataset) -> dict[str, Any]:
    """What `fit_facts` says, of any transcript and any data that should explain it."""
    rows = []
    for t, name, n_values, value, low, high in fit_of_blocks(transcript, data.points, data.weights):
        verdict = "above" if value > high else "below" if value < low else "within"
        if value < _EXACT:
            # As many unknowns as answers: the data can follow any noise, so its fit says nothing for it.
            value, verdict = 0.0, "exact"
        rows.append(
            {
                "round": t + 1,
                "asked": asked_by(transcript.rounds[t].query).words,
                "block": f"{name}s",
                "values": n_values,
                "residual": value,
                "low": low,
                "high": high,
                "verdict": verdict,
            }
        )
    return {
        "expected": ABSOLUTE_NOISE[transcript.context.mechanism][0],
        "method": data.method,
        "rows": rows,
        "solver": _solver(data.diagnostics),
        "chains": _chains(data.diagnostics),
    }


def _solver(found: Diagnostics | None) -> list[dict[str, str]]:
    if found is None:
        return []
    rows = [("converged", "yes" if found.converged else "no: the result may not be the optimum")]
    if found.gap_per_row is not None:
        rows.append(("certified gap to the optimum", f"{found.gap_per_row:.2g} nats for each noisy value"))
    if found.n_iterations is not None:
        rows.append(("steps of the solver", f"{found.n_iterations:,}"))
    if found.primal_residual is not None and found.dual_residual is not None:
        rows.append(("residuals of the consistency step", f"{found.primal_residual:.1g}, {found.dual_residual:.1g}"))
    rows.append(("log-likelihood of the transcript", f"{found.log_likelihood:,.1f}, up to a constant"))
    return [{"name": name, "value": value} for name, value in rows]


def _chains(found: Diagnostics | None) -> dict[str, Any] | None:
    if found is None or found.log_likelihood_trace is None or found.acceptance is None:
        return None
    traces = []
    for trace in found.log_likelihood_trace:
        kept = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), _MOST_STEPS)).round().astype(int))
        traces.append([float(v) for v in trace[kept]])
    n_values = sum(len(trace) for trace in traces)
    return {
        "traces": traces if n_values else [],
        "acceptance": [float(v) for v in found.acceptance],
        "best_step": None if found.best_step is None else [int(v) for v in found.best_step],
        "ess": found.ess,
        "r_hat": found.r_hat,
        "interrupted": found.interrupted,
    }
