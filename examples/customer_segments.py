"""Customer segments of a shop: a table with units, private segments in those units, a report and a picture.

    python examples/customer_segments.py -o results/customers

The customers are generated. Everything after `make_customers` is what one would do with a real table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import recoup
from recoup import plots

# What can be said about any shop's customers before looking at one of them. The names carry the units.
BOUNDS = {
    "age_years": (18, 95),
    "visits_per_month": (0, 30),
    "basket_eur": (0, 250),
    "months_as_customer": (0, 120),
}
# Of the generated customers: share, then mean and spread of each column.
SEGMENTS = (
    (0.30, (23, 3), (9, 2.5), (18, 6), (11, 6)),
    (0.25, (41, 5), (5, 1.5), (115, 25), (48, 18)),
    (0.20, (71, 6), (12, 3), (34, 9), (88, 15)),
    (0.25, (38, 9), (1.5, 0.8), (62, 20), (20, 10)),
)


def make_customers(path: Path, n_records: int, seed: int) -> None:
    """Write a CSV of generated customers; one cell in a hundred is empty, as in real tables."""
    rng = np.random.default_rng(seed)
    shares = [segment[0] for segment in SEGMENTS]
    moments = np.array([segment[1:] for segment in SEGMENTS])[rng.choice(len(SEGMENTS), size=n_records, p=shares)]
    rows = np.clip(rng.normal(moments[..., 0], moments[..., 1]), *np.array(list(BOUNDS.values()), dtype=float).T)
    missing = rng.random(n_records) < 0.01
    columns = {"customer": pa.array([f"c{i:06}" for i in range(n_records)])}
    for name, values in zip(BOUNDS, rows.T, strict=True):
        columns[name] = pa.array(np.round(values, 1), mask=missing if name == "basket_eur" else None)
    csv.write_csv(pa.table(columns), path)


def draw(path: Path, model: recoup.PrivateKMeans, intervals: object) -> None:
    """Draw the segments in two pairs of columns, over the inferred customers: no record is in the picture."""
    names = tuple(BOUNDS)
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    sample = model.inferred_.sample(6000, random_state=0)
    figure, axes = plots.new_figure(9.6, 4.6, n_axes=2)
    for ax, pair in zip(axes, ((0, 2), (1, 3)), strict=True):
        i, j = pair
        plots.plot_density(sample, ax, pair=pair, extent=(low[i], high[i], low[j], high[j]))
        plots.plot_intervals(intervals, ax=ax, pair=pair)
        plots.plot_centers(model.cluster_centers_, ax, columns=names, pair=pair, label="private centres")
        plots.legend_below(ax, 2)
    path.write_bytes(plots.png(figure))


def main() -> None:
    """Make a table, cluster it privately, say what the segments are, write report and picture."""
    parser = argparse.ArgumentParser(description="Private customer segments of a generated shop.")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/customers"), help="a new or empty folder")
    parser.add_argument("--records", type=int, default=12_000)
    parser.add_argument("--epsilon", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=0, help="of the generated table; noise has none")
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)

    table = folder / "customers.csv"
    make_customers(table, arguments.records, arguments.seed)

    ledger = recoup.Ledger.create(folder / "budget.db", epsilon=1)
    model = recoup.PrivateKMeans(
        n_clusters=len(SEGMENTS),
        epsilon=arguments.epsilon,
        bounds=BOUNDS,  # also selects the columns: the customer's name is never read
        ledger=ledger,
        random_state=0,
    ).fit(table, transcript_path=folder / "transcript.json")

    intervals = model.intervals(level=0.9)
    print(f"{'segment':>8}" + "".join(f"{name:>26}" for name in BOUNDS) + f"{'customers':>20}")
    for k, center in enumerate(model.cluster_centers_):
        ends = zip(center, intervals.center_low[k], intervals.center_high[k], strict=True)
        cells = "".join(f"{value:>10.1f} ({low:5.1f} to {high:5.1f})" for value, low, high in ends)
        print(f"{k:>8}{cells}{intervals.size_low[k]:>10,.0f} to {intervals.size_high[k]:,.0f}")
    print(f"Spent: epsilon {float(ledger.spent):g} of {float(ledger.epsilon):g}.")

    draw(folder / "segments.png", model, intervals)
    model.report(folder / "report.html", title="Customer segments")
    print(f"Open {folder / 'report.html'}; the picture is {folder / 'segments.png'}.")


if __name__ == "__main__":
    main()
