"""Kinds of patients of a hospital, from a table of visits as people really have them, with a promise to each patient.

    python examples/hospital.py -o results/hospital

The visits are generated: a patient has up to forty, charges range over four decades, readings are missing, wards have
names, and some cells hold nothing that can be read. Everything after `make_visits` is what one would do with a real
table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import recoup

WARDS = ("emergency", "surgery", "maternity", "geriatrics")
# What can be said of any hospital's visits before looking at one of them.
SCHEMA = recoup.Schema(
    {
        "age": recoup.Number(0, 110, unit="years"),
        "charges": recoup.Number(10, 100_000, scale="log", unit="EUR"),
        "glucose": recoup.Number(40, 400, unit="mg/dl", missing="own"),  # whether it was measured says something
        "sex": recoup.Category(["F", "M", "X"], missing="own"),
        "ward": recoup.Category(WARDS, other=True, weight=0.5),
    }
)
# Of the generated patients: share, age, log10 of charges, glucose and how often it is measured, and wards.
KINDS = (
    (0.45, 29, 2.1, 92, 0.3, (0.6, 0.15, 0.22, 0.0)),
    (0.35, 54, 3.0, 150, 0.8, (0.25, 0.6, 0.0, 0.1)),
    (0.20, 79, 3.8, 118, 0.9, (0.2, 0.2, 0.0, 0.58)),
)


def make_visits(path: Path, n_patients: int, seed: int) -> None:
    """Write a CSV of generated visits, one line a visit."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(KINDS), size=n_patients, p=[k[0] for k in KINDS])
    n_visits = np.minimum(1 + rng.negative_binomial(1, 1 / (1 + np.array([1.5, 4.0, 9.0])[kind])), 40)
    who = rng.permutation(np.repeat(np.arange(n_patients), n_visits))
    of = kind[who]
    age = np.clip(np.array([k[1] for k in KINDS])[kind] + 8 * rng.standard_normal(n_patients), 0, 108)
    charges = 10 ** (np.array([k[2] for k in KINDS])[of] + 0.3 * rng.standard_normal(len(who)))
    glucose = np.array([k[3] for k in KINDS])[of] + 18 * rng.standard_normal(len(who))
    measured = rng.random(len(who)) < np.array([k[4] for k in KINDS])[of]
    shares = np.array([[*k[5], 1 - sum(k[5])] for k in KINDS])
    ward = (rng.random((len(who), 1)) > np.cumsum(shares, axis=1)[of]).sum(axis=1)
    sex = np.array(["F", "M", ""])[np.where(rng.random(n_patients) < 0.02, 2, rng.integers(2, size=n_patients))]
    columns = {
        "patient_id": [f"P{i:05}" for i in who],
        "age": [f"{value:.0f}" for value in age[who]],
        # Typed by hand: some cells hold no number.
        "charges": [
            f"{v:.2f}" if bad > 0.003 else "see file" for v, bad in zip(charges, rng.random(len(who)), strict=True)
        ],
        "glucose": [f"{value:.0f}" if there else "" for value, there in zip(glucose, measured, strict=True)],
        "sex": list(sex[who]),
        "ward": [(*WARDS, "pharmacy")[int(place)] for place in np.minimum(ward, 4)],
    }
    csv.write_csv(pa.table(columns), path)


def main() -> None:
    """Make a table, cluster its patients privately, say what they are like, write a report."""
    parser = argparse.ArgumentParser(description="Private kinds of patients of a generated hospital.")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/hospital"), help="a new or empty folder")
    parser.add_argument("--patients", type=int, default=8_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the generated table; noise has none")
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    make_visits(folder / "visits.csv", arguments.patients, arguments.seed)
    SCHEMA.save(folder / "schema.toml")

    ledger = recoup.Ledger.create(folder / "budget.db", epsilon=3)
    model = recoup.PrivateKMeans(
        n_clusters=len(KINDS),
        epsilon=arguments.epsilon,
        bounds=SCHEMA,
        person="patient_id",  # epsilon is promised to a patient with all visits
        per_person="mean",  # whose visits become one row
        ledger=ledger,
        random_state=0,
    ).fit(folder / "visits.csv", transcript_path=folder / "transcript.json")

    domain = model.transcript_.context.domain
    print(f"{'':>22}" + "".join(f"{f'cluster {k}':>14}" for k in range(len(KINDS))))
    for j, (name, unit) in enumerate(zip(domain.columns, domain.units, strict=True)):
        values = model.cluster_centers_[:, j]
        cells = [f"{value:.0%}" if unit == "share" else f"{value:,.1f} {unit or ''}".rstrip() for value in values]
        print(f"{name:>22}" + "".join(f"{cell:>14}" for cell in cells))
    print(f"Promised to: {model.privacy_.unit}. Spent: epsilon {float(ledger.spent):g} of {float(ledger.epsilon):g}.")
    model.report(folder / "report.html", title="Kinds of patients")
    print(f"Open {folder / 'report.html'}.")


if __name__ == "__main__":
    main()
