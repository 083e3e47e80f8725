"""The analyst's half of a handover: everything here comes from one JSON file.

    python examples/handover_analyst.py results/handover/transcript.json -o results/handover

There are no records on this side, and nothing here could ask for them. Nothing here costs privacy either, so the
analyst may try as often and as much as she likes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import recoup
from recoup import plots
from recoup.inference.choose import ClusterCurve
from recoup.inference.intervals import intervals
from recoup.report.write import write_report


def draw(path: Path, transcript: recoup.Transcript, inferred: recoup.InferredDataset, curve: ClusterCurve) -> None:
    """Draw what was paid for, how well the inferred data explains it, and the loss by number of clusters."""
    figure, axes = plots.new_figure(12.6, 4.2, n_axes=3)
    plots.legend_below(plots.plot_budget(transcript, axes[0]), 2)
    axes[0].set_title("what the rounds cost", fontsize=11)
    plots.legend_below(plots.plot_residuals(transcript, inferred, axes[1]), 2)
    axes[1].set_title("how well they are explained", fontsize=11)
    plots.legend_below(plots.plot_curve(curve, axes[2]), 3)
    axes[2].set_title("how many clusters", fontsize=11)
    path.write_bytes(plots.png(figure))


def main() -> None:
    """Read a transcript: promise, clusters, intervals, other questions, a picture and a report."""
    parser = argparse.ArgumentParser(description="Read a released transcript.")
    parser.add_argument("transcript", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/handover"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    transcript = recoup.Transcript.load(arguments.transcript)
    promise = transcript.privacy
    print(f"{promise['statement']}: epsilon {promise['epsilon']:g}, delta {promise['delta']:g}, {promise['unit']}.")

    inferred = recoup.infer(transcript, random_state=0)
    curve = recoup.suggest_clusters(inferred, k_max=8, transcript=transcript)
    centers = recoup.refit(transcript, inferred, n_clusters=curve.suggested, random_state=0)
    found = intervals(transcript, inferred, centers, random_state=0)
    columns = transcript.context.domain.columns
    print(f"{curve.sentence} The centres of {curve.suggested}, with 90% intervals:")
    for k, center in enumerate(centers):
        ends = zip(columns, center, found.center_low[k], found.center_high[k], strict=True)
        print("  " + "; ".join(f"{name} {value:.1f} ({low:.1f} to {high:.1f})" for name, value, low, high in ends))

    # Inferred data answers other questions too, roughly: it knows what the rounds asked about, and is smooth elsewhere.
    old = inferred.points[:, columns.index("age_years")] >= 65
    print(f"About {100 * inferred.weights[old].sum() / inferred.n_records:.0f}% are 65 or older.")
    sample = inferred.sample(1000, random_state=0)
    np.savetxt(
        arguments.output / "sample.csv", sample, delimiter=",", header=",".join(columns), comments="", fmt="%.2f"
    )

    draw(arguments.output / "reading.png", transcript, inferred, curve)
    write_report(arguments.output / "report.html", transcript, centers, inferred, title="Read from a transcript")
    print(f"Open {arguments.output / 'report.html'}; the picture is {arguments.output / 'reading.png'}.")


if __name__ == "__main__":
    main()
