"""What inference reads: the rounds of one transcript, or of several that were released from one data set.

Every round carries its own noise scale and law, so rounds of different releases simply stand side by side; only the
domain and what counts as a neighbour must be the same, since they say what a record is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.algorithms.registry import algorithm_from_json
from recoup.context import Context
from recoup.errors import ParameterError
from recoup.inference.measure import strength_of
from recoup.transcript import Round, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One release: its terms, its algorithm and its rounds."""

    context: Context
    algorithm: Algorithm
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Rounds about one data set.

    Attributes:
        context: the terms that all releases share; its budget is the sum of theirs.
        parts: the releases.
        simulated: whether the noise of any of them was simulated.
    """

    context: Context
    parts: tuple[Part, ...]
    simulated: bool

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds, release by release."""
        return tuple(answered for part in self.parts for answered in part.rounds)

    @property
    def strength(self) -> float:
        """The epsilon of Laplace noise that would be as strong as all releases together."""
        by_law = {"laplace": 0.0, "gaussian": 0.0}
        for part in self.parts:
            value = strength_of(part.context, part.rounds)
            by_law[part.context.mechanism] += value if part.context.mechanism == "laplace" else value**2
        return by_law["laplace"] + float(np.sqrt(by_law["gaussian"]))

    @property
    def one_law(self) -> bool:
        """Whether all rounds have noise of the same law."""
        return len({part.context.mechanism for part in self.parts}) == 1


def evidence_of(transcripts: Transcript | Sequence[Transcript]) -> Evidence:
    """Read one transcript, or several of one data set.

    Args:
        transcripts: what was released; that all of it came from one data set is the caller's to know.

    Returns:
        All rounds, with the terms they share.
    """
    if isinstance(transcripts, Transcript):
        part = _part(transcripts)
        return Evidence(context=part.context, parts=(part,), simulated=transcripts.simulated)
    if isinstance(transcripts, str | bytes) or not isinstance(transcripts, Sequence):
        raise ParameterError(f"transcript is a {type(transcripts).__name__}: give a recoup.Transcript or a list.")
    for item in transcripts:
        if not isinstance(item, Transcript):
            raise ParameterError(f"the list holds a {type(item).__name__}: give transcripts of one data set.")
    if not transcripts:
        raise ParameterError("the list of transcripts is empty: give at least one.")
    if len(transcripts) == 1:
        return evidence_of(transcripts[0])
    _check_same_terms(transcripts)
    parts = tuple(_part(item) for item in transcripts)
    laws = {part.context.mechanism for part in parts}
    shared = Context(
        domain=parts[0].context.domain,
        epsilon=sum((part.context.epsilon for part in parts), Fraction(0)),
        delta=sum((part.context.delta for part in parts), Fraction(0)),
        mechanism="gaussian" if laws == {"gaussian"} else "laplace",
        n_records=max((p.context.n_records for p in parts if p.context.n_records is not None), default=None),
        records_per_person=parts[0].context.records_per_person,
    )
    return Evidence(context=shared, parts=parts, simulated=any(item.simulated for item in transcripts))


def joint_privacy(transcripts: Sequence[Transcript]) -> dict[str, Any]:
    """The privacy statement of several transcripts that are read together: what they promise all together.

    Args:
        transcripts: of one data set.

    Returns:
        A statement with the keys of `Transcript.privacy`: epsilons and deltas are added up, which holds for releases
        of any kind, and the weakest word about the noise holds for all.

    >>> from recoup import Box, GridKMeans, KMeans, release
    >>> kinds = (GridKMeans(n_clusters=2), KMeans(n_clusters=2))
    >>> both = [release(kind, [[0.5]], domain=Box([0], [1]), epsilon=0.5) for kind in kinds]
    >>> joint_privacy(both)["epsilon"], joint_privacy(both)["noise"]
    (1.0, 'secure')
    """
    first, *others = transcripts
    if not others:
        return first.privacy
    _check_same_terms(transcripts)
    weakest = min(transcripts, key=lambda item: ("simulated", "unverified", "secure").index(item.privacy["noise"]))
    return first.privacy | {
        "statement": weakest.statement,
        "noise": weakest.privacy["noise"],
        "epsilon": float(sum(item.context.epsilon for item in transcripts)),
        "delta": float(sum(item.context.delta for item in transcripts)),
        "mechanism": " and ".join(dict.fromkeys(item.context.mechanism for item in transcripts)),
        "spent": float(sum(item.epsilon_spent for item in transcripts)),
    }


def _part(transcript: Transcript) -> Part:
    return Part(
        context=transcript.context,
        algorithm=algorithm_from_json(transcript.algorithm),
        rounds=transcript.rounds,
    )


def _check_same_terms(transcripts: Sequence[Transcript]) -> None:
    first = transcripts[0].context
    for i, item in enumerate(transcripts[1:], start=2):
        other = item.context
        if other.domain.to_json() != first.domain.to_json():
            raise ParameterError(
                f"transcripts 1 and {i} have different domains (columns, bounds or shape): one inferred data set "
                "cannot answer both. Release them over the same domain."
            )
        if other.records_per_person != first.records_per_person:
            raise ParameterError(
                f"transcripts 1 and {i} have different neighbours: {first.records_per_person} and "
                f"{other.records_per_person} records per person."
            )
        if item.neighbours != transcripts[0].neighbours:
            raise ParameterError(
                f"transcripts 1 and {i} have different neighbours: {transcripts[0].neighbours} and {item.neighbours}."
            )
    rounds = [(r.noisy.tobytes(), str(r.query.to_json())) for item in transcripts for r in item.rounds]
    if len(set(rounds)) < len(rounds):
        raise ParameterError("the same round is given twice: it would count as two answers with independent noise.")
