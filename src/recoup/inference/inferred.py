"""The data set that a transcript most plausibly came from: weighted points, optionally several draws."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recoup._files import replacing
from recoup._random import generator
from recoup._validate import whole_number
from recoup.errors import ParameterError, UnreadableFileError
from recoup.inference.diagnostics import Diagnostics
from recoup.inference.verdict import Verdict
from recoup.privacy.statement import PrivacyStatement
from recoup.queries.base import Array

_WEIGHT = "weight"
_METADATA = b"recoup"
_MOST_VALUES = 2**26  # in one file: half a gigabyte


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferredDataset:
    """Weighted points in the user's units.

    Attributes:
        points: (m, d).
        weights: (m,), how many records each point stands for.
        columns: names of the columns, if they have any.
        method: how it was inferred.
        simulated: true if the transcript's noise was simulated, so that nothing here is private.
        privacy: the statement of all transcripts that it was made from, together; none where it is not known.
        sources: fingerprints of those transcripts.
        draws: further data sets from the posterior, (m, d) each, if the method has them.
        diagnostics: how well it explains the transcript; none after loading from a file.
        verdict: whether it can be trusted; none after loading from a file, where `recoup.inference.judge.judge` finds
            it again from the transcript.

    Guarantees: a function of the transcript and harmless randomness, so that looking at it costs no privacy.
    """

    points: Array
    weights: Array
    columns: tuple[str, ...] | None = None
    method: str
    simulated: bool
    privacy: PrivacyStatement | None = field(default=None, repr=False)
    sources: tuple[str, ...] = field(default=(), repr=False)
    draws: tuple[Array, ...] = field(default=(), repr=False)
    diagnostics: Diagnostics | None = field(default=None, repr=False)
    verdict: Verdict | None = field(default=None, repr=False)

    @property
    def n_records(self) -> float:
        """The inferred number of records."""
        return float(self.weights.sum())

    def sample(self, n: int, *, random_state: Any = None) -> Array:
        """Draw n records from the points by their weights, in the user's units; without a seed others each time."""
        n = whole_number(n, "n", low=0)
        rng = np.random.default_rng() if random_state is None else generator(random_state)
        total = self.weights.sum()
        share = self.weights / total if total > 0 else np.full(len(self.weights), 1.0 / len(self.weights))
        return self.points[rng.choice(len(self.points), size=n, p=share)]

    def to_arrow(self) -> Any:
        """An Arrow table: one column a dimension, and "weight"."""
        import pyarrow as pa

        names = self.columns or tuple(f"x{j}" for j in range(self.points.shape[1]))
        columns = {name: self.points[:, j] for j, name in enumerate(names)}
        while _WEIGHT in columns:
            raise ParameterError(f'a column is called "{_WEIGHT}", which the table needs for the weights: rename it.')
        header: dict[str, Any] = {
            "method": self.method,
            "simulated": self.simulated,
            "named": self.columns is not None,
        }
        if self.privacy is not None:
            header |= {"privacy": self.privacy, "sources": list(self.sources)}
        table = pa.table(columns | {_WEIGHT: self.weights})
        return table.replace_schema_metadata({_METADATA: json.dumps(header).encode()})

    def to_pandas(self) -> Any:
        """A pandas data frame: one column a dimension, and "weight"."""
        return self.to_arrow().to_pandas()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write points and weights as Parquet; the file appears only when it is complete."""
        import pyarrow.parquet as pq

        with replacing(path) as temporary:
            pq.write_table(self.to_arrow(), temporary)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> InferredDataset:
        """Read points and weights back from Parquet."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # A local file, whatever the path looks like; its size is known before it is unpacked.
            with pa.OSFile(os.fspath(path)) as file, pq.ParquetFile(file) as parquet:
                _check_size(parquet.metadata)
                table = parquet.read()
            header = json.loads((table.schema.metadata or {})[_METADATA].decode())
            if not isinstance(header, dict):
                raise TypeError("another header")
            promised = header.get("privacy")
            names = [name for name in table.column_names if name != _WEIGHT]
            if len(set(names)) != len(names) or not all(pa.types.is_floating(kind) for kind in table.schema.types):
                raise TypeError("other columns")
            points = np.column_stack([table[name].to_numpy() for name in names]).astype(np.float64)
            weights = table[_WEIGHT].to_numpy().astype(np.float64)
            if not (len(points) and np.isfinite(points).all() and np.isfinite(weights).all() and (weights >= 0).all()):
                raise ValueError("other numbers")
            return cls(
                points=points,
                weights=weights,
                columns=tuple(names) if header["named"] else None,
                method=str(header["method"]),
                simulated=bool(header["simulated"]),
                privacy=None if promised is None else PrivacyStatement.from_json(promised),
                sources=_sources_from(header.get("sources", [])),
            )
        except (OSError, KeyError, ValueError, TypeError, RecursionError, pa.ArrowException):
            raise UnreadableFileError(f"{path} is not an inferred data set that Recoup wrote.") from None


def _check_size(metadata: Any) -> None:
    # A few hundred bytes can unpack to any number of values.
    n_rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if n_rows * metadata.num_columns > _MOST_VALUES:
        raise ValueError("too many values")


def _sources_from(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise TypeError("other sources")
    return tuple(found)
