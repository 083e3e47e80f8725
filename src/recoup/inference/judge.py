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
from typing import NamedTuple

import numpy as np

from recoup.algorithms.base import column_names
from recoup.domain import Domain
from recoup.errors import DoubtfulResult
from recoup.inference.doubt import doubtful, never_counted
from recoup.inference.evidence import Evidence, evidence_of
from recoup.inference.foresight import foreseen
from recoup.inference.inferred import InferredDataset
from recoup.inference.misfit import Clusters, Misfit, expected_answer, misfits_of
from recoup.inference.verdict import Kind, Reason, Verdict
from recoup.maxent.records import Records, records_of
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_FALSE_ALARM = 0.005  # of all tests that decide about one verdict, together: inside the 1% that is promised
_FACTOR, _DEVIATIONS = 1.5, 4.0  # by both of them the number of records must differ from the declared one
_MOST_NAMED = 5  # columns or clusters in one sentence; the data have all of them


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
        return Verdict(reasons=tuple(_about_records(evidence)), records=records_of(evidence.context, evidence.rounds))
    domain = evidence.context.domain
    found = judge_measure(
        evidence,
        domain.to_unit(inferred.points),
        inferred.weights,
        method=inferred.method,
        centers=None if centers is None else domain.to_unit(np.asarray(centers, dtype=np.float64)),
        predictions=foreseen(evidence) if predictions is None else predictions,
    )
    if _could_be_none(found.records):
        return found
    return replace(found, reasons=(*found.reasons, *_about_clusters(transcripts, centers, inferred)))


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

    Args:
        evidence: the rounds.
        points: (m, d).
        weights: (m,) records that each stands for.
        method: how they were inferred; those of "consistency" are of the last round, and held against it alone.
        centers: (K, d), or none.
        predictions: of later rounds, or none.

    Returns:
        The verdict.
    """
    rounds = evidence.rounds
    numbers = _held_against(evidence, method)
    found = Verdict(
        reasons=tuple(_about_records(evidence)),
        records=records_of(evidence.context, rounds),
        n_rounds=len(numbers),
    )
    if _could_be_none(found.records) or not float(np.sum(weights)) > 0.0:
        return found  # what noise alone says about columns is nothing that anybody should read
    place = _Place("cluster", "")
    if centers is None:
        last = max((t for t, answered in enumerate(rounds) if _has_sums(answered)), default=None)
        place = _Place("part", "") if last is None else _Place("cell", f" of round {last + 1}")
        centers = points[:1] if last is None else rounds[last].query.centers  # type: ignore[attr-defined]
    clusters = Clusters(centers, points, weights)
    certain = certain_misfits(evidence, clusters, method=method)
    wrong = [misfit for misfit in certain if misfit.importance >= 1.0]
    noted = [misfit for misfit in certain if misfit.importance < 1.0]
    noted += _certain(_own_misfits(evidence, clusters, sorted(set(numbers) - _deciding(evidence))))
    foreseen = ((t, np.asarray(answer, dtype=np.float64)) for t, answer in (predictions or {}).items())
    unforeseen = [m for m in _certain(_misfits(evidence, clusters, foreseen)) if m.importance >= 1.0]
    domain = evidence.context.domain
    return replace(
        found,
        reasons=(*found.reasons, *_reasons(domain, place, wrong)),
        notes=(*_notes(domain, noted), *_surprises(domain, unforeseen)),
    )


def certain_misfits(evidence: Evidence, clusters: Clusters, *, method: str = "maxent") -> list[Misfit]:
    """What the rounds that decide measured and the inferred data do not have, by more than noise, large or small.

    Args:
        evidence: the rounds.
        clusters: the inferred data by cluster.
        method: how they were inferred.

    Returns:
        The misfits; any at all in less than 1% of transcripts that the data explain.
    """
    return _certain(
        _own_misfits(evidence, clusters, sorted(_deciding(evidence) & set(_held_against(evidence, method))))
    )


def _held_against(evidence: Evidence, method: str) -> range:
    """The rounds that data are held against: all of them, or the last, of which those of the consistency step are."""
    n = len(evidence.rounds)
    return range(max(n - 1, 0) if method == "consistency" else 0, n)


def _own_misfits(evidence: Evidence, clusters: Clusters, numbers: Sequence[int]) -> list[Misfit]:
    rounds = evidence.rounds
    own = ((t, expected_answer(rounds[t], clusters.points, clusters.weights)) for t in numbers)
    return _misfits(evidence, clusters, own)


def _misfits(evidence: Evidence, clusters: Clusters, answers: Iterable[tuple[int, Array]]) -> list[Misfit]:
    return [m for t, answer in answers for m in misfits_of(evidence.context, t, evidence.rounds[t], answer, clusters)]


def warn_of(verdict: Verdict, *, stacklevel: int) -> None:
    """Warn where a verdict is doubtful; the level is that of the line that asked for the result, as seen from here."""
    if not verdict.good:
        warnings.warn(f"{verdict.sentence} {verdict.rests_on}", DoubtfulResult, stacklevel=stacklevel)


class _Place(NamedTuple):
    """What the parts of the data are called, before and after their number."""

    before: str
    after: str

    def name(self, numbers: Sequence[int]) -> str:
        return f"{self.before}{'s' * (len(numbers) > 1)} {_listed(numbers)}{self.after}"


def _has_sums(answered: Round) -> bool:
    return as_cells(answered.query, "absolute", "relative") is not None


def _deciding(evidence: Evidence) -> set[int]:
    """The last round with sums of each release, which was asked where its clusters are; without sums, all rounds."""
    found, start = set(), 0
    for part in evidence.parts:
        numbers = range(start, start + len(part.rounds))
        start += len(part.rounds)
        with_sums = [t for t, answered in zip(numbers, part.rounds, strict=True) if _has_sums(answered)]
        found |= set(with_sums[-1:] or numbers)
    return found


def _certain(misfits: Sequence[Misfit]) -> list[Misfit]:
    """Those that noise alone would leave less often than the false-alarm rate, in all of these tests together."""
    rare = np.log(_FALSE_ALARM / max(len(misfits), 1))
    return [misfit for misfit in misfits if misfit.log_chance < rare]


def _could_be_none(records: Records | None) -> bool:
    return records is not None and records.could_be_none


def _about_records(evidence: Evidence) -> Iterator[Reason]:
    found, declared = records_of(evidence.context, evidence.rounds), evidence.context.n_records
    if found is None:
        return
    numbers = {"estimate": found.estimate, "deviation": found.deviation}
    if found.could_be_none:
        sentence = (
            "the released counts cannot be told from those of an empty table: the file may be empty, a column text, or "
            "every record incomplete; or epsilon is too small"
        )
        yield Reason(kind="records", sentence=sentence, numbers=numbers)
        return
    if declared is None or abs(found.estimate - declared) < _DEVIATIONS * found.deviation:
        return
    if max(found.estimate / declared, declared / found.estimate) > _FACTOR:
        sentence = f"it {found.sentence}, and {declared:,} were declared"
        yield Reason(kind="declared", sentence=sentence, numbers=numbers | {"declared": float(declared)})


def _about_clusters(
    transcripts: Transcript | Sequence[Transcript], centers: Array | None, inferred: InferredDataset
) -> Iterator[Reason]:
    noise = doubtful(transcripts, centers, inferred)
    if noise:
        sentence = f"{_Place('cluster', '').name(noise)} may be nothing but noise"
        yield Reason(kind="clusters", sentence=sentence, clusters=tuple(noise))
    shared = never_counted(transcripts, centers, inferred)
    if shared:
        sentence = f"no round counted {_Place('cluster', '').name(shared)} apart from others: there may be fewer"
        yield Reason(kind="apart", sentence=sentence, clusters=tuple(shared))


def _reasons(domain: Domain, place: _Place, misfits: Sequence[Misfit]) -> list[Reason]:
    """One reason for each column, cluster or block, told by where it is worst; the worst first."""
    by_subject: dict[tuple[object, ...], list[Misfit]] = {}
    for misfit in sorted(misfits, key=lambda m: -m.importance):
        own = {"column": misfit.column, "size": misfit.cluster, "round": (misfit.round, misfit.block)}[misfit.kind]
        by_subject.setdefault((misfit.kind, own), []).append(misfit)
    return [_reason(domain, place, found) for found in by_subject.values()]


def _reason(domain: Domain, place: _Place, misfits: Sequence[Misfit]) -> Reason:
    worst = misfits[0]
    numbers = {
        "round": float(worst.round + 1),
        "measured": worst.measured,
        "inferred": worst.inferred,
        "log10_chance": worst.log_chance / float(np.log(10.0)),
        "importance": worst.importance,
    }
    clusters = tuple(sorted({misfit.cluster for misfit in misfits if misfit.cluster is not None}))
    if worst.kind == "round":
        sentence = (
            f"round {worst.round + 1}: {worst.measured:.0%} of the answer ({worst.block}) is neither noise nor "
            "explained by the inferred data"
        )
        return Reason(kind="round", sentence=sentence, numbers=numbers)
    if worst.kind == "size":
        sentence = (
            f"{place.name(clusters)}: about {_figure(max(worst.measured, 0.0))} records were counted, the inferred "
            f"data have {_figure(worst.inferred)}"
        )
        return Reason(kind="size", sentence=sentence, clusters=clusters, numbers=numbers)
    assert worst.column is not None
    measured, inferred = (_in_units(domain, worst.column, value) for value in (worst.measured, worst.inferred))
    where = "" if worst.cluster is None else f" in {place.name([worst.cluster])}"
    others = [k for k in clusters if k != worst.cluster]
    also = f", and are off in {place.name(others)} too" if others else ""
    return Reason(
        kind="column",
        sentence=(
            f"{column_names(domain)[worst.column]}: the rounds measured {_figure(measured)}{where}, the inferred data "
            f"say {_figure(inferred)}{also}"
        ),
        columns=_ids(domain, [worst.column]),
        clusters=clusters,
        numbers=numbers | {"measured": measured, "inferred": inferred},
    )


def _notes(domain: Domain, misfits: Sequence[Misfit]) -> Iterator[Reason]:
    """One note for each round: what differs by more than noise and does not decide."""
    for t, found, about in _by_round(domain, misfits):
        small = max(misfit.importance for misfit in found) < 1.0
        why = "by too little to matter" if small else "and a later round was asked where the clusters are"
        sentence = f"round {t + 1}, {about}: measured and inferred values differ by more than noise, {why}"
        yield _note(domain, found[0].kind, t, found, sentence)


def _surprises(domain: Domain, misfits: Sequence[Misfit]) -> Iterator[Reason]:
    for t, found, about in _by_round(domain, misfits):
        sentence = f"round {t + 1} was not foreseen by the rounds before it in {about}"
        yield _note(domain, "prediction", t, found, sentence)


def _by_round(domain: Domain, misfits: Sequence[Misfit]) -> Iterator[tuple[int, list[Misfit], str]]:
    """The misfits of each round, and what they are about, in words."""
    for t in sorted({misfit.round for misfit in misfits}):
        found = [misfit for misfit in misfits if misfit.round == t]
        about = [column_names(domain)[j] for j in _columns(found)]
        about += sorted({f"{misfit.block}s" for misfit in found if misfit.column is None})
        yield t, found, _listed(about)


def _note(domain: Domain, kind: Kind, t: int, found: Sequence[Misfit], sentence: str) -> Reason:
    return Reason(
        kind=kind,
        sentence=sentence,
        columns=_ids(domain, _columns(found)),
        clusters=tuple(sorted({misfit.cluster for misfit in found if misfit.cluster is not None})),
        numbers={"round": float(t + 1), "importance": max(misfit.importance for misfit in found)},
    )


def _columns(misfits: Sequence[Misfit]) -> list[int]:
    return sorted({misfit.column for misfit in misfits if misfit.column is not None})


def _ids(domain: Domain, columns: Sequence[int]) -> tuple[str | int, ...]:
    return tuple(j if domain.columns is None else domain.columns[j] for j in columns)


def _in_units(domain: Domain, column: int, value: float) -> float:
    low, high = domain.low[column], domain.high[column]
    return float(np.clip(low + 0.5 * (value + 1.0) * (high - low), low, high))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def _listed(names: Sequence[object]) -> str:
    """Names in words, not more than a reader wants.

    >>> _listed([1, 2, 3])
    '1, 2 and 3'
    """
    shown = [str(name) for name in names]
    if len(shown) > _MOST_NAMED:
        shown[_MOST_NAMED - 1 :] = [f"{len(shown) - _MOST_NAMED + 1} more"]
    *others, last = shown
    return f"{', '.join(others)} and {last}" if others else last
