"""Small files of two columns in every format, and their rows as they are read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recoup.curator.tables.open import open_table

ROWS = np.array([[1.0, 10.5], [2.0, 0.25], [3.0, 7.0], [4.0, -1e-9]])


def rows_of(path: Path, columns: Any = ("a", "b"), **given: Any) -> np.ndarray:
    rows = np.concatenate(list(open_table(path, columns, **given).blocks())).astype(np.float64)
    return np.where(np.isfinite(rows), rows, np.nan)


def write_parquet(path: Path, rows: np.ndarray = ROWS, names: str = "ab", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: rows[:, j] for j, name in enumerate(names)}), path, **options)
    return path


def write_ipc(path: Path, rows: np.ndarray = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: rows[:, j] for j, name in enumerate("ab")})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


def write_csv(path: Path, rows: np.ndarray = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["a,b"] + [",".join(map(repr, row)) for row in rows.tolist()]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


WRITERS: dict[str, Callable[..., Path]] = {".parquet": write_parquet, ".feather": write_ipc, ".csv": write_csv}
