"""A curator as a service, and an analyst in another process: one keeps the records, the other makes the report.

    python examples/served_curator.py -o results/served

Starts `recoup serve` on generated patients, makes a token, lets `served_analyst.py` use it, and shows what was spent.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import recoup

BOUNDS = "age_years=18:90,resting_pulse_bpm=40:110,sleep_hours=3:12"
RECOUP = [sys.executable, "-m", "recoup"]


def source(folder: Path, n_records: int) -> list[str]:
    """Generate three groups of patients, and say where the service finds them: any table that it reads."""
    rng = np.random.default_rng(0)
    middles = np.array([(29, 58, 7.9), (47, 76, 6.1), (72, 67, 6.9)])
    rows = rng.normal(middles[rng.choice(3, size=n_records, p=(0.4, 0.35, 0.25))], (5, 5, 0.5))
    columns = [pair.partition("=")[0] for pair in BOUNDS.split(",")]
    patients = pa.table(dict(zip(columns, rows.T, strict=True)))
    with duckdb.connect(folder / "clinic.duckdb") as clinic:
        clinic.register("generated", patients)
        clinic.sql("CREATE TABLE patients AS FROM generated")
    return [f"duckdb:///{folder.absolute()}/clinic.duckdb", "--table", "patients"]


@contextlib.contextmanager
def serving(data: list[str], ledger: Path, state: Path) -> Iterator[str]:
    """Run the service for as long as the block lasts, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*RECOUP, "serve", *data, "--bounds", BOUNDS, "--ledger", str(ledger), "--state", str(state)]
    server = subprocess.Popen([*command, "--port", str(port), "--answer-base", "0.2"], stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        while server.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    """Make a budget and a token, serve, let the analyst work, and look at what was spent."""
    parser = argparse.ArgumentParser(description="Serve generated patients to an analyst.")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/served"), help="a new or empty folder")
    parser.add_argument("--records", type=int, default=15_000)
    arguments = parser.parse_args()
    inside, outside = arguments.output / "curator", arguments.output / "analyst"
    for folder in (inside, outside):
        folder.mkdir(parents=True, exist_ok=True)

    ledger = recoup.Ledger.create(inside / "ledger.db", epsilon=2)
    make = [*RECOUP, "serve", "token", "create", "ann", "--epsilon", "1", "--state", str(inside / "state")]
    made = subprocess.run(make, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    token = made.stdout.strip()
    print("The curator made a token with a budget of its own: epsilon 1 of the table's 2.")
    with serving(source(inside, arguments.records), ledger.path, inside / "state") as address:
        print(f"The curator serves on {address}; an analyst in another process asks.", flush=True)
        analyst = [sys.executable, str(Path(__file__).with_name("served_analyst.py")), address, "-o", str(outside)]
        subprocess.run(analyst, check=True, env=os.environ | {"RECOUP_TOKEN": token})
    for release in ledger.releases():
        print(f"The ledger: {release.by}, {release.purpose!r}, {len(release.entries)} charges.")
    print(f"Spent epsilon {float(ledger.spent):.4g}, left {float(ledger.left):.4g}.")


if __name__ == "__main__":
    main()
