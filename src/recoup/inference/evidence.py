"""What inference reads: the rounds of one transcript, or of several that were released from one data set.

Every round carries its own noise scale and law, so rounds of different releases simply stand side by side; only the
domain and what counts as a neighbour must be the same, since they say what a record is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.maxent.measure import equal_parts, strength_of
from recoup.maxent.support import drawn_support
from recoup.privacy.statement import PrivacyStatement
from recoup.queries.base import Array
from recoup.transcript.context import Context
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Part:
    """One release: its terms, its algorithm and its rounds."""

    context: Context
    algorithm: Algorithm
    rounds: tuple[Round, ...]

    @property
    def n_settling(self) -> int:
        """How many of the last rounds settled centres, as the algorithm says."""
        return self.algorithm.settling(self.context, self.rounds)

    def support(self, n_points: int, total: float, rng: np.random.Generator) -> Array:
        """Points where the release says that records may lie."""
        if self.algorithm.can_refit and not self.algorithm.has_centers:
            return self.context.domain.clip(self.algorithm.support(self.context, self.rounds, n_points, rng))
        return drawn_support(self.context, self.rounds, n_points, rng, total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Rounds about one data set."""

    context: Context  # the shared terms: budgets added up, and the largest number of records declared
    parts: tuple[Part, ...]  # the releases
    simulated: bool  # whether the noise of any of them was simulated
    privacy: PrivacyStatement  # what they promise all together, as `joint_privacy` says it
    sources: tuple[str, ...]  # a fingerprint of each of them

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds, release by release."""
        return tuple(answered for part in self.parts for answered in part.rounds)

    @property
    def strength(self) -> float:
        """The epsilon of Laplace noise that would be as strong as all releases together."""
        values = [(part.context.mechanism, strength_of(part.context, part.rounds)) for part in self.parts]
        squares = sum(value**2 for law, value in values if law == "gaussian")
        return float(sum(value for law, value in values if law == "laplace") + np.sqrt(squares))

    @property
    def one_law(self) -> bool:
        """Whether all rounds have noise of the same law."""
        return len({part.context.mechanism for part in self.parts}) == 1

    @property
    def n_points(self) -> int:
        """How many points a support has where nobody says: the algorithm's own number, if one alone is read."""
        if len(self.parts) > 1:
            return Algorithm.support_points
        return whole_number(self.parts[0].algorithm.support_points, "support_points")

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base has: what the algorithms ask for, on average."""
        return float(np.mean([part.algorithm.pseudo_records for part in self.parts]))

    def support(self, n_points: int, total: float, rng: np.random.Generator) -> Array:
        """Points where the releases say that records may lie, an equal number from each."""
        sizes = equal_parts(n_points, len(self.parts))
        return np.concatenate([part.support(n, total, rng) for part, n in zip(self.parts, sizes, strict=True)])


def evidence_of(transcripts: Transcript | Sequence[Transcript]) -> Evidence:
    """Read one transcript, or several; that all of them came from one data set is the caller's to know."""
    transcripts = [transcripts] if isinstance(transcripts, Transcript) else transcripts
    if isinstance(transcripts, str | bytes) or not isinstance(transcripts, Sequence):
        raise ParameterError(f"transcript is a {type(transcripts).__name__}: give a recoup.Transcript or a list.")
    for other in (item for item in transcripts if not isinstance(item, Transcript)):
        raise ParameterError(f"the list holds a {type(other).__name__}: give transcripts of one data set.")
    if not transcripts:
        raise ParameterError("the list of transcripts is empty: give at least one.")
    privacy = joint_privacy(transcripts)  # which refuses different terms
    parts = tuple(Part(item.context, algorithm_from_json(item.algorithm), item.rounds) for item in transcripts)
    terms = [part.context for part in parts]
    shared = terms[0]
    if len(parts) > 1:
        shared = Context(
            domain=shared.domain,
            epsilon=sum((context.epsilon for context in terms), Fraction(0)),
            delta=sum((context.delta for context in terms), Fraction(0)),
            mechanism="gaussian" if {context.mechanism for context in terms} == {"gaussian"} else "laplace",
            n_records=max((context.n_records for context in terms if context.n_records is not None), default=None),
            records_per_person=shared.records_per_person,
        )
    simulated, sources = any(item.simulated for item in transcripts), tuple(map(fingerprint, transcripts))
    return Evidence(context=shared, parts=parts, simulated=simulated, privacy=privacy, sources=sources)


def reasons_against(evidence: Evidence) -> list[str]:
    """Why the algorithms of these releases would not infer from them, each judging its own rounds: a sentence each."""
    reasons = []
    for position, part in enumerate(evidence.parts, start=1):
        if part.rounds and (reason := part.algorithm.declines(part.context, part.rounds)) is not None:
            whose = "it" if len(evidence.parts) == 1 else f"reading transcript {position} alone"
            reasons.append(f"inferred as asked, but the algorithm advises against {whose}: {reason}")
    return reasons


def joint_privacy(transcripts: Sequence[Transcript]) -> PrivacyStatement:
    """What several transcripts of one data set promise all together; refuses those of different terms.

    Epsilons and deltas are added up, as holds for any releases, and the weakest word about the noise holds for all.
    """
    if len(transcripts) == 1:
        return replace(transcripts[0].privacy, counted=None)
    first = transcripts[0]
    for i, item in enumerate(transcripts[1:], start=2):
        if item.context.domain.to_json() != first.context.domain.to_json():
            hint = "one inferred data set cannot answer both. Release them over the same domain."
            raise ParameterError(f"transcripts 1 and {i} have different domains (columns, bounds or shape): {hint}")
        for one, other in ((first.context.unit, item.context.unit), (first.neighbours, item.neighbours)):
            if one != other:
                raise ParameterError(f"transcripts 1 and {i} have different neighbours: {one} and {other}.")
    rounds = [(r.noisy.tobytes(), str(r.query.to_json())) for item in transcripts for r in item.rounds]
    if len(set(rounds)) < len(rounds):
        raise ParameterError("the same round is given twice: it would count as two answers with independent noise.")
    return PrivacyStatement.together([item.privacy for item in transcripts])


def privacy_of(transcript: Transcript, inferred: InferredDataset | None) -> PrivacyStatement:
    """The privacy statement of a result: of its transcript and of everything that the inferred data was made from.

    Data of which nothing is known, as in a file of an older Recoup, adds only whether its noise was simulated.
    """
    own = result = replace(transcript.privacy, counted=None)
    if inferred is None:
        return own
    others = inferred.privacy
    if others is not None and fingerprint(transcript) in inferred.sources and others.covers(own):
        changed = ("noise", "epsilon", "delta", "mechanism", "spent")  # by several releases, in a statement
        result = replace(own, **{name: others[name] for name in changed})
    elif others is not None:
        result = PrivacyStatement.together([own, others])
    return replace(result, noise="simulated") if inferred.simulated else result


def releases_behind(transcript: Transcript, inferred: InferredDataset | None) -> int:
    """How many releases a result was made from, as far as the inferred data tells."""
    return len({fingerprint(transcript), *(() if inferred is None else inferred.sources)})


def fingerprint(transcript: Transcript) -> str:
    """By what inferred data knows a transcript that it was made from: a hash of its noisy answers, which are public."""
    answers = b"".join(answered.noisy.astype("<f8").tobytes() for answered in transcript.rounds)
    return f"sha256:{hashlib.sha256(answers).hexdigest()}"
