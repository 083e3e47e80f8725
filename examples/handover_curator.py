"""The curator's half of a handover: records stay in this process, a transcript leaves it.

    python examples/handover_curator.py -o results/handover
    python examples/handover_analyst.py results/handover/transcript.json -o results/handover

The records are generated in memory and end with the process. They are never written to a file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

import recoup

COLUMNS = ("age_years", "resting_pulse_bpm", "sleep_hours")
DOMAIN = recoup.Box((18, 40, 3), (90, 110, 12), COLUMNS)


def patients(n_records: int, seed: int) -> pa.Table:
    """Generate three groups of patients."""
    rng = np.random.default_rng(seed)
    middles = np.array([(29, 58, 7.9), (47, 76, 6.1), (72, 67, 6.9)])
    group = rng.choice(len(middles), size=n_records, p=(0.4, 0.35, 0.25))
    rows = rng.normal(middles[group], (5, 5, 0.5))
    return pa.table(dict(zip(COLUMNS, rows.T, strict=True)))


def main() -> None:
    """Charge a ledger, release, and write the one file that may leave."""
    parser = argparse.ArgumentParser(description="Release a transcript of generated patients.")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/handover"), help="a new or empty folder")
    parser.add_argument("--records", type=int, default=15_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "transcript.json"

    ledger = recoup.Ledger.create(arguments.output / "budget.db", epsilon=2)  # stays with the curator
    transcript = recoup.release(
        recoup.AdaptiveKMeans(n_clusters=4),  # a guess: the analyst may choose another number later
        patients(arguments.records, seed=0),
        domain=DOMAIN,
        epsilon=arguments.epsilon,
        ledger=ledger,
        path=path,
    )
    print(f"{len(transcript.rounds)} rounds, epsilon {float(ledger.spent):g} of {float(ledger.epsilon):g} spent.")
    print(f"Hand over {path}.")


if __name__ == "__main__":
    main()
