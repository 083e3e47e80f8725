"""Which clusters of a result may be nothing but noise, or parts of another, so that verdict and report can say so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recoup.inference.inferred import InferredDataset
from recoup.maxent.significance import Sizes, sizes_by_counts
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript


def doubtful(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> list[int]:
    """The clusters whose noisy counts do not stand out from their noise.

    Args:
        transcripts: what was released, about one data set.
        centers: (K, d) in the user's units; none if there are none.
        inferred: the data they were refitted on, which says which cells belong to which centre; none if there is none.

    Returns:
        Their numbers, the rows of the centres; empty where nothing can be told: without inferred data, or where no
        round counted in cells of its own what is at a centre. A single cluster is never doubted.

    Guarantees: reads nothing but its arguments, so it costs no privacy.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.repeat([[0.2], [0.8]], 500, axis=0)
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0], [1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> doubtful(transcript, refit(transcript, inferred, random_state=0), inferred)
    []
    """
    told = _told(transcripts, centers, inferred)
    return [] if told is None else [int(k) for k in np.flatnonzero(~told.real & np.isfinite(told.deviations))]


def never_counted(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> list[int]:
    """The clusters that no round counted by themselves, though it counted others: more than were measured.

    Where there are fewer different records than clusters, or a spike was taken for a spread, centres share a cell, and
    how they divide it was made up.

    Args:
        transcripts: what was released, about one data set.
        centers: (K, d) in the user's units; none if there are none.
        inferred: the data they were refitted on; none if there is none.

    Returns:
        Their numbers, the rows of the centres; empty where nothing can be told.

    Guarantees: reads nothing but its arguments, so it costs no privacy.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.repeat([[0.2], [0.8]], 500, axis=0)
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0], [1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> len(never_counted(transcript, refit(transcript, inferred, n_clusters=4, random_state=0), inferred))
    2
    """
    told = _told(transcripts, centers, inferred)
    apart = None if told is None else np.isfinite(told.deviations)
    return [] if apart is None or not apart.any() else [int(k) for k in np.flatnonzero(~apart)]


def _told(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> Sizes | None:
    if centers is None or inferred is None or len(centers) == 1:
        return None
    released = [transcripts] if isinstance(transcripts, Transcript) else list(transcripts)
    domain = released[0].context.domain
    rounds = [answered for transcript in released for answered in transcript.rounds]
    return sizes_by_counts(rounds, domain.to_unit(inferred.points), inferred.weights, domain.to_unit(centers))
