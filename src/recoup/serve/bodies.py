"""Requests as they are meant: not nested too deeply, each name once, and nothing that JSON does not have."""

from __future__ import annotations

import re
from typing import Any, Final

from recoup._files import TwiceError, checksum_of, strict_value
from recoup.serve.limits import Limits
from recoup.serve.refusals import malformed

# A string that is not closed takes the rest: to look for another one in it would take time quadratic in its length.
_PARTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_body(raw: bytes, limits: Limits, names: frozenset[str]) -> tuple[dict[str, Any], str]:
    """The JSON object of a request, with exactly these names, and its digest."""
    if _depth(raw) > limits.json_depth:
        raise malformed(f"The request nests more than {limits.json_depth} lists and objects in each other.")
    try:
        value = strict_value(raw.decode("utf-8"))
        digest = checksum_of({"request": value})  # which a number that is too large for a float has not
    except TwiceError:
        raise malformed("The request holds a name twice in one object.") from None
    except (ValueError, RecursionError):
        raise malformed("The request is not JSON in UTF-8.") from None
    if not isinstance(value, dict) or set(value) != names:
        raise malformed(f"The request must be a JSON object of {', '.join(sorted(names))}, and nothing else.")
    return value, digest


def read_key(given: str | None) -> str:
    """The key under which a request is answered once."""
    if given is None or not _KEY.fullmatch(given):
        raise malformed("The header Idempotency-Key must be 1 to 64 letters, digits, - or _.")
    return given


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for part in _PARTS.finditer(raw):
        first = part.group()[:1]
        if first in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif first != b'"':
            depth -= 1
    return deepest
