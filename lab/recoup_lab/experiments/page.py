"""Make the figures and tables of docs/experiments.md again from the runs that are kept beside it.

python -m recoup_lab.experiments.page [runs.parquet of a new experiment, which then takes the place of the kept ones]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from recoup_lab.experiments.report import write_report
from recoup_lab.experiments.results import read_results, write_parquet
from recoup_lab.pages import write_part
from recoup_lab.tree import ROOT

DOCS = ROOT / "docs"
RUNS = DOCS / "data" / "paper-runs.parquet"
PLACE = "tables"


def main() -> None:
    """Read runs, write two pictures, and replace the tables of the page."""
    if len(sys.argv) > 1:
        write_parquet(RUNS, read_results(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as name:
        write_report(Path(name), read_results(RUNS))
        for picture in Path(name).glob("*.png"):
            (DOCS / "images" / picture.name).write_bytes(picture.read_bytes())
        tables = (Path(name) / "tables.md").read_text(encoding="utf-8")
    write_part(DOCS / "experiments.md", "Experiments", PLACE, tables)


if __name__ == "__main__":
    main()
