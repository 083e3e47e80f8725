"""Judge a result by what was released: is it explained, does it rest on records at all, and which of it is noise.

All tests together call what is nothing but noise a misfit in far less than one transcript in a hundred; data that
follow the noise only leave smaller residuals. What is certain need not matter. A misfit makes the verdict doubtful if
the last round that measured the means of clusters says that a centre is off by more than a small part of its cluster's
spread, or its size by more than a tenth. Everything else that is certain is noted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from recoup.errors import DoubtfulResult
from recoup.inference.diagnostics import Misfit, expected_answer, misfits_of
from recoup.inference.evidence import Evidence, evidence_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.verdict import Reason, Verdict, named, notes_of, reasons_of
from recoup.maxent.measure import only_cells, where_centers_settle
from recoup.maxent.sizes import Clusters, WeightedPoints, records_of, sizes_by_counts
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.transcript import Transcript

_FALSE_ALARM = 0.005  # of all tests that decide about one verdict, together: inside the 1% that is promised
_FACTOR, _DEVIATIONS = 1.5, 4.0  # by both of them the number of records must differ from the declared one
_CLUSTER = "cluster{} {}"
_EMPTY = "the released counts cannot be told from those of an empty table: the file may be empty, a column text, or "
_EMPTY += "every record incomplete; or epsilon is too small"
Answers = Iterable[tuple[int, Array]]  # by the number of the round


def judge(
    transcripts: Transcript | Sequence[Transcript],
    inferred: InferredDataset | None,
    centers: Array | None = None,
    *,
    predictions: Mapping[int, Array] | None = None,
) -> Verdict:
    """Judge a result by the transcript and the inferred data alone.

    Args:
        transcripts: what was released, about one data set.
        inferred: the data inferred from it; without it, only the number of records is judged.
        centers: (K, d) refitted centres in the user's units: means and sizes are then those of clusters, and clusters
            that may be only noise are named. Without it they are those of the cells of the last round with sums.
        predictions: by the number of a round, what the data inferred from the rounds before it answer to its query; a
            round that came as a surprise is noted. By default that of the last round of an adaptive release.

    Returns:
        The verdict.

    Guarantees: reads nothing but its arguments, so it costs no privacy. Where residuals are no larger than noise
    leaves, at most 1% of transcripts are called a misfit.

    >>> from recoup import Box, KMeans, infer, release
    >>> x = np.random.default_rng(0).uniform(size=(5000, 2))
    >>> terms = {"domain": Box([0, 0], [1, 1]), "epsilon": 5, "noise": "simulated", "random_state": 0}
    >>> transcript = release(KMeans(n_clusters=3), x, **terms)
    >>> judge(transcript, infer(transcript, random_state=0)).status
    'good'
    """
    evidence = evidence_of(transcripts)
    if inferred is None:
        return _by_records(evidence)
    domain = evidence.context.domain
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    middles = None if centers is None else domain.to_unit(np.asarray(centers, dtype=np.float64))
    predictions = predicted_last_round(evidence) if predictions is None else predictions
    verdict = judge_measure(evidence, data, inferred.method, middles, predictions.items())
    if _could_be_none(verdict):
        return verdict
    noise, shared = doubts_of(transcripts, centers, inferred)
    reasons = verdict.reasons
    if noise:
        sentence = f"{named(_CLUSTER, noise)} may be nothing but noise"
        reasons += (Reason(kind="clusters", sentence=sentence, clusters=tuple(noise)),)
    if shared:
        sentence = f"no round counted {named(_CLUSTER, shared)} apart from others: there may be fewer"
        reasons += (Reason(kind="apart", sentence=sentence, clusters=tuple(shared)),)
    return replace(verdict, reasons=reasons)


def judge_measure(
    evidence: Evidence, data: WeightedPoints, method: str, centers: Array | None = None, predictions: Answers = ()
) -> Verdict:
    """Judge weighted points of the unit domain, as `judge` does, but for clusters that may be nothing but noise."""
    rounds, numbers = evidence.rounds, _held_against(evidence, method)
    verdict = replace(_by_records(evidence), n_rounds=len(numbers))
    if _could_be_none(verdict) or not float(np.sum(data.weights)) > 0.0:
        return verdict  # what noise alone says about columns is nothing that anybody should read
    place = _CLUSTER
    if centers is None:
        with_sums = [
            (t, query.centers) for t, r in enumerate(rounds) if (query := as_cells(r.query, "absolute", "relative"))
        ]
        last, centers = with_sums[-1] if with_sums else (None, data.points[:1])
        place = "part{} {}" if last is None else f"cell{{}} {{}} of round {last + 1}"
    clusters = Clusters(centers, data)
    certain = certain_misfits(evidence, clusters, method=method)
    others = sorted(set(numbers) - _deciding(evidence))
    noted = [misfit for misfit in certain if misfit.importance < 1.0]
    noted += _certain(evidence, clusters, _own_answers(evidence, clusters, others))
    predicted = ((t, np.asarray(answer, dtype=np.float64)) for t, answer in predictions)
    surprises = [misfit for misfit in _certain(evidence, clusters, predicted) if misfit.importance >= 1.0]
    domain, wrong = evidence.context.domain, [misfit for misfit in certain if misfit.importance >= 1.0]
    reasons = (*verdict.reasons, *reasons_of(domain, place, wrong))
    notes = (*notes_of(domain, noted), *notes_of(domain, surprises, foreseen=False))
    return replace(verdict, reasons=reasons, notes=notes)


def warn_of(verdict: Verdict, *, stacklevel: int) -> None:
    """Warn where a verdict is doubtful; the level is that of the line that asked for the result, as seen from here."""
    if not verdict.good:
        warnings.warn(verdict.in_words, DoubtfulResult, stacklevel=stacklevel)


def certain_misfits(evidence: Evidence, clusters: Clusters, *, method: str = "maxent") -> list[Misfit]:
    """What the rounds that decide measured and the inferred data do not have, by more than noise, large or small."""
    numbers = sorted(_deciding(evidence) & set(_held_against(evidence, method)))
    return _certain(evidence, clusters, _own_answers(evidence, clusters, numbers))


def _held_against(evidence: Evidence, method: str) -> range:
    """The rounds that data are held against: all of them, or the last, of which those of the consistency step are."""
    n = len(evidence.rounds)
    return range(max(n - 1, 0) if method == "consistency" else 0, n)


def _own_answers(evidence: Evidence, clusters: Clusters, numbers: Sequence[int]) -> Answers:
    return ((t, expected_answer(evidence.rounds[t], clusters.points, clusters.weights)) for t in numbers)


def _certain(evidence: Evidence, clusters: Clusters, answers: Answers) -> list[Misfit]:
    """What noise alone would leave less often than the false-alarm rate, in all of these comparisons together."""
    context, rounds = evidence.context, evidence.rounds
    misfits = [m for t, answer in answers for m in misfits_of(context, t, rounds[t], answer, clusters)]
    rare = np.log(_FALSE_ALARM / max(len(misfits), 1))
    return [misfit for misfit in misfits if misfit.log_probability < rare]


def _deciding(evidence: Evidence) -> set[int]:
    """The last round with sums of each release, which was asked where its clusters are; without sums, all rounds."""
    deciding, start = set[int](), 0
    for part in evidence.parts:
        numbers = range(start, start + len(part.rounds))
        start += len(part.rounds)
        with_sums = [t for t, r in zip(numbers, part.rounds, strict=True) if as_cells(r.query, "absolute", "relative")]
        deciding |= set(with_sums[-1:] or numbers)
    return deciding


def predicted_last_round(evidence: Evidence) -> dict[int, Array]:
    """What data inferred from the rounds before it answer to the last question of an adaptive release, by its number.

    Data that were inferred from a round follow it; a prediction tells how much was known before.
    """
    rounds = evidence.rounds
    adaptive = len(rounds) > 1 and as_cells(rounds[-1].query, "relative") and only_cells(rounds)
    if len(evidence.parts) != 1 or not adaptive:
        return {}
    before = replace(evidence.parts[0], rounds=rounds[:-1])
    measure = where_centers_settle(evidence.context, before.rounds, before.n_settling)
    return {len(rounds) - 1: expected_answer(rounds[-1], measure.points, measure.weights)}


def _by_records(evidence: Evidence) -> Verdict:
    """The verdict on the number of records alone."""
    records, declared = records_of(evidence.context, evidence.rounds), evidence.context.n_records
    if records is None:
        return Verdict()
    numbers = {"estimate": records.estimate, "deviation": records.deviation}
    reasons: tuple[Reason, ...] = ()
    if records.could_be_none:
        reasons = (Reason(kind="records", sentence=_EMPTY, numbers=numbers),)
    elif declared is not None:
        apart = abs(records.estimate - declared) >= _DEVIATIONS * records.deviation
        if apart and max(records.estimate / declared, declared / records.estimate) > _FACTOR:
            sentence = f"it {records.sentence}, and {declared:,} were declared"
            reasons = (Reason(kind="declared", sentence=sentence, numbers=numbers | {"declared": float(declared)}),)
    return Verdict(records=records, reasons=reasons)


def _could_be_none(verdict: Verdict) -> bool:
    return verdict.records is not None and verdict.records.could_be_none


class Doubts(NamedTuple):
    """Clusters that may not be there, as rows of the centres."""

    noise: list[int]  # their noisy counts do not stand out from their noise
    shared: list[int]  # no round counted them by themselves, though it did others: how they divide a cell is made up


def doubts_of(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> Doubts:
    """The clusters to doubt: none without inferred data, where no round tells, or of a single cluster.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.repeat([[0.2], [0.8]], 500, axis=0)
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0], [1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> len(doubts_of(transcript, refit(transcript, inferred, n_clusters=4, random_state=0), inferred).shared)
    2
    """
    if centers is None or inferred is None or len(centers) == 1:
        return Doubts([], [])
    released = [transcripts] if isinstance(transcripts, Transcript) else list(transcripts)
    domain = released[0].context.domain
    rounds = [answered for transcript in released for answered in transcript.rounds]
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    sizes = sizes_by_counts(rounds, Clusters(domain.to_unit(centers), data))
    counted = np.isfinite(sizes.deviations)
    shared = np.flatnonzero(~counted) if counted.any() else np.empty(0, dtype=int)
    return Doubts(np.flatnonzero(~sizes.sure & counted).tolist(), shared.tolist())
