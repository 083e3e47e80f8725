"""The data set that a transcript most plausibly came from, weighted points; and the non-private algorithm on it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from recoup._files import replacing
from recoup._random import generator
from recoup._shown import Card, Shown, listing, pandas
from recoup._validate import whole_number
from recoup.algorithms.base import ImportedAlgorithm
from recoup.algorithms.kmeans.lloyd import ClusteringAlgorithm
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import Domain
from recoup.errors import Argument, ParameterError, UnreadableFileError
from recoup.inference.diagnostics import Diagnostics
from recoup.inference.verdict import Verdict
from recoup.privacy.statement import NOT_PRIVATE, PrivacyStatement
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_WEIGHT = "weight"
_METADATA = b"recoup"
_MOST_VALUES = 2**26  # in one file: half a gigabyte
_AS_PUBLISHED = ("mcmc", "consistency")  # the paper clusters all of the data set that it inferred


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InferredDataset(Shown):
    """Weighted points in the user's units.

    Attributes:
        points: (m, d).
        weights: (m,), how many records each point stands for.
        columns: names of the columns, if they have any.
        method: how it was inferred.
        simulated: true if the transcript's noise was simulated, so that nothing here is private.
        privacy: the statement of all transcripts that it was made from, together; None where it is not known.
        sources: fingerprints of those transcripts.
        draws: further data sets from the posterior, (m, d) each, if the method has them.
        diagnostics: how well it explains the transcript; none after loading from a file.
        verdict: whether it can be trusted; none after loading: `recoup.inference.judge.judge` finds it again.

    Guarantees: a function of the transcript and of randomness that does not depend on records, so it costs no privacy.
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
        """Draw n records from the points by their weights, in the user's units; without a seed, new ones each time."""
        n = whole_number(n, "n", low=0)
        rng = np.random.default_rng() if random_state is None else generator(random_state)
        total = self.weights.sum()
        share = self.weights / total if total > 0 else np.full(len(self.weights), 1.0 / len(self.weights))
        return self.points[rng.choice(len(self.points), size=n, p=share)]

    def to_arrow(self) -> Any:
        """An Arrow table: one column per dimension, and "weight"."""
        import pyarrow as pa

        names = self.columns or tuple(f"x{j}" for j in range(self.points.shape[1]))
        columns = {name: self.points[:, j] for j, name in enumerate(names)}
        if _WEIGHT in columns:
            raise ParameterError(f'a column is called "{_WEIGHT}", which the table needs for the weights: rename it.')
        named = self.columns is not None
        header: dict[str, Any] = {"method": self.method, "simulated": self.simulated, "named": named}
        if self.privacy is not None:
            header |= {"privacy": self.privacy, "sources": list(self.sources)}
        table = pa.table(columns | {_WEIGHT: self.weights})
        return table.replace_schema_metadata({_METADATA: json.dumps(header).encode()})

    def to_pandas(self) -> Any:
        """A pandas data frame: one column per dimension, and "weight"."""
        pandas()
        return self.to_arrow().to_pandas()

    def _card(self) -> Card:
        names = self.columns or tuple(f"x{j}" for j in range(self.points.shape[1]))
        weights = self.weights if self.weights.sum() > 0 else np.ones(len(self.weights))
        mean = np.average(self.points, axis=0, weights=weights)
        deviation = np.sqrt(np.average((self.points - mean) ** 2, axis=0, weights=weights))
        facts = [("method", self.method), ("records", self.n_records), ("points", len(self.points))]
        facts += [("columns", listing(self.columns, len(names)))]
        if self.verdict is not None:
            facts.append(("verdict", self.verdict.sentence))
        rows = list(zip(names, map(float, mean), map(float, deviation), strict=True))
        warning = NOT_PRIVATE if self.simulated else "" if self.privacy is None else self.privacy.warning
        return Card("Inferred data set", facts, ("column", "mean", "deviation"), rows, warning=warning)

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
                groups = (parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups))
                # A few hundred bytes can unpack to any number of values.
                if sum(group.num_rows for group in groups) * parquet.metadata.num_columns > _MOST_VALUES:
                    raise ValueError("too many values")
                table = parquet.read()
            header = json.loads((table.schema.metadata or {})[_METADATA].decode())
            promised, sources = header.get("privacy"), header.get("sources", [])
            names = [name for name in table.column_names if name != _WEIGHT]
            known = isinstance(sources, list) and all(isinstance(item, str) for item in sources)
            numbers = all(pa.types.is_floating(kind) for kind in table.schema.types)
            if not (known and numbers and len(set(names)) == len(names)):
                raise TypeError("other sources or columns")
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
                sources=tuple(sources),
            )
        except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError, pa.ArrowException):
            raise UnreadableFileError(f"{path} is not an inferred data set that Recoup wrote.") from None


