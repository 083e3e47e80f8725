"""The analyst's half of a served curator: an address and a token, no records, and a report at the end.

    RECOUP_TOKEN=... python examples/served_analyst.py http://127.0.0.1:8470 -o results/served/analyst

Everything that is private is asked of the curator; inference and report happen here.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import recoup


def main() -> None:
    """Fit against the served curator and write a report."""
    parser = argparse.ArgumentParser(description="Cluster a table that somebody else holds.")
    parser.add_argument("address")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/served/analyst"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    table = recoup.connect(arguments.address, token=os.environ["RECOUP_TOKEN"])
    model = recoup.PrivateKMeans(n_clusters=3, epsilon=0.8, random_state=0).fit(table, purpose="Who sleeps how")
    print("The analyst's centres:")
    for center in model.cluster_centers_:
        print("  " + ", ".join(f"{value:.1f}" for value in center))
    model.report(arguments.output / "report.html")
    print(f"Open {arguments.output / 'report.html'}.")


if __name__ == "__main__":
    main()
