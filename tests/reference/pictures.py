"""Every kind of picture, small, from a golden transcript and numbers written here: what the image tests compare.

Run it to draw the golden pictures again: python tests/reference/pictures.py. Look at them before you keep them.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from recoup import InferredDataset, Transcript, plots
from recoup.inference.choose import ClusterCurve
from recoup.inference.diagnostics import Diagnostics
from recoup.inference.intervals import Intervals

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "pictures"
AFTER = np.array([[18.0, 2.0], [24.0, 4.5]])


def drawn(change: float = 0.0) -> dict[str, np.ndarray]:
    """The pictures as arrays of 8-bit colours; a change moves what they show, by that part of the axes."""
    transcript = Transcript.load(GOLDEN / "lloyd-v1.json")
    after = AFTER + change * np.array([50.0, 10.0])
    return {
        "rounds": _array(plots.plot_rounds, transcript if not change else _other(transcript)),
        "budget": _array(plots.plot_budget, transcript if not change else _shorter(transcript)),
        "before-after": _array(plots.plot_before_after, transcript, after),
        "centers": _array(plots.plot_centers, after, columns=("age", "visits")),
        "intervals": _array(plots.plot_intervals, _intervals(after), after, columns=("age", "visits"), simulated=True),
        "residuals": _array(plots.plot_residuals, transcript, _data(after, transcript)),
        "trace": _array(plots.plot_trace, _chains(change)),
        "curve": _array(plots.plot_curve, _curve(change), asked=5),
        "profiles": _array(plots.plot_profiles, transcript, after[:: -1 if change else 1]),
        "wcss": _array(plots.plot_wcss, _scores(change), references={"non-private": 1.0}),
    }


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The root of the mean squared difference of two pictures; infinite if they differ in size."""
    if one.shape != other.shape:
        return float("inf")
    return float(np.sqrt(np.mean((one.astype(np.float64) - other.astype(np.float64)) ** 2)))


def loaded(path: Path) -> np.ndarray:
    """A picture from its file."""
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def _array(draw, *arguments, **choices) -> np.ndarray:
    from matplotlib import rc_context

    # Fonts come with matplotlib, so that they are the same everywhere.
    with rc_context({"font.family": "DejaVu Sans", "font.size": 7, "lines.antialiased": True}):
        figure, (ax,) = plots.new_figure(3.4, 2.6)
        figure.set_dpi(70)
        draw(*arguments, ax=ax, **choices)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=70)
    out.seek(0)
    return loaded(out)


def _other(transcript):
    from dataclasses import replace

    first = replace(transcript.rounds[0], integers=tuple(v + 2**36 for v in transcript.rounds[0].integers))
    return replace(transcript, rounds=(*transcript.rounds[:2], first))


def _shorter(transcript):
    from dataclasses import replace

    return replace(transcript, rounds=transcript.rounds[:2])


def _intervals(after):
    sizes = {"size_low": np.array([100.0, 200.0]), "size_high": np.array([150.0, 260.0])}
    width = np.array([4.0, 1.0])
    return Intervals(level=0.9, n_draws=39, center_low=after - width, center_high=after + width, **sizes)


def _data(after, transcript):
    rng = np.random.default_rng(0)
    points = np.repeat(after, 250, axis=0) + rng.normal(size=(500, 2)) * [3.0, 0.7]
    return InferredDataset(points=points, weights=np.ones(500), method="maxent", simulated=transcript.simulated)


def _chains(change):
    steps = np.arange(60)
    traces = tuple(-50 * np.exp(-steps / (8 + 100 * change + 6 * c)) - 10 for c in range(2))
    found = Diagnostics(
        seconds={}, residuals=(), log_likelihood=-10.0, acceptance=(0.3, 0.3), log_likelihood_trace=traces
    )
    points = np.zeros((1, 2))
    return InferredDataset(points=points, weights=np.ones(1), method="mcmc", simulated=True, diagnostics=found)


def _curve(change):
    n, loss = np.arange(1, 9), 10.0 / np.arange(1, 9) ** (1.0 + 10 * change)
    ends = {"loss": loss, "loss_low": 0.8 * loss, "loss_high": 1.2 * loss, "gap": loss, "gap_error": loss}
    return ClusterCurve(n_clusters=n, **ends, suggested=3, outcome="at least", sentence="")


def _scores(change):
    return {"one": {0.25: 4.0, 1.0: 2.0 + 10 * change}, "other": {0.25: 2.0, 1.0: 1.2}}


if __name__ == "__main__":
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    for name, picture in drawn().items():
        Image.fromarray(picture).save(FOLDER / f"{name}.png", optimize=True)
