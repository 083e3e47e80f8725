"""What is found only while a file is read, and how much memory reading takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import ROWS, WRITERS, rows_of, write_parquet
from table_kinds import refusal

from recoup.curator.tables.open import open_table
from recoup.errors import UnreadableFileError


def damage_page(path: Path, column: str) -> None:
    """Overwrite the first page of a column, which no reader looks at before it decodes it."""
    metadata = pq.read_metadata(path)
    position = metadata.schema.names.index(column)
    chunk = metadata.row_group(0).column(position)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 12] = b"\xff" * 12
    path.write_bytes(content)


def test_a_damaged_page_names_file_and_column_when_it_is_reached(tmp_path: Path) -> None:
    for i in range(3):
        write_parquet(tmp_path / f"part-{i}.parquet")
    bad = tmp_path / "part-1.parquet"
    damage_page(bad, "b")
    table = open_table(tmp_path, ["a", "b"])
    blocks = table.blocks()
    np.testing.assert_array_equal(next(blocks), ROWS)
    assert f"Column 'b' of {str(bad)!r} cannot be decoded" in refusal(UnreadableFileError, lambda: list(blocks))
    np.testing.assert_array_equal(rows_of(tmp_path, ["a"])[:, 0], [1, 2, 3, 4] * 3)


def test_a_wrong_checksum_of_a_page_is_noticed(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
    assert len(rows_of(path)) == 4
    whole = path.read_bytes()
    value = ROWS[1, 1].tobytes()
    assert whole.count(value) >= 1
    path.write_bytes(whole.replace(value, ROWS[2, 1].tobytes(), 1))
    assert "Column 'b'" in refusal(UnreadableFileError, lambda: rows_of(path))


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("how", ["gone", "other columns"])
def test_a_file_that_changes_between_rounds_is_named(how: str, suffix: str, tmp_path: Path) -> None:
    path = WRITERS[suffix](tmp_path / f"t{suffix}")
    table = open_table(tmp_path, ["a", "b"])
    list(table.blocks())
    path.unlink()
    if how == "other columns":
        if suffix == ".csv":
            path.write_text("b,a\nSECRET,1\n")
        else:
            changed = pa.table({"a": ["SECRET"], "b": [1.0]})
            if suffix == ".parquet":
                pq.write_table(changed, path)
            else:
                with pa.ipc.new_file(path, changed.schema) as writer:
                    writer.write_table(changed)
    assert str(path) in refusal(UnreadableFileError, lambda: list(table.blocks()))


# ---- memory ----

MEASURE = """
import sys
from pathlib import Path
import pyarrow.parquet
from recoup.curator.tables.open import open_table

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

before = peak()
if sys.argv[2] == "blocks":
    for block in open_table(sys.argv[1], ["a", "b"]).blocks():
        del block
else:
    pyarrow.parquet.read_table(sys.argv[1])
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_large_row_group_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    many = np.zeros((12_000_000, 2))
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    write_parquet(tmp_path / "t.parquet", many, row_group_size=len(many), **options)

    def growth(what: str) -> float:
        command = [sys.executable, "-c", MEASURE, str(tmp_path / "t.parquet"), what]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    megabytes = many.nbytes / 2**20
    assert growth("blocks") < megabytes / 2
    # The same measure notices a file that is read at once.
    assert growth("whole") > megabytes
