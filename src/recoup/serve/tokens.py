"""Tokens: 256 random bits that are shown once; only their hashes are kept.

Whoever reads the state folder can use none of them. A hash without a salt is enough: nobody can guess 256 bits.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal, NamedTuple

Kind = Literal["analyst", "operator"]
_START: Final = "recoup_"


class Token(NamedTuple):
    """What is kept of a token.

    Attributes:
        name: public; the ledger and the operator's page name it.
        kind: an analyst's, with a budget of its own, or an operator's, which sees the operator's page and asks nothing.
        epsilon: of that budget; 0 of an operator.
        revoked: whether it is refused from now on.
        day: on which it was made.
    """

    id: int
    name: str
    digest: str
    kind: Kind
    epsilon: Fraction
    delta: Fraction
    revoked: bool
    day: str


def drawn() -> str:
    """A new token.

    >>> len(drawn()) > 40
    True
    """
    return _START + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def found(tokens: Sequence[Token], given: str, kind: Kind) -> Token | None:
    """The token of this kind that was given and is not revoked; the work does not depend on which one, or on none."""
    digest, result = digest_of(given), None
    for token in tokens:
        same = hmac.compare_digest(token.digest, digest)
        result = token if same and token.kind == kind and not token.revoked else result
    return result
