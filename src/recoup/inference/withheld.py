"""Which intervals cannot hold, and why: they are withheld instead of being narrow and wrong.

Simulated transcripts tell how far noise leads from the inferred data. Where there may be no records at all, or where
the last round measured something that the inferred data do not have, that is the wrong question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from recoup.inference.evidence import evidence_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import certain_misfits, doubtful, never_counted
from recoup.maxent.clusters import Clusters, WeightedPoints
from recoup.maxent.records import records_of
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_NOISE = "it may be nothing but noise"
_NO_RECORDS = "the released counts cannot be told from those of an empty table"
_MISSED = "the last round measured another value, outside of the interval"
_SHARED = "no round counted it apart from others"


class Withheld(NamedTuple):
    """One interval that is not given.

    Attributes:
        cluster: the row of the centres.
        column: the number of the column; none for the cluster's size.
        reason: why, in words.
    """

    cluster: int
    column: int | None
    reason: str


def withheld_from(
    transcript: Transcript,
    inferred: InferredDataset,
    centers: Array,
    center_errors: Array,
    size_errors: Array,
    *,
    clumps: bool,
) -> tuple[Withheld, ...]:
    """The intervals that cannot hold.

    Args:
        transcript: what was released.
        inferred: the data inferred from it.
        centers: (K, d) in the user's units.
        center_errors: (K, d) half the widths of their intervals, in the unit domain.
        size_errors: (K,) half the widths of those of sizes.
        clumps: whether they hold every way in which clusters may divide a cell.

    Returns:
        Each once, by cluster and column. Centres where there may be no records; centres and sizes where the last round
        with sums measured, by more than noise explains, something outside of the interval.

    Guarantees: reads nothing but its arguments, so it costs no privacy.
    """
    found: dict[tuple[int, int | None], str] = {}
    for k, reason in _without_records(transcript, inferred, centers, clumps):
        found |= {(k, j): reason for j in range(centers.shape[1]) if (k, j) not in found}
    domain = transcript.context.domain
    clusters = Clusters(domain.to_unit(centers), WeightedPoints(domain.to_unit(inferred.points), inferred.weights))
    for misfit in certain_misfits(evidence_of(transcript), clusters, method=inferred.method):
        cluster, column = misfit.cluster, misfit.column
        if cluster is None:
            continue
        reach = size_errors[cluster] if column is None else center_errors[cluster, column]
        if abs(misfit.measured - misfit.inferred) > reach:
            found.setdefault((cluster, column), _MISSED)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1]))
    return tuple(Withheld(k, j, reason) for (k, j), reason in ordered)


def _without_records(
    transcript: Transcript, inferred: InferredDataset, centers: Array, clumps: bool
) -> Iterator[tuple[int, str]]:
    records = records_of(transcript.context, transcript.rounds)
    if records is not None and records.could_be_none:
        yield from ((k, _NO_RECORDS) for k in range(len(centers)))
        return
    yield from ((k, _NOISE) for k in doubtful(transcript, centers, inferred))
    if not clumps:
        yield from ((k, _SHARED) for k in never_counted(transcript, centers, inferred))
