"""How a command ends that fails: one line in the command line's own words, and a code for each kind of trouble.

The library's errors speak Python. A message that is not known stays as it is, which is no harm. Names in quotes and
parts of paths are left alone: they are the user's own.
"""

from __future__ import annotations

import errno
import re
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
    """The code for an error that Recoup raised on purpose."""
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


# Parameters whose option is not simply their name with dashes.
_RENAMED = {"n_chains": "--chains", "n_clusters": "--clusters", "n_rounds": "--rounds", "n_steps": "--steps"}
_RENAMED |= {"random_state": "--seed"}
_PARAMETERS = (
    *("algorithm", "correction", "csv_dialect", "delta", "domain", "epsilon", "method", "n_records", "postprocess"),
    *("proposal_variance", "records_per_person", "resume", "target_scale", *_RENAMED),
)
_FREE = r"(?<![\w/'\"=.-])"
_VALUE = r"(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[\w+-]+(?:\.\w+)*))(?![\w/])"
_ASSIGNED = re.compile(rf"{_FREE}(?P<leave>leave )?(?P<name>{'|'.join(_PARAMETERS)})={_VALUE}(?: \(--[a-z-]+\))?")
# Only names that are no word of English.
_NAMED = re.compile(rf"{_FREE}(?P<name>{'|'.join(n for n in _PARAMETERS if '_' in n)})(?![\w/'\"=])(?: \(--[a-z-]+\))?")
_CREATE = re.compile(r"Ledger\.create(?:\((?P<arguments>[^()]*)\))?")
_CALLS = {
    "Open it with Ledger(path)": "Look at it with recoup ledger show",
    ", or give a longer timeout": "",
    ", a Generator, or None": "",
    "Ledger(path).declare(records_per_person=1)": "recoup ledger declare PATH --records-per-person 1",
}


def in_words_of_commands(message: str) -> str:
    """Say with options and commands what an error says with parameters and calls."""
    for python, command in _CALLS.items():
        message = message.replace(python, command)
    message = _ASSIGNED.sub(_assigned, _CREATE.sub(_create, message))
    return _NAMED.sub(lambda match: _option(match["name"]), message)


def _option(parameter: str) -> str:
    return _RENAMED.get(parameter, f"--{parameter.replace('_', '-')}")


def _assigned(match: re.Match[str]) -> str:
    option = _option(match["name"])
    if match["leave"]:
        return f"leave out {option}"
    value = next(text for text in (match["single"], match["double"], match["bare"]) if text is not None)
    return option if value == "True" else f"{option} {value}"


def _create(match: re.Match[str]) -> str:
    words = ["recoup ledger create"]
    for argument in (match["arguments"] or "").split(","):
        name, equals, value = argument.strip().partition("=")
        words.append(f"{_option(name)} {value}" if equals else name.strip("\"'"))
    return " ".join(word for word in words if word not in ("", "...")).replace(" path ", " PATH ")
