"""Finished runs: one line each, on disk as soon as it is finished, and the same rows as Parquet and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from recoup._files import replacing, write_whole
from recoup.errors import DataError, UnreadableFileError
from recoup.privacy.statement import NOT_PRIVATE


class RunKey(NamedTuple):
    """What makes two runs the same: neither another table nor another version of Recoup counts as done."""

    set: str
    digest: str
    metric: str
    method: str
    epsilon: float | None
    seed: int
    recoup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finished run.

    Attributes:
        set: name of the data set.
        source: "file" or "generated".
        digest: of its records and bounds.
        n_records: N.
        n_columns: d.
        n_clusters: K.
        metric: "paper" or "user".
        method: its name.
        epsilon: what it was allowed to spend; none if it does not depend on it.
        seed: of everything random.
        wcss: the score.
        epsilon_spent: what its ledger shows; none without a ledger.
        seconds: of one core, that the method takes alone; the release that it reads counts, also where it was shared.
        transcript: a digest of the transcript that it read, if it read one.
        recoup: version.
        versions: of Python and of the libraries that matter.
        noise: always the same words: no run of an experiment is private.
    """

    set: str
    source: str
    digest: str
    n_records: int
    n_columns: int
    n_clusters: int
    metric: str
    method: str
    epsilon: float | None
    seed: int
    wcss: float
    epsilon_spent: float | None
    seconds: float
    transcript: str | None
    recoup: str
    versions: str
    noise: str = NOT_PRIVATE

    @property
    def key(self) -> RunKey:
        """What makes this run the same as another one."""
        return RunKey(self.set, self.digest, self.metric, self.method, self.epsilon, self.seed, self.recoup)


_TYPES: dict[str, Any] = get_type_hints(Result)
_NAMES = tuple(field.name for field in fields(Result))
# What reading a run from a file that holds something else may end in.
_NO_RUN = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


class RunStore:
    """The runs of a folder, one JSON object a line; several processes may append.

    Guarantees: a line that `append` returned from is on disk. A line that a crash cut short is dropped by `repair`, and
    its run counts as not finished.

    Args:
        path: the file, made when the first run is finished.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, result: Result) -> None:
        """Add a finished run, durably."""
        import fcntl

        line = json.dumps(asdict(result), allow_nan=False).encode() + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            # Lines of two processes do not mix, and what a failed write is taken back from is the end.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            try:
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line  # another process was killed while it wrote
                while line:
                    line = line[os.write(descriptor, line) :]
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def repair(self) -> None:
        """Drop a last line that a crash cut short."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            write_whole(self.path, content[: content.rfind(b"\n") + 1])

    def read(self) -> list[Result]:
        """All finished runs; of two that are the same, the later one."""
        if not self.path.exists():
            return []
        found: dict[RunKey, Result] = {}
        for line in self.path.read_bytes().splitlines():
            try:
                result = _result(json.loads(line.decode()))
            except _NO_RUN:
                continue  # not a finished run, so it is repeated
            found[result.key] = result
        return list(found.values())


def write_results(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Write runs as `runs.csv` and `runs.parquet`, whole or not at all; returns both paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [read_results(path) for path in write_results(Path(folder), [])]
    [[], []]
    """
    ordered = sorted(results, key=_order)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_NAMES)
    writer.writerows([[_as_text(getattr(result, name)) for name in _NAMES] for result in ordered])
    as_csv, as_parquet = folder / "runs.csv", folder / "runs.parquet"
    write_whole(as_csv, text.getvalue())
    write_parquet(as_parquet, ordered)
    return [as_csv, as_parquet]


def write_parquet(path: Path, results: Sequence[Result]) -> None:
    """Write runs as one Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, kinds[_kind(name)[0]]) for name in _NAMES])
    table = pa.table({name: [getattr(r, name) for r in results] for name in _NAMES}, schema=schema)
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_results(path: Path) -> list[Result]:
    """Read runs back from a CSV or Parquet file that `write_results` wrote; of two that are the same, the later one.

    Raises:
        UnreadableFileError: there is no such file.
        DataError: it holds something else.
    """
    try:
        if path.suffix == ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            try:
                table = parquet.read_table(path)
            except pa.ArrowException:
                raise DataError(f"{path} is not a Parquet file.") from None
            names: Sequence[str] = table.column_names
            rows: Iterable[dict[str, Any]] = table.to_pylist()
        else:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                names, rows = reader.fieldnames or (), list(reader)
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"{path} is not a CSV file.") from None
    try:
        if not set(_NAMES) <= set(names):
            raise KeyError
        return list({result.key: result for result in map(_result, rows)}.values())
    except _NO_RUN:
        raise DataError(
            f"{path} does not hold the finished runs of an experiment, with the columns "
            f"{', '.join(map(repr, _NAMES))} and finite numbers."
        ) from None


def _result(row: dict[str, Any]) -> Result:
    return Result(**{name: _value(name, row[name]) for name in _NAMES})


def _value(name: str, value: Any) -> Any:
    kind, optional = _kind(name)
    if value is None or (value == "" and optional):
        if optional:
            return None
        raise ValueError(name)
    typed = kind(value)
    if kind is not str and (not math.isfinite(typed) or (isinstance(value, float) and typed != value)):
        raise ValueError(name)
    if kind is int and abs(typed) >= 2**63:
        raise OverflowError(name)
    return typed


def _kind(name: str) -> tuple[type, bool]:
    hint = _TYPES[name]
    kinds = getattr(hint, "__args__", (hint,))
    return kinds[0], type(None) in kinds


def _as_text(value: object) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _order(result: Result) -> tuple[Any, ...]:
    epsilon = -1.0 if result.epsilon is None else result.epsilon
    return result.metric, result.set, result.method, epsilon, result.seed, result.digest, result.recoup
