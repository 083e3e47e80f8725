"""The notebook of the examples runs in a real kernel, from nothing, and every object shows itself as it should."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from pages import ROOT

NOTEBOOK = ROOT / "examples" / "tour.ipynb"
# The last line of a cell, and what its value must be shown as.
OURS = {"schema", "ledger", "model.privacy_", "model.transcript_", "model.inferred_", "model.verdict_"}
OURS |= {"around", "curve", 'recoup.find_bounds(people[["age", "income"]], epsilon=0.5)'}
OTHERS = {"model.summary()", "around.to_pandas()", "again"}


def test_it_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    assert NOTEBOOK.stat().st_size < 20_000


@pytest.mark.slow
def test_it_runs_and_everything_shows_itself(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            data = [output.data for output in cell.outputs if output.output_type == "execute_result"]
            shown[cell.source.splitlines()[-1]] = data[0] if data else {}
            assert all(output.output_type != "error" and output.get("name") != "stderr" for output in cell.outputs)
    assert all("text/html" in shown[line] for line in OURS | OTHERS)
    assert all(len(shown[line]["text/plain"]) < 300 for line in OURS)
    figures = {line for line, data in shown.items() if "image/png" in data}
    assert len(figures) == 3
    assert all(".figure" in line for line in figures)
    assert (tmp_path / "model.json").is_file()
    assert "Schema" in shown["schema"]["text/html"]
