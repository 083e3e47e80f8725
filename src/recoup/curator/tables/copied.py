"""A private copy of what was read of a database, so that all rounds of a release read the same records."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from recoup._threads import prefetched
from recoup.curator.tables.catalogue import each_saying_only, saying_only
from recoup.curator.tables.duckdb_table import connected
from recoup.curator.tables.table import Columns, OpenTable, TableRows

_FAILED: Final = "The copy of the table cannot be written or read. Check that the folder for temporary files has room."


def copied(table: OpenTable) -> OpenTable:
    """The same blocks out of a private file, which is written when they are first asked for and removed in the end.

    Guarantees: the file is in a new folder that nobody else may read, and is removed when the table is forgotten or the
    program ends, unless that is killed.
    """
    copy = _Copy(table)
    return replace(table, _read=lambda block_rows: prefetched(copy.blocks(block_rows)))


class _Copy:
    """What rules made of the declared columns, in a file of DuckDB."""

    def __init__(self, table: OpenTable) -> None:
        self._table, self._writing = table, threading.Lock()
        self._path: Path | None = None

    def blocks(self, block_rows: int) -> Generator[TableRows, None, None]:
        """Yield all records."""
        with self._writing:
            path = self._path = self._path or self._written()
        yield from each_saying_only(_FAILED, self._read(path, block_rows))

    def _written(self) -> Path:
        folder = saying_only(_FAILED, lambda: Path(tempfile.mkdtemp(prefix="recoup-copy-")))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = folder / "copy.duckdb"
        with closing(saying_only(_FAILED, lambda: connected(path, read_only=False))) as connection:
            for block in self._table.blocks():
                # An error of the table itself stays what it is.
                saying_only(_FAILED, partial(_add, connection, block))
        return path

    def _read(self, path: Path, block_rows: int) -> Generator[TableRows, None, None]:
        with (
            closing(connected(path)) as connection,
            closing(connection.sql("SELECT * FROM copy.main.records").to_arrow_reader(block_rows)) as reader,
        ):
            for batch in reader:
                for start in range(0, batch.num_rows, block_rows):
                    yield self._block(batch.slice(start, block_rows))

    def _block(self, batch: Any) -> Columns:
        n_columns = self._table.n_columns
        keys = batch.column(n_columns).cast(self._table.person_type) if batch.num_columns > n_columns else None
        arrays = tuple(array.to_numpy(zero_copy_only=False) for array in batch.columns[:n_columns])
        return Columns(arrays, batch.num_rows, keys)


def _add(connection: Any, block: TableRows) -> None:
    """Add a block to the file, the persons last."""
    arrays = block.arrays if isinstance(block, Columns) else tuple(block.T)
    persons = block.persons if isinstance(block, Columns) else None
    made = {f"c{j}": pa.array(array, from_pandas=False) for j, array in enumerate(arrays)}
    connection.register("block", pa.table(made if persons is None else {**made, "person": persons}))
    connection.execute("CREATE TABLE IF NOT EXISTS records AS SELECT * FROM block LIMIT 0")
    connection.execute("INSERT INTO records SELECT * FROM block")
    connection.unregister("block")
