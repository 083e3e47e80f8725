"""Typed errors that carry their numbers as attributes and say what to do next.

No message here may be built from a record, a count of records, or anything else that was not released.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

_LONGEST = 2_000  # characters of a message: what it quotes may come from a file of any size


class Argument(NamedTuple):
    """A parameter that a message names, perhaps with its value in Python; the command line shows the option instead."""

    name: str
    value: str | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


class Call(NamedTuple):
    """A call that a message advises, and the command that does the same."""

    python: str
    command: str

    def __str__(self) -> str:
        return self.python


class RecoupError(Exception):
    """Base class of every error that Recoup raises on purpose.

    The `parts` of its message are text, arguments and calls, which Python and the command line spell differently.
    """

    def __init__(self, *parts: object) -> None:
        self.parts = parts
        super().__init__("".join(map(str, parts)))

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, spelled: Callable[[object], str]) -> str:
        """The message with its parts spelled so; a long one without its middle, as what to do stands at the end."""
        text = "".join(map(spelled, self.parts))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 500]} [...] {text[-400:]}"


class ParameterError(RecoupError, ValueError):
    """A parameter is outside what is allowed: `parameter`, by default the first argument that the message names."""

    def __init__(self, *parts: object, parameter: str | None = None) -> None:
        named = (part.name for part in parts if isinstance(part, Argument))
        self.parameter = next(named, None) if parameter is None else parameter
        super().__init__(*parts)


class BoundsError(ParameterError):
    """The declared bounds are missing or unusable."""


class MissingBoundsError(BoundsError):
    """No bounds were declared; without public bounds there is no privacy."""


class BudgetError(ParameterError):
    """A privacy budget is not a number that can be spent."""


class BudgetExceededError(RecoupError):
    """A charge would spend more than the ledger or the release allows: what was `spent`, `asked` for, and is `left`."""

    def __init__(self, *, spent: Fraction, asked: Fraction, left: Fraction, where: str) -> None:
        self.spent, self.asked, self.left = spent, asked, left
        super().__init__(
            f"{where}: asked for {float(asked):.6g}, but {float(left):.6g} is left ({float(spent):.6g} is spent). "
            "Nothing was charged and nothing was released. Ask for less, or use another budget."
        )


class LedgerError(RecoupError):
    """The ledger's file cannot be used."""


class LedgerFormatError(LedgerError):
    """The file is not a Recoup ledger, or is one of a newer version."""


class LedgerLockedError(LedgerError):
    """Another process holds the ledger for longer than we are willing to wait."""


class LedgerUnitError(LedgerError):
    """A ledger counts for another unit than the release, or has none."""


class ContinuationError(LedgerError):
    """A run may not be continued with this ledger, or without one: not all of it would be paid for."""


class TranscriptError(RecoupError):
    """A transcript cannot be used."""


class TranscriptFormatError(TranscriptError, ValueError):
    """The file is not a well-formed Recoup transcript."""


class TranscriptVersionError(TranscriptFormatError):
    """The transcript was written by a newer version of Recoup."""


class ModelFormatError(TranscriptFormatError):
    """The file is not a model that Recoup saved, or one of another kind."""


class FileInUseError(RecoupError):
    """Another process is writing the same file."""


class DataError(RecoupError, ValueError):
    """The table cannot be read as declared; the message says nothing about its records."""


class UnknownColumnError(DataError, KeyError):
    """A declared column is not in the table."""


class ColumnTypeError(DataError, TypeError):
    """A column's declared type is not numeric."""


class UnreadableFileError(DataError, OSError):
    """A file cannot be opened or decoded."""


class SparkError(DataError):
    """A Spark job failed or Spark cannot be used; raised before its round is charged."""


class DatabaseError(DataError):
    """A database cannot be reached, or its table cannot be read; raised before its round is charged."""


class IsolationError(RecoupError):
    """An algorithm that is not Recoup's cannot run in a process of its own, or failed there; nothing was charged."""


class RemoteError(RecoupError):
    """A served curator refuses, or sends what cannot be used."""


class UnauthorizedError(RemoteError):
    """A served curator does not know the token."""


class CuratorUnavailableError(RemoteError):
    """A served curator cannot be reached, or cannot answer now: what it charged for is answered later, by resuming."""


class ContractViolation(RecoupError, AssertionError):
    """A query or an algorithm of your own breaks its contract; `report` (`recoup.testing.Report`) has all checks."""

    def __init__(self, report: object) -> None:
        self.report = report
        super().__init__(str(report))

    def __str__(self) -> str:
        return str(self.args[0])


class PostprocessDeclined(UserWarning):
    """What was released is too weak to infer a data set from; the algorithm's own answer was kept."""


class DoubtfulResult(UserWarning):
    """The released answers contradict a result, or rest on no more records than noise would explain."""


class CostlyTerms(UserWarning):
    """Other public terms would give a far better answer; the warning comes before anything is spent."""


class UnitConverted(UserWarning):
    """A release is for fewer records of a person than its ledger counts: its prices are counted several times."""
