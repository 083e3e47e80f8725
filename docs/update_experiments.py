"""Make the figures and tables of experiments.md again from the runs that are kept beside it.

python docs/update_experiments.py [runs.parquet of a new experiment, which then takes the place of the kept ones]
"""

import sys
import tempfile
from pathlib import Path

from recoup_lab.experiments.report import write_report
from recoup_lab.experiments.results import read_results, write_parquet

HERE = Path(__file__).parent
RUNS = HERE / "data" / "paper-runs.parquet"
BEGIN, END = "<!-- tables: made by update_experiments.py -->", "<!-- end of tables -->"


def main() -> None:
    """Read runs, write two pictures, and replace the tables of the page."""
    if len(sys.argv) > 1:
        RUNS.parent.mkdir(exist_ok=True)
        write_parquet(RUNS, read_results(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_report(folder, read_results(RUNS))
        for picture in folder.glob("*.png"):
            (HERE / "images" / picture.name).write_bytes(picture.read_bytes())
        tables = (folder / "tables.md").read_text(encoding="utf-8")
    page = HERE / "experiments.md"
    text = page.read_text(encoding="utf-8")
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:start]}\n{tables}{text[stop:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
