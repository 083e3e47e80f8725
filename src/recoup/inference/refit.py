"""The non-private algorithm on inferred data."""

from __future__ import annotations

from typing import Any

from recoup.algorithms.registry import algorithm_from_json
from recoup.queries.base import Array
from recoup.transcript import Transcript


def refit(transcript: Transcript, inferred: None = None, *, random_state: Any = None) -> Array:
    """The centres of a transcript in the user's units.

    Args:
        transcript: what was released.
        inferred: none for the algorithm's own answer, the last iterate.
        random_state: harmless randomness.

    Returns:
        (n_clusters, d) centres inside the bounds.
    """
    algorithm = algorithm_from_json(transcript.algorithm)
    return transcript.context.domain.from_unit(algorithm.estimate(transcript.context, transcript.rounds))
