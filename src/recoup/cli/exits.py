"""The codes that commands end with: one for each kind of trouble that a script may want to tell apart."""

from __future__ import annotations

import errno
from enum import IntEnum

from recoup.errors import (
    BudgetExceededError,
    DataError,
    FileInUseError,
    LedgerError,
    ParameterError,
    RecoupError,
    TranscriptError,
)

# Neither the user nor the file is wrong.
_REFUSALS = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENAMETOOLONG)
)


class RefusedBySystemError(RecoupError):
    """The system does not let a command write where it was told to."""


class ExitCode(IntEnum):
    """What a command ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    BUDGET = 3
    DATA = 4
    LEDGER = 5
    TRANSCRIPT = 6
    SYSTEM = 7
    INTERRUPTED = 130


# In the words of `recoup --help`; docs/commandline.md says more.
MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "internal error or failed runs",
    ExitCode.USAGE: "wrong usage",
    ExitCode.BUDGET: "budget too small",
    ExitCode.DATA: "unusable data",
    ExitCode.LEDGER: "unusable ledger",
    ExitCode.TRANSCRIPT: "unusable transcript",
    ExitCode.SYSTEM: "refused by the system",
    ExitCode.INTERRUPTED: "interrupted",
}


def code_of(error: RecoupError) -> ExitCode:
    """The code for an error that Recoup raised on purpose.

    >>> code_of(LedgerError("no ledger")).name
    'LEDGER'
    """
    match error:
        case RefusedBySystemError():
            return ExitCode.SYSTEM
        case ParameterError() | LedgerError() if getattr(error.__context__, "errno", None) in _REFUSALS:
            return ExitCode.SYSTEM
        case BudgetExceededError():
            return ExitCode.BUDGET
        case DataError():
            return ExitCode.DATA
        case LedgerError():
            return ExitCode.LEDGER
        case TranscriptError() | FileInUseError():
            return ExitCode.TRANSCRIPT
        case _:
            return ExitCode.USAGE
