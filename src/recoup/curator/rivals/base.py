"""What a rival is, what it may spend, and how one is run.

A rival is on the curator's side of the wall: it may look at records as it likes, but whatever it lets out passes
through noise that is charged before it is drawn. What leaves is a model and a privacy statement.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from recoup._random import drawn_key, entropy_of, stream
from recoup.curator.source import TableSource, source_on_terms
from recoup.domain import Domain
from recoup.errors import Argument, BudgetError, BudgetExceededError, ParameterError
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.privacy.ledger_releases import said_line
from recoup.privacy.mechanism import Calibration, Laplace, NoisyMax, SecureNoise, SimulatedNoise, checked_noise
from recoup.privacy.price import as_fraction, rounded_up
from recoup.privacy.statement import NOT_PRIVATE, PerPerson, PrivacyStatement
from recoup.queries.base import Array, Records
from recoup.schema import Schema
from recoup.transcript.context import Context
from recoup.transcript.transcript import NO_LEDGER, Payment, Transcript

# Of the budget, for a noisy number of records where none is declared: as much as the adaptive algorithm gives it.
NUMBER_SHARE = Fraction(2, 100)


class Rival(Protocol):
    """A private algorithm that holds records and releases only centres."""

    type_name: ClassVar[str]

    @property
    def n_clusters(self) -> int:
        """How many centres it releases."""

    def centers(self, source: TableSource, noise: ChargedNoise, rng: np.random.Generator) -> Array:
        """The centres, (n_clusters, d), in the unit domain; all that they reveal of records went through the noise."""


class Model(NamedTuple):
    """What a rival releases: centres in the user's units, and what was promised."""

    centers: Array
    privacy: PrivacyStatement


class ChargedNoise:
    """The only place in which a rival's records meet noise: each release is charged, then drawn.

    Guarantees: all releases together cost at most the context's epsilon, of which `spent` was charged; their number,
    sizes and prices do not depend on records.
    """

    def __init__(
        self,
        context: Context,
        *,
        ledger: Ledger | None = None,
        run: str = "",
        name: str = "rival",
        noise: SecureNoise | SimulatedNoise | None = None,
        on_release: Callable[[int], None] | None = None,
    ) -> None:
        self.context = context
        self._ledger, self._run, self._name, self._on_release = ledger, run, name, on_release
        self._noise = SecureNoise() if noise is None else noise
        self._simulated = self._noise.simulated
        self._share, self.spent, self._n_releases = Fraction(0), Fraction(0), 0
        self._mechanisms: list[str] = []

    @property
    def left(self) -> Fraction:
        """The share of the budget that is not spent."""
        return 1 - self._share

    def noisy_totals(self, totals: Sequence[int], *, share: Fraction, purpose: str) -> list[int]:
        """Add Laplace noise to every total; one record moves all together by at most the context's sensitivity."""
        mechanism, calibration = Laplace(), self.context.calibrated(share)
        self._charge(calibration, share, purpose, mechanism.name)
        noisy = mechanism.release(totals, calibration.scale, self._noise)
        self._finished()
        return noisy

    def number_of_records(self, source: TableSource) -> float:
        """The number of records: the declared one, or a noisy one for a sliver of the budget."""
        if self.context.n_records is not None:
            return float(self.context.n_records)
        n = sum(int(np.count_nonzero(block[:, 0] != DROPPED)) for block in source.records())
        one = self.context.sensitivity
        return self.noisy_totals([n * one], share=NUMBER_SHARE, purpose="number of records")[0] / one

    def smallest_losses(self, losses: Sequence[int], *, n_winners: int, share: Fraction, purpose: str) -> list[int]:
        """Select candidates, all different, with small losses, to each of which a record adds 0 to the sensitivity."""
        mechanism, calibration = NoisyMax(), self.selection(n_winners, share=share)
        self._charge(calibration, share, purpose, mechanism.name)
        winners = mechanism.release([-int(v) for v in losses], calibration.scale, n_winners, self._noise)
        self._finished()
        return winners

    def selection(self, n_winners: int, *, share: Fraction) -> Calibration:
        """Scale and price of a selection; refuses a share that is too small for its noise, while nothing is spent."""
        context = self.context
        return NoisyMax().calibrate(context.epsilon * share, distance=context.distance, n_winners=n_winners)

    def privacy(self) -> PrivacyStatement:
        """The privacy statement, as a transcript would make it."""
        payment = NO_LEDGER if self._ledger is None else Payment(self._ledger.identifier, self._run)
        statement = Transcript(
            context=self.context, algorithm={"type": self._name}, simulated=self._simulated, payment=payment
        ).privacy
        spent = min(rounded_up(self.spent), statement.epsilon)
        return replace(statement, mechanism=" and ".join(self._mechanisms), spent=spent)

    def _charge(self, calibration: Calibration, share: Fraction, purpose: str, mechanism: str) -> None:
        if share > self.left:
            raise BudgetExceededError(
                spent=self._share, asked=share, left=self.left, where="shares of this release's budget"
            )
        if self._ledger is not None:
            mark = f"{NOT_PRIVATE}; " if self._simulated else ""
            purpose = f"{mark}{self._name}: {purpose}"
            self._ledger.charge(calibration.price, purpose=purpose, run=self._run, unit=self.context.unit)
        self._share += share
        self.spent += calibration.price.amount
        if mechanism not in self._mechanisms:
            self._mechanisms.append(mechanism)

    def _finished(self) -> None:
        self._n_releases += 1
        if self._on_release is not None:
            self._on_release(self._n_releases)


