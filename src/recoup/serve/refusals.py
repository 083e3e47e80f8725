"""What a served curator says when it refuses: a status, a type and a sentence, none of which depends on records.

Before records are read, a refusal may say what is wrong with the request. Whatever goes wrong afterwards is one and the
same refusal, whose words are fixed.
"""

from __future__ import annotations

import json
from typing import Any, Final

from recoup.errors import (
    BudgetExceededError,
    ContinuationError,
    DataError,
    FileInUseError,
    LedgerError,
    ParameterError,
    TranscriptFormatError,
)

_UNAVAILABLE: Final = (
    "The curator cannot answer now. If anything was charged, the same request with the same key is answered under the "
    "same charge: try it again later."
)


class Refusal(Exception):
    """A refusal as it is sent: `status` of HTTP, `kind` of error, a message, and perhaps more public numbers."""

    def __init__(self, status: int, kind: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.more = status, kind, message, more

    def body(self) -> bytes:
        """Its JSON."""
        return encoded({"error": {"type": self.kind, "message": self.message, **self.more}})


class StateError(Exception):
    """The state folder cannot be read or written."""


def encoded(value: Any) -> bytes:
    """JSON as it is sent."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def malformed(message: str) -> Refusal:
    """A request that cannot be read."""
    return Refusal(400, "MalformedRequestError", message)


def unauthorized() -> Refusal:
    """No token, an unknown one, a revoked one, or one of another kind: all alike."""
    return Refusal(401, "UnauthorizedError", "This needs a token that is known here: Authorization: Bearer TOKEN.")


def unknown_run() -> Refusal:
    """A run that is not there, or another token's: both alike."""
    return Refusal(404, "UnknownRunError", "This token has no such run.")


def other_body() -> Refusal:
    """A key that was used before, for something else."""
    return Refusal(409, "IdempotencyError", "This key was used with another request: choose a key for each request.")


def too_large(what: str) -> Refusal:
    """More than is taken here."""
    return Refusal(413, "RequestTooLargeError", f"{what}: ask for less.")


def too_many(message: str) -> Refusal:
    """Too much at once."""
    return Refusal(429, "TooManyRequestsError", message)


def unavailable() -> Refusal:
    """A source, ledger or disk that fails, and everything that goes wrong after records were read."""
    return Refusal(503, "CuratorUnavailableError", _UNAVAILABLE)


def internal() -> Refusal:
    """A bug; its own words may hold anything, so they stay here."""
    return Refusal(500, "InternalError", "The curator failed for a reason that it does not tell.")


def exceeded(error: BudgetExceededError, where: str) -> Refusal:
    """Too little is left of a budget, which is named without its file."""
    named = BudgetExceededError(spent=error.spent, asked=error.asked, left=error.left, where=where)
    numbers = {name: str(getattr(error, name)) for name in ("spent", "asked", "left")}
    return Refusal(402, "BudgetExceededError", str(named), **numbers)


def refusal_of(error: Exception) -> Refusal:
    """What to send for an error that was raised before records were read."""
    match error:
        case Refusal():
            return error
        case BudgetExceededError():
            return exceeded(error, "The table's budget")
        case ContinuationError():
            return Refusal(409, "ContinuationError", "This run cannot be continued here: begin a new one.")
        case LedgerError() | DataError() | StateError() | FileInUseError() | OSError() | MemoryError():
            return unavailable()  # their messages name files of the curator's machine
        case ParameterError() | TranscriptFormatError():
            return Refusal(400, type(error).__name__, str(error))
    return internal()
