"""A table that somebody else serves: its public terms, and no records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NoReturn

from recoup._shown import printable
from recoup._validate import LARGEST, positive_number, whole_number
from recoup.domain import Domain
from recoup.errors import Call, ParameterError, RecoupError, RemoteError
from recoup.mixed import domain_from_json
from recoup.privacy.gaussian import Accounting
from recoup.privacy.statement import PerPerson
from recoup.queries.base import Query
from recoup.transcript.context import Context
from recoup.transcript.round import fraction_from_json
from recoup.transcript.wire import effort_of

if TYPE_CHECKING:
    from recoup.remote.client import Client

VARIABLE: Final = "RECOUP_TOKEN"
_LONGEST_NAME: Final = 200
_MOST_SECONDS: Final = 1e6
_MOST_LEFT: Final = 10**200  # which a float holds


def connect(url: str, token: str | None = None, *, timeout: float = 60.0, allow_http: bool = False) -> RemoteTable:
    """Connect to a served curator, whose table then goes wherever a table does, to be fitted or released.

    Args:
        url: of the curator, such as "https://curator.example"; `http://` only on this machine.
        token: the analyst's; by default the environment variable RECOUP_TOKEN.
        timeout: how many seconds to wait for a reply, beyond what the curator says that it takes.
        allow_http: whether to speak to another machine without TLS.

    Returns:
        The table: its public terms, with no records behind them on this machine.

    Guarantees: the token is sent to this address alone, and is in no text, file or pickle. What the curator sends is
    checked as a hostile file would be. Algorithms, also the adaptive default, run on this side.

    >>> connect("http://curator.example", token="t")
    Traceback (most recent call last):
    ...
    recoup.errors.ParameterError: http://curator.example is another machine: anybody on the way could read the token ...
    """
    given = os.environ.get(VARIABLE) if token is None else token
    if not given:
        raise ParameterError("no token: ", Call("give token=, or ", ""), f"set the environment variable {VARIABLE}.")
    from recoup.remote.client import Client  # with what speaks HTTP and TLS, which nothing else needs

    timeout = positive_number(timeout, "timeout")
    return RemoteTable(Client(url, given, timeout=timeout, allow_http=allow_http))


class RemoteTable:
    """A table behind a served curator, by its public terms.

    Attributes:
        url: where it is served.
        name: the public name that its operator gave it.
        domain: the declared bounds of its columns.
        n_records: the operator's public guess of the number of records, or none.
        left: how much of its own epsilon the token had left when it was connected.

    >>> issubclass(RemoteTable, object)
    True
    """

    def __init__(self, client: Client) -> None:
        self.client, self.url = client, client.url
        terms = client.get("/terms", n_waits=2)  # an address that was mistyped is told soon
        if terms.get("format") != "recoup-terms" or terms.get("version") != 1:
            raise RemoteError(f"{self.url} does not serve terms that this Recoup reads: is it a curator?")
        try:
            self._read(terms)
        except RecoupError as error:
            raise RemoteError(f"{self.url} serves terms that cannot be used: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise RemoteError(f"{self.url} serves terms that miss a field, or one has the wrong type.") from None

    def _read(self, terms: Mapping[str, Any]) -> None:
        self.domain: Domain = domain_from_json(terms["domain"])
        self.name = printable(str(terms["table"]))[:_LONGEST_NAME]
        self.records_per_person = whole_number(terms["records_per_person"], "records_per_person", high=LARGEST)
        self.person: str | None = terms["person"]
        self.per_person: PerPerson | None = terms["per_person"]
        self.csv_dialect: str | None = terms["csv_dialect"]
        guess = terms["n_records"]
        self.n_records = None if guess is None else whole_number(guess, "n_records", high=LARGEST)
        self.accounting: Accounting = terms["accounting"]
        self.ledger = str(terms["ledger"])
        self.left: Fraction = fraction_from_json(terms["token"]["left"])
        if self.left > _MOST_LEFT:
            raise ValueError("a budget larger than any")
        seconds = terms["answer_seconds"]
        self._base, self._per_value = float(seconds["base"]), float(seconds["per_value"])
        if not all(0 <= part < _MOST_SECONDS for part in (self._base, self._per_value)):
            raise ValueError("other seconds")
        self.context(epsilon=1)  # which refuses what does not belong together

    def context(self, *, key: str | None = None, **run: Any) -> Context:
        """The terms of a run here, with its own budget, mechanism and guess; the key is of a sample of persons."""
        return Context(
            domain=self.domain,
            records_per_person=self.records_per_person,
            person=self.person,
            per_person=self.per_person,
            csv_dialect=self.csv_dialect,
            accounting=self.accounting,
            sample_key=key,
            **run,
        )

    def seconds(self, query: Query) -> float:
        """How long an answer takes by the curator's public terms; no longer than anybody waits."""
        return min(self._base + self._per_value * effort_of(query), _MOST_SECONDS)

    @property
    def curator(self) -> str:
        """Who pays, in words."""
        return f"{self.name!r} at {self.url}"

    def check_domain(self, domain: Domain, features: Domain | None = None) -> None:
        """Refuse other bounds than the curator's, or than those of its features; columns may go without names."""
        mine, theirs = domain.to_json(), (features or self.domain).to_json()
        if mine.get("columns") is None:
            mine, theirs = ({k: v for k, v in one.items() if k != "columns"} for one in (mine, theirs))
        if mine != theirs:
            raise ParameterError(
                f"the declared bounds are not those of {self.curator}: leave them out, and its own are used "
                "(its `domain` shows them)."
            )

    def __repr__(self) -> str:
        n = self.domain.n_declared
        return f"RemoteTable({self.curator}, {n} column{'' if n == 1 else 's'}, epsilon {float(self.left):g} left)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection holds a token and is not pickled: connect again with recoup.connect.")
