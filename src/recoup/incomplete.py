"""How many records a fit leaves out, as a priced count: an exact one, or a warning, would tell of records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import laplace, norm

from recoup.algorithms.incomplete import CountIncomplete
from recoup.curator.tables.open import open_table
from recoup.domain import declared_bounds
from recoup.driver import release
from recoup.errors import ParameterError, TranscriptError
from recoup.mixed import Completeness
from recoup.privacy.ledger import Ledger
from recoup.privacy.statement import PrivacyStatement
from recoup.schema import Number, Schema
from recoup.transcript.transcript import Transcript


@dataclass(frozen=True, slots=True, repr=False)
class IncompleteCount:
    """How many records, or persons, are used and how many are left out, with noise.

    Attributes:
        used: those with every cell that is needed, at least 0.
        left_out: those without, at least 0; of persons, those who have no record with every cell.
        error: the largest error of either number, with a chance of 90%.
        transcript: all that was released.
    """

    used: float
    left_out: float
    error: float
    transcript: Transcript

    def __repr__(self) -> str:
        mark = f", {self.transcript.statement}" if self.transcript.simulated else ""
        return f"IncompleteCount(used={self.used:.6g}, left_out={self.left_out:.6g}, error={self.error:.3g}{mark})"

    @property
    def share(self) -> float:
        """The part that is left out, from 0 to 1."""
        total = self.used + self.left_out
        return self.left_out / total if total else 0.0

    @property
    def privacy(self) -> PrivacyStatement:
        """What it cost."""
        return self.transcript.privacy

    @classmethod
    def of(cls, transcript: Transcript) -> Self:
        """Read the counts of a transcript."""
        is_ours = transcript.algorithm.get("type") == CountIncomplete.type_name
        if not (is_ours and isinstance(transcript.context.domain, Completeness) and transcript.rounds):
            raise TranscriptError("this is not a transcript of recoup.count_incomplete.")
        answered = transcript.rounds[-1]
        used, left_out = np.maximum(answered.noisy, 0.0).tolist()
        # Both within it with this chance: each with the root of it.
        law, each = laplace if transcript.context.mechanism == "laplace" else norm, np.sqrt(0.9)
        return cls(used, left_out, float(law.ppf((1 + each) / 2) * answered.scales[0]), transcript)


def count_incomplete(
    data: object,
    bounds: Any,
    epsilon: Any = "0.05",
    delta: Any = 0,
    *,
    person: str | None = None,
    records_per_person: int = 1,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    csv_dialect: str = "rfc4180",
    random_state: Any = None,
    noise: Literal["secure", "simulated"] = "secure",
    path: str | os.PathLike[str] | None = None,
    resume: bool = False,
    purpose: str = "",
) -> IncompleteCount:
    """Count the records that a fit with these bounds leaves out, within a budget of its own.

    Args:
        data: the records, of any kind that `release` takes.
        bounds: those of the fit: a `Schema`, `{column: (low, high)}`, or pairs of numbers for an array.
        epsilon: what may be spent on it.
        delta: 0 for pure epsilon; above 0, Gaussian noise is allowed.
        person: the column that names persons, who are then counted instead of records. A record without a name is in
            neither count.
        records_per_person: how many records one person may hold, where no column names them.
        ledger: charged before the answer.
        csv_dialect: how a CSV file was written, as of `release`.
        random_state: the noise, if it is simulated; nothing else is random.
        noise: "secure", or "simulated" for experiments.
        path: where to save the transcript.
        resume: take up the transcript at `path`, and pay for nothing again.
        purpose: what it is for, in one line of public text that the ledger keeps.

    Returns:
        Both counts, their error, and what they cost.

    Guarantees: a record is left out if a cell is missing, does not parse or holds an undeclared value, and the bounds
    do not say what stands for it; so exactly the records that contribute nothing to a fit. Both numbers are noisy.

    >>> table = np.where(np.arange(20_000).reshape(-1, 2) % 10 == 3, np.nan, 0.5)
    >>> counted = count_incomplete(table, (0, 1), epsilon=1, random_state=0, noise="simulated")
    >>> round(counted.share, 2)
    0.2
    """
    if not isinstance(bounds, Mapping):
        if person is not None:
            raise ParameterError("where a column names persons, bounds name the others: give a Schema.")
        data = table = open_table(data, csv_dialect=csv_dialect)
        low, high, _ = declared_bounds(bounds, table.n_columns)
        names = table.columns or [f"x{j}" for j in range(table.n_columns)]
        bounds = {name: Number(*pair) for name, *pair in zip(names, low, high, strict=True)}
    schema = bounds if isinstance(bounds, Schema) else Schema(bounds)
    transcript = release(
        CountIncomplete(),
        data,
        domain=Completeness(schema=schema),
        epsilon=epsilon,
        delta=delta,
        person=person,
        records_per_person=records_per_person if person is None else 1,
        ledger=ledger,
        csv_dialect=csv_dialect,
        random_state=random_state,
        noise=noise,
        path=path,
        resume=resume,
        purpose=purpose,
    )
    return IncompleteCount.of(transcript)
