"""The same terms by every way in: estimators and commands must hand on what they were asked for, to the noise itself.

None of the terms is its default. What reaches the samplers is priced here for neighbours of three records, the
transcript is compared with what was drawn, and the privacy statement with the terms.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from recoup.domain import Domain, L1Ball, L2Ball
from recoup.errors import DoubtfulResult, PostprocessDeclined
from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.files import BOUNDS, NAMES, called, csv_of
from recoup_lab.audit.attacks.sampler import Heard, listening
from recoup_lab.audit.attacks.subjects import BOX, Released, Terms, ordinary_table
from recoup_lab.audit.findings import Finding

ATTACK: Final = "terms by every way in"
_PERSON: Final = 3
_EPSILON: Final = Fraction(3, 4)
_N: Final = 500
_MODELS: Final[Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]]] = {
    "PrivateKMeans": (PrivateKMeans, {"n_clusters": 2}),
    "PrivateKMeans, lloyd": (PrivateKMeans, {"n_clusters": 2, "algorithm": "lloyd", "n_rounds": 2}),
    "PrivateKMeans, grid": (PrivateKMeans, {"n_clusters": 2, "algorithm": "grid"}),
    "PrivateKMeans, hybrid": (PrivateKMeans, {"n_clusters": 2, "algorithm": "hybrid"}),
    "PrivateGaussianMixture": (PrivateGaussianMixture, {"n_components": 2, "n_rounds": 2}),
    "PrivateLogisticRegression": (PrivateLogisticRegression, {"n_rounds": 2}),
    "PrivatePCA": (PrivatePCA, {"n_components": 1}),
}
Judge = Callable[[Released, Heard, Terms, Fraction], list[str]]


def attack_doors(effort: Effort, group: str, judge: Judge) -> Iterator[Finding]:
    """Release by every estimator and command, with terms that are not the defaults.

    `judge` goes from what was released and heard, the terms, and the part of the claim that was spent, to problems.
    """
    table = ordinary_table(BOX, 40, effort.rng(11))
    for mechanism in ("laplace", "gaussian"):
        terms = Terms(mechanism=mechanism, epsilon=_EPSILON, records_per_person=_PERSON, n_records=_N)
        for name, (kind, more) in _MODELS.items():
            # By default k-means uses Laplace noise in so few columns, whatever delta allows.
            law = {"algorithm": "lloyd"} if kind is PrivateKMeans and mechanism == "gaussian" else {}
            yield _through(group, name, terms, judge, _fit(kind, {**more, **law}, table, terms))
        # Commands may declare a ball, too: their bounds are read from text.
        ball = L1Ball if mechanism == "laplace" else L2Ball
        shaped = Terms(
            mechanism=mechanism,
            domain=ball(BOX.low, BOX.high, columns=NAMES),
            epsilon=_EPSILON,
            records_per_person=_PERSON,
            n_records=_N,
        )
        for command in ("release", "cluster"):
            yield _through(group, f"recoup {command}", shaped, judge, _call(command, table, shaped))


def _through(group: str, name: str, terms: Terms, judge: Judge, work: Callable[[Path, Ledger], Transcript]) -> Finding:
    distance = terms.context.sensitivity * terms.records_per_person
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        ledger = Ledger.create(Path(folder) / "ledger.db", epsilon=4, delta=terms.delta)
        # Of so few records with so much noise, inference is declined, with a warning.
        with listening() as heard, warnings.catch_warnings():
            warnings.simplefilter("ignore", PostprocessDeclined)
            warnings.simplefilter("ignore", DoubtfulResult)
            transcript = work(Path(folder), ledger)
        charged = sum((entry.amount for entry in ledger.entries()), Fraction(0))
    spent = sum((draw.price(distance) for draw in heard.draws), Fraction(0))
    problems = judge(Released(transcript, None, transcript.privacy), heard, terms, spent / terms.claimed)
    if charged < spent * (1 - Fraction(1, 10**9)):
        problems.append("the ledger was charged less than was drawn")
    if transcript.context.n_records != terms.n_records:
        problems.append(f"the transcript has n_records {transcript.context.n_records}, and not {terms.n_records}")
    if not _covers(transcript.context.domain, terms.domain):
        problems.append("the transcript has other bounds")
    return Finding(
        group=group,
        attack=ATTACK,
        target=f"{name}, {terms.mechanism}",
        tries=len(heard.draws),
        result="; ".join(problems) or "as asked for, to the noise",
        passed=not problems,
    )


def _covers(found: Domain, asked: Domain) -> bool:
    """The same bounds; a column of labels may follow."""
    d = asked.n_columns
    same_kind = found.n_columns > d or found.kind == asked.kind
    return same_kind and found.low[:d] == asked.low and found.high[:d] == asked.high


def _fit(
    kind: Callable[..., Any], more: Mapping[str, Any], table: Array, terms: Terms
) -> Callable[[Path, Ledger], Transcript]:
    def work(folder: Path, ledger: Ledger) -> Transcript:
        model = kind(
            epsilon=terms.epsilon,
            delta=terms.delta,
            bounds=(list(BOX.low), list(BOX.high)),
            n_records=terms.n_records,
            records_per_person=terms.records_per_person,
            ledger=ledger,
            random_state=0,
            **more,
        )
        model.fit(table, np.arange(len(table)) % 2)
        found: Transcript = model.transcript_
        return found

    return work


def _call(command: str, table: Array, terms: Terms) -> Callable[[Path, Ledger], Transcript]:
    def work(folder: Path, ledger: Ledger) -> Transcript:
        (folder / "table.csv").write_bytes(csv_of(table, {}))
        output = folder / ("t.json" if command == "release" else "out")
        words = [command, str(folder / "table.csv"), "-k", "2", "--epsilon", str(float(terms.epsilon))]
        words += ["--bounds", BOUNDS, "--delta", str(float(terms.delta)), "--domain", terms.domain.kind]
        words += ["--n-records", str(terms.n_records), "--records-per-person", str(terms.records_per_person)]
        words += ["--algorithm", "adaptive" if terms.mechanism == "laplace" else "lloyd"]
        words += ["--ledger", str(folder / "ledger.db"), "--seed", "0", "-o", str(output)]
        called(words)
        return Transcript.load(output if command == "release" else output / "transcript.json")

    return work
