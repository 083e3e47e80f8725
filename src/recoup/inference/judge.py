"""Judge a result by what was released: is it explained, does it rest on records at all, and which of it is noise.

All tests together call what is nothing but noise a misfit in far less than one transcript in a hundred; data that
follow the noise only leave smaller residuals. What is certain need not matter. A misfit makes the verdict doubtful if
the last round that measured the means of clusters says that a centre is off by more than a small part of its cluster's
spread, or its size by more than a tenth. Everything else that is certain is noted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from recoup.errors import DoubtfulResult
from recoup.inference.diagnostics import expected_answer
from recoup.inference.evidence import Evidence, evidence_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.misfit import Misfit, misfits_of
from recoup.inference.problem import has_cells_alone
from recoup.inference.verdict import Place, Reason, Verdict, notes_of, reasons_of, surprises_of
from recoup.maxent.clusters import Clusters, Sizes, WeightedPoints, sizes_by_counts
from recoup.maxent.readings import infer_measure
from recoup.maxent.records import records_of
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_FALSE_ALARM = 0.005  # of all tests that decide about one verdict, together: inside the 1% that is promised
_FACTOR, _DEVIATIONS = 1.5, 4.0  # by both of them the number of records must differ from the declared one
_PREDICTION_POINTS, _PREDICTION_PASSES = 4_000, 1  # as between rounds that settle centres
_CLUSTER = Place("cluster", "")


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
        inferred: the data inferred from it; without any, only the number of records is judged.
        centers: (K, d) refitted centres in the user's units: then means and sizes are told by cluster, and clusters
            that may be nothing but noise are named. Else they are told by the cells of the last round with sums.
        predictions: by the number of a round, what the data inferred from the rounds before it answer to its query; a
            round that came as a surprise is noted. By default that of the last round of an adaptive release.

    Returns:
        The verdict.

    Guarantees: reads nothing but its arguments, so it costs no privacy. Where the inferred data explain the rounds, so
    that residuals are no larger than noise leaves, at most 1% of transcripts are called a misfit.

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
    verdict = judge_measure(
        evidence,
        domain.to_unit(inferred.points),
        inferred.weights,
        method=inferred.method,
        centers=None if centers is None else domain.to_unit(np.asarray(centers, dtype=np.float64)),
        predictions=predicted_last_round(evidence) if predictions is None else predictions,
    )
    if _could_be_none(verdict):
        return verdict
    return replace(verdict, reasons=(*verdict.reasons, *_about_clusters(transcripts, centers, inferred)))


def judge_measure(
    evidence: Evidence,
    points: Array,
    weights: Array,
    *,
    method: str = "maxent",
    centers: Array | None = None,
    predictions: Mapping[int, Array] | None = None,
) -> Verdict:
    """Judge weighted points of the unit domain, as `judge` does, but for clusters that may be nothing but noise.

    Those of the method "consistency" are of the last round, and held against it alone.
    """
    rounds = evidence.rounds
    numbers = _held_against(evidence, method)
    verdict = replace(_by_records(evidence), n_rounds=len(numbers))
    if _could_be_none(verdict) or not float(np.sum(weights)) > 0.0:
        return verdict  # what noise alone says about columns is nothing that anybody should read
    place = _CLUSTER
    if centers is None:
        with_sums = [(t, query) for t, answered in enumerate(rounds) if (query := _asked_for_sums(answered))]
        place = Place("cell", f" of round {with_sums[-1][0] + 1}") if with_sums else Place("part", "")
        centers = with_sums[-1][1].centers if with_sums else points[:1]
    clusters = Clusters(centers, WeightedPoints(points, weights))
    certain = certain_misfits(evidence, clusters, method=method)
    wrong = [misfit for misfit in certain if misfit.importance >= 1.0]
    noted = [misfit for misfit in certain if misfit.importance < 1.0]
    noted += _certain(_own_misfits(evidence, clusters, sorted(set(numbers) - _deciding(evidence))))
    predicted = ((t, np.asarray(answer, dtype=np.float64)) for t, answer in (predictions or {}).items())
    surprises = [m for m in _certain(_misfits(evidence, clusters, predicted)) if m.importance >= 1.0]
    domain = evidence.context.domain
    return replace(
        verdict,
        reasons=(*verdict.reasons, *reasons_of(domain, place, wrong)),
        notes=(*notes_of(domain, noted), *surprises_of(domain, surprises)),
    )


def warn_of(verdict: Verdict, *, stacklevel: int) -> None:
    """Warn where a verdict is doubtful; the level is that of the line that asked for the result, as seen from here."""
    if not verdict.good:
        warnings.warn(f"{verdict.sentence} {verdict.rests_on}", DoubtfulResult, stacklevel=stacklevel)


# ---------------------------------------------------------------- misfits


def certain_misfits(evidence: Evidence, clusters: Clusters, *, method: str = "maxent") -> list[Misfit]:
    """What the rounds that decide measured and the inferred data do not have, by more than noise, large or small.

    Any at all in less than 1% of transcripts that the data explain.
    """
    numbers = sorted(_deciding(evidence) & set(_held_against(evidence, method)))
    return _certain(_own_misfits(evidence, clusters, numbers))


def _held_against(evidence: Evidence, method: str) -> range:
    """The rounds that data are held against: all of them, or the last, of which those of the consistency step are."""
    n = len(evidence.rounds)
    return range(max(n - 1, 0) if method == "consistency" else 0, n)


def _own_misfits(evidence: Evidence, clusters: Clusters, numbers: Sequence[int]) -> list[Misfit]:
    rounds = evidence.rounds
    return _misfits(
        evidence, clusters, ((t, expected_answer(rounds[t], clusters.points, clusters.weights)) for t in numbers)
    )


def _misfits(evidence: Evidence, clusters: Clusters, answers: Iterable[tuple[int, Array]]) -> list[Misfit]:
    return [m for t, answer in answers for m in misfits_of(evidence.context, t, evidence.rounds[t], answer, clusters)]


def _asked_for_sums(answered: Round) -> VoronoiQuery | None:
    return as_cells(answered.query, "absolute", "relative")


def _deciding(evidence: Evidence) -> set[int]:
    """The last round with sums of each release, which was asked where its clusters are; without sums, all rounds."""
    deciding, start = set[int](), 0
    for part in evidence.parts:
        numbers = range(start, start + len(part.rounds))
        start += len(part.rounds)
        with_sums = [t for t, answered in zip(numbers, part.rounds, strict=True) if _asked_for_sums(answered)]
        deciding |= set(with_sums[-1:] or numbers)
    return deciding


def _certain(misfits: Sequence[Misfit]) -> list[Misfit]:
    """Those that noise alone would leave less often than the false-alarm rate, in all of these tests together."""
    rare = np.log(_FALSE_ALARM / max(len(misfits), 1))
    return [misfit for misfit in misfits if misfit.log_chance < rare]


def predicted_last_round(evidence: Evidence) -> dict[int, Array]:
    """What data inferred from the rounds before it alone answer to the last question of an adaptive release.

    Data that were inferred from a round follow it; a prediction tells how much was known before. By the number of the
    round; empty where rounds are of several releases, fewer than two, not all in cells, or the last did not ask for
    relative sums.
    """
    rounds = evidence.rounds
    adaptive = len(rounds) > 1 and as_cells(rounds[-1].query, "relative") and has_cells_alone(rounds)
    if len(evidence.parts) != 1 or not adaptive:
        return {}
    before = replace(evidence.parts[0], rounds=rounds[:-1])
    measure = infer_measure(
        evidence.context,
        before.rounds,
        np.random.default_rng(0),
        n_points=_PREDICTION_POINTS,
        n_passes=_PREDICTION_PASSES,
        n_settling=before.n_settling,
    )
    return {len(rounds) - 1: expected_answer(rounds[-1], measure.points, measure.weights)}


# ---------------------------------------------------------------- records


def _by_records(evidence: Evidence) -> Verdict:
    """The verdict on the number of records alone."""
    records, declared = records_of(evidence.context, evidence.rounds), evidence.context.n_records
    verdict = Verdict(records=records)
    if records is None:
        return verdict
    numbers = {"estimate": records.estimate, "deviation": records.deviation}
    if records.could_be_none:
        sentence = (
            "the released counts cannot be told from those of an empty table: the file may be empty, a column text, or "
            "every record incomplete; or epsilon is too small"
        )
        return replace(verdict, reasons=(Reason(kind="records", sentence=sentence, numbers=numbers),))
    if declared is None or abs(records.estimate - declared) < _DEVIATIONS * records.deviation:
        return verdict
    if max(records.estimate / declared, declared / records.estimate) <= _FACTOR:
        return verdict
    sentence = f"it {records.sentence}, and {declared:,} were declared"
    numbers |= {"declared": float(declared)}
    return replace(verdict, reasons=(Reason(kind="declared", sentence=sentence, numbers=numbers),))


def _could_be_none(verdict: Verdict) -> bool:
    return verdict.records is not None and verdict.records.could_be_none


# ---------------------------------------------------------------- clusters


def doubtful(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> list[int]:
    """The clusters whose noisy counts do not stand out from their noise, as rows of the (K, d) centres.

    Empty where nothing can be told: without inferred data, or where no round counted in cells of its own what is at a
    centre. A single cluster is never doubted.
    """
    sizes = _sizes(transcripts, centers, inferred)
    return [] if sizes is None else [int(k) for k in np.flatnonzero(~sizes.real & np.isfinite(sizes.deviations))]


def never_counted(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> list[int]:
    """The clusters that no round counted by themselves, though it counted others: more than were measured.

    Where there are fewer different records than clusters, or a spike was taken for a spread, centres share a cell, and
    how they divide it was made up.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.repeat([[0.2], [0.8]], 500, axis=0)
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0], [1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> len(never_counted(transcript, refit(transcript, inferred, n_clusters=4, random_state=0), inferred))
    2
    """
    sizes = _sizes(transcripts, centers, inferred)
    counted = None if sizes is None else np.isfinite(sizes.deviations)
    return [] if counted is None or not counted.any() else [int(k) for k in np.flatnonzero(~counted)]


def _sizes(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset | None
) -> Sizes | None:
    if centers is None or inferred is None or len(centers) == 1:
        return None
    released = [transcripts] if isinstance(transcripts, Transcript) else list(transcripts)
    domain = released[0].context.domain
    rounds = [answered for transcript in released for answered in transcript.rounds]
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    return sizes_by_counts(rounds, Clusters(domain.to_unit(centers), data))


def _about_clusters(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset
) -> Iterator[Reason]:
    if noise := doubtful(transcripts, centers, inferred):
        sentence = f"{_CLUSTER.name(noise)} may be nothing but noise"
        yield Reason(kind="clusters", sentence=sentence, clusters=tuple(noise))
    if shared := never_counted(transcripts, centers, inferred):
        sentence = f"no round counted {_CLUSTER.name(shared)} apart from others: there may be fewer"
        yield Reason(kind="apart", sentence=sentence, clusters=tuple(shared))