def refit(
    transcript: Transcript,
    inferred: InferredDataset | None = None,
    *,
    n_clusters: int | None = None,
    n_restarts: int | None = None,
    average_last: int = 1,
    random_state: Any = None,
) -> Array:
    """The algorithm's answer without noise, on inferred data: for k-means, centres in the user's units.

    Args:
        transcript: what was released.
        inferred: the data set to cluster; none for the algorithm's own answer, the last iterate. Mass that cannot be
            told from noise is removed first, except for the paper's methods, "mcmc" and "consistency".
        n_clusters: another number of clusters, at no cost; needs inferred data.
        n_restarts: greedy k-means++ starts, for DP-KMEANS beside the last iterate; the best on the data is kept.
        average_last: without inferred data, the mean of the iterates of this many last rounds, as a baseline.
        random_state: seeds choices that need no protection; by default the seed of the commands and the report.

    Returns:
        (n_clusters, d) centres inside the bounds, in the order of their first column; for another algorithm, its
        answer.

    Guarantees: reads nothing but its arguments; candidates are compared on the inferred data alone.

    >>> from recoup import Box, KMeans, infer, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> refit(transcript, infer(transcript, "mcmc", n_steps=1000)).shape
    (3, 2)
    """
    if not isinstance(transcript, Transcript):
        raise ParameterError(f"transcript is a {type(transcript).__name__}: give one recoup.Transcript.")
    context, rounds = transcript.context, transcript.rounds
    algorithm = algorithm_from_json(transcript.algorithm)
    if inferred is not None:
        _check_inferred(context.domain, inferred)
    if isinstance(algorithm, ImportedAlgorithm):
        raise ParameterError(
            f"how to refit {algorithm.name!r:.80} is not known here: use the inferred data set itself, or import the "
            "answers with a clustering to refit by, such as algorithm=recoup.AdaptiveKMeans(n_clusters=3)."
        )
    if not algorithm.has_centers:
        clusterings = f"for clusterings, and this is a transcript of {algorithm.type_name}."
        if n_clusters is not None:
            raise ParameterError(Argument("n_clusters"), f" is {clusterings}")
        if average_last != 1 or n_restarts is not None:
            raise ParameterError(f"average_last and n_restarts are {clusterings}")
        rng = generator(random_state)
        if inferred is None:
            return algorithm.in_user_units(context, algorithm.estimate(context, rounds))
        points = context.domain.to_unit(inferred.points)
        return algorithm.in_user_units(context, algorithm.refit(context, rounds, points, inferred.weights, rng))
    clustering = cast(ClusteringAlgorithm, algorithm)
    wanted = clustering.n_clusters if n_clusters is None else whole_number(n_clusters, "n_clusters")
    average_last = whole_number(average_last, "average_last")
    if inferred is None:
        if wanted != clustering.n_clusters:
            raise ParameterError("another number of clusters needs an inferred data set: refit(transcript, inferred).")
        if average_last > 1 and not clustering.has_iterates:
            raise ParameterError("only the rounds of DP-KMEANS have iterates of the same clusters to average.")
        ends = range(len(rounds), max(len(rounds) - average_last, 0), -1)
        iterates = [clustering.estimate(context, rounds[:end]) for end in ends or (0,)]
        return clustering.in_user_units(context, context.domain.clip(np.mean(iterates, axis=0)))
    if average_last > 1:
        raise ParameterError("average_last is for the algorithm's own iterates: leave out the inferred data set.")
    points = context.domain.to_unit(inferred.points)
    if len(points) == wanted:
        return clustering.in_user_units(context, points)
    n_restarts = None if n_restarts is None else whole_number(n_restarts, "n_restarts")
    given = (context, rounds, points, inferred.weights, generator(random_state))
    keep_all = inferred.method in _AS_PUBLISHED
    answer = clustering.refit(*given, n_clusters=wanted, n_restarts=n_restarts, keep_all=keep_all)
    return clustering.in_user_units(context, answer)


def _check_inferred(domain: Domain, inferred: InferredDataset) -> None:
    """Refuse data of another table, or that is none: it would be clustered without a word."""
    if not isinstance(inferred, InferredDataset):
        raise ParameterError(f"inferred is a {type(inferred).__name__}: give what recoup.infer returns, or none.")
    points, weights = np.asarray(inferred.points), np.asarray(inferred.weights)
    if points.ndim != 2 or points.shape[1] != domain.n_columns or len(points) == 0 or weights.shape != points.shape[:1]:
        shape = f"the inferred data set has the shape {points.shape}"
        raise ParameterError(f"{shape}, but the transcript has {domain.n_columns} columns: is it of another table?")
    if inferred.columns != domain.columns:
        raise ParameterError("the inferred data set has other columns than the transcript: is it of another table?")
    if not (np.isfinite(points).all() and np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ParameterError("the inferred data set holds values that are not finite, or no positive weight.")
    # Points on the bounds may be off by rounding.
    low, high = np.array(domain.low), np.array(domain.high)
    room = 1e-6 * (high - low)
    if (points < low - room).any() or (points > high + room).any():
        raise ParameterError("the inferred data set lies outside of the transcript's bounds: is it of another table?")
