"""A served curator on loopback and an analyst's connection to it, for attacks on what comes through both.

The server is a thread of this process, so that its draws can be heard and held like those of a local release.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import recoup
from recoup.privacy.ledger import Ledger
from recoup.remote.table import RemoteTable
from recoup.serve.running import on_loopback
from recoup.serve.store import Store
from recoup_lab.audit.attacks.subjects import Terms
from recoup_lab.audit.served.setting import TOKENS, application, prepared


@dataclass(frozen=True, slots=True)
class Connection:
    """A served curator: its address, and the folder of its ledger and its state."""

    url: str
    folder: Path

    def table(self, who: str = "ann") -> RemoteTable:
        """The table as an analyst has it."""
        return recoup.connect(self.url, token=TOKENS[who])

    @property
    def ledger(self) -> Ledger:
        """The table's ledger, read anew."""
        return Ledger(self.folder / "ledger.db")

    @property
    def store(self) -> Store:
        """What the server keeps, read anew."""
        return Store(self.folder / "state")


@contextmanager
def connected(data: Any, terms: Terms, *, epsilon: Fraction, own: Fraction | None = None) -> Iterator[Connection]:
    """Serve records on the terms of a release while the block lasts, without delays and limits.

    Args:
        data: the records.
        terms: of the releases to come; the curator fixes bounds and unit.
        epsilon: the budget of the table.
        own: that of each analyst; the table's, if it is not given.
    """
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as top:
        given = epsilon if own is None else own
        folder = prepared(Path(top) / "served", epsilon=epsilon, own=given, delta=terms.delta)
        app = application(folder, data, domain=terms.domain, records_per_person=terms.records_per_person)
        with on_loopback(app) as url:  # type: ignore[arg-type]
            yield Connection(url, folder)