def release_model(
    rival: Rival,
    X: object,
    *,
    domain: Domain | Schema,
    epsilon: Any,
    delta: Any = 0,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    records_per_person: int = 1,
    person: str | None = None,
    per_person: PerPerson | None = None,
    n_records: int | None = None,
    csv_dialect: str = "rfc4180",
    random_state: Any = None,
    noise: Literal["secure", "simulated"] = "secure",
    purpose: str = "",
    on_release: Callable[[int], None] | None = None,
) -> Model:
    """Run a rival on records and return its model.

    Args:
        rival: the algorithm.
        X: the records: an array, a data frame, an Arrow table or stream, a path.
        domain: public bounds, or a schema.
        epsilon: the total budget, read as the decimal that you type.
        delta: must be 0: rivals spend pure epsilon.
        ledger: charged before every noise.
        records_per_person: how many records one person may have; where a column identifies persons, how many are kept.
        person: the column that identifies persons, so that the promise covers all records of a person together.
        per_person: "mean", the default, makes one row of a person's records; "sample" keeps some of them.
        n_records: a public guess of the number of records; without it a small part of the budget counts them.
        csv_dialect: how a CSV file was written, "rfc4180" or "lines".
        random_state: seeds blocks, starts and offspring, which need no protection, and the noise if it is simulated.
        noise: "secure", or "simulated" for experiments.
        purpose: what the release is for, in one line of public text that the ledger keeps.
        on_release: called with the number of finished releases.

    Returns:
        Centres in the user's units, inside the bounds, and the privacy statement.

    Guarantees: all releases together cost at most epsilon. An interrupted run cannot be continued: what it charged is
    spent.

    >>> from recoup.curator.rivals.gupt import Gupt
    >>> from recoup.domain import Box
    >>> x = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> model = release_model(Gupt(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=1)
    >>> model.centers.shape, model.privacy["statement"]
    ((3, 2), 'differentially private')
    """
    if ledger is not None and not isinstance(ledger, Ledger | str | os.PathLike):
        raise ParameterError(f"ledger is a {type(ledger).__name__}: give a recoup.Ledger or its path.")
    check_delta(rival, delta)
    checked_noise(noise)
    said_line(purpose, "purpose")
    domain = Mixed(schema=domain) if isinstance(domain, Schema) else domain
    context = Context(
        domain=domain,
        epsilon=epsilon,
        n_records=n_records,
        records_per_person=records_per_person,
        person=person,
        per_person=per_person,
    )
    entropy = entropy_of(random_state)
    if context.per_person == "sample":
        context = replace(context, sample_key=drawn_key(None if noise == "secure" else entropy))
    source = source_on_terms(X, context, csv_dialect)
    source = readable(rival, source)
    context = replace(context, csv_dialect=source.csv_dialect)
    ledger = Ledger(ledger) if isinstance(ledger, str | os.PathLike) else ledger
    run = uuid.uuid4().hex
    if ledger is not None:
        ledger.expect(context.unit)
        ledger.afford(context.budget, context.unit)
        ledger.begin(run, purpose=purpose)
    rng, protecting = (stream(entropy, i) for i in (0, 1))
    simulated = noise == "simulated"
    charged = ChargedNoise(
        context,
        ledger=ledger,
        run=run,
        name=rival.type_name,
        noise=SimulatedNoise(protecting) if simulated else SecureNoise(),
        on_release=on_release,
    )
    centers = rival.centers(source, charged, rng)
    return Model(domain.from_unit(domain.clip(centers)), charged.privacy())


# ---- what is refused while nothing is spent ----


def check_delta(rival: Rival, delta: Any) -> None:
    """Refuse a delta, of which rivals can make nothing."""
    if as_fraction(delta, "delta", allow_zero=True) > 0:
        unused = f"{rival.type_name} spends pure epsilon and cannot use a delta: leave out "
        raise BudgetError(unused, Argument("delta"), ".")


def readable(rival: Rival, source: object) -> TableSource:
    """A source whose records a rival can read."""
    if not isinstance(source, TableSource):
        raise ParameterError(f"{rival.type_name} reads the records themselves, and this source only answers totals.")
    return source


class _Reached(Exception):
    """A rival came to its first charge."""


class _Trial(ChargedNoise):
    def _charge(self, *_: object) -> None:
        raise _Reached


class _NoRecords(TableSource):
    def __init__(self) -> None:
        pass

    def records(self) -> Iterator[Records]:
        return iter(())


def check_terms(rival: Rival, context: Context) -> None:
    """Refuse what a rival refuses before its first charge: it is run up to there, without records."""
    with suppress(_Reached):
        rival.centers(_NoRecords(), _Trial(context), np.random.default_rng(0))
