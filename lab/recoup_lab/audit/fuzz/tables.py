"""Tables for the fuzzer: records as CSV, Parquet and Feather, valid and odd Parquet, and the runs of an experiment."""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from recoup_lab.experiments.results import Result

_HEADER = {"method": "maxent", "simulated": False, "named": True}


def parquet_seeds() -> list[bytes]:
    """Inferred data sets as they are written, and tables that are nearly one."""
    points, weights = np.arange(8.0).reshape(4, 2), np.array([1.0, 2.0, 0.0, 3.5])
    valid = pa.table({"x": points[:, 0], "y": points[:, 1], "weight": weights})
    seeds = [_parquet(valid, _HEADER, compression=how) for how in ("snappy", "zstd", "none", "gzip")]
    seeds.append(_parquet(valid, _HEADER, use_dictionary=False, data_page_version="2.0"))
    odd_columns: list[Any] = [
        pa.array(["1", "2", "3", "4"]),
        pa.array([1, None, 3, 4]),
        pa.array([1.0, float("nan"), float("inf"), -1.0]),
        pa.array([[1.0], [2.0], [], None]),
        pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}]),
        pa.array([None] * 4),
        pa.array([1, 2, 3, 2**63 - 1]),
        pa.array([True, False, True, None]),
        pa.array(["a", "b", "a", "b"]).dictionary_encode(),
        pa.array([0, 1, 2, 3], pa.timestamp("ns")),
        pa.array([b"\xff", b"", b"1", b"2"]),
        pa.array([1, 2, 3, 4], pa.decimal128(38, 10)),
        pa.array([1.0, 2.0, 3.0, 4.0], pa.float16()),
    ]
    for column in odd_columns:
        seeds += [_parquet(pa.table({"x": column, "weight": weights}), _HEADER)]
        seeds += [_parquet(pa.table({"x": weights, "weight": column}), _HEADER)]
    headers: list[Any] = [None, [], {}, 3, "x", _HEADER | {"named": "no"}, _HEADER | {"method": ["a"]}, {"method": 1}]
    odd_flags: list[Any] = ["false", 0, None, []]
    headers += [_HEADER | {"simulated": flag} for flag in odd_flags]
    seeds += [_parquet(valid, header) for header in headers]
    seeds += [_parquet(valid, raw) for raw in (b"", b"\xff", b"[" * 100_000, b'{"named":' + b"9" * 5000 + b"}", b"NaN")]
    seeds.append(_parquet(valid.slice(0, 0), _HEADER))
    seeds.append(_parquet(valid.select(["weight"]), _HEADER))
    seeds.append(_parquet(valid.select(["x", "y"]), _HEADER))
    seeds.append(_parquet(pa.Table.from_arrays([points[:, 0]] * 2 + [weights], names=["x", "x", "weight"]), _HEADER))
    seeds.append(_parquet(pa.Table.from_arrays([weights] * 3, names=["x", "weight", "weight"]), _HEADER))
    # A few hundred bytes that unpack to gigabytes.
    many = pa.array(np.zeros(4_000_000))
    bomb = pa.table({f"x{j}": many for j in range(16)} | {"weight": many})
    seeds.append(_parquet(bomb, _HEADER, compression="zstd"))
    return seeds


def record_seeds() -> dict[str, list[bytes]]:
    """Records as files, by the suffix of their name: ordinary ones, and columns of odd types."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-1.0, 1.0, 40)
    ordinary = pa.table({"x": numbers, "y": numbers[::-1].copy(), "other": [f"text {i}" for i in range(40)]})
    odd = [
        pa.array([None, *numbers[1:]]),
        pa.array([math.nan, math.inf, -math.inf, 1e308, 5e-324, *numbers[5:]]),
        pa.array(numbers.astype(np.float32)),
        pa.array(range(40), pa.int8()),
        pa.array([2**64 - 1] * 40, pa.uint64()),
        pa.array([True, None] * 20),
        pa.array(["1.5", "x", "", None] * 10),
        pa.array(["1.5", "x", "", None] * 10).dictionary_encode(),
        pa.array([[1.0], [], None, [2.0]] * 10),
        pa.array([1, 2] * 20, pa.decimal128(38, 10)),
        pa.array(numbers.astype(np.float16)),
    ]
    tables = [ordinary, ordinary.slice(0, 0), *(ordinary.set_column(0, "x", column) for column in odd)]
    lines = [["x,y,other"], ["y,x"], ["x,y", "1e308,-0.0", "5e-324,nan"], ['"x","y"', '"1.0","2,5"'], ["x;y"]]
    rows = [f"{a!r},{b!r},text" for a, b in zip(numbers.tolist(), numbers[::-1].tolist(), strict=True)]
    texts = ["\n".join([*head, *rows]).encode() for head in lines]
    texts += [texts[0].replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + texts[0], texts[0].decode().encode("utf-16"), b""]
    return {
        ".csv": texts,
        ".parquet": [_written(pq.write_table, t, compression=how) for t in tables for how in ("snappy", "zstd")],
        ".feather": [
            _written(feather.write_feather, t, compression=how) for t in tables[:9] for how in ("lz4", "zstd")
        ],
    }


def _written(write: Any, table: pa.Table, **how: Any) -> bytes:
    out = io.BytesIO()
    write(table, out, **how)
    return out.getvalue()


def _parquet(table: pa.Table, header: Any, **how: Any) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"recoup": raw}), out, **how)
    return out.getvalue()


def run_seeds() -> dict[str, bytes]:
    """Three runs as lines, as CSV and as Parquet, by the name of the file."""
    import tempfile
    from pathlib import Path

    from recoup_lab.experiments.results import write_results

    common: dict[str, Any] = {"source": "generated", "digest": "abc", "n_records": 10, "n_columns": 2, "n_clusters": 3}
    common |= {"metric": "user", "wcss": 1.5, "seconds": 0.1, "recoup": "1", "versions": "python", "set": "s1"}
    runs = [Result(**common, method="dpkm", epsilon=0.5, seed=s, epsilon_spent=0.5, transcript="t") for s in range(2)]
    runs.append(Result(**common, method="non-private", epsilon=None, seed=0, epsilon_spent=None, transcript=None))
    with tempfile.TemporaryDirectory() as folder:
        paths = write_results(Path(folder), runs)
        seeds = {path.name: path.read_bytes() for path in paths}
    return seeds | {"runs.jsonl": "".join(json.dumps(asdict(run)) + "\n" for run in runs).encode()}
