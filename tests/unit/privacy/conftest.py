"""A ledger in a file with a name that is hard to quote, and one in memory."""

from pathlib import Path

import pytest
from ledgers import Make

from recoup.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger of müller #1?.db"


@pytest.fixture(params=["file", "memory"])
def make(request: pytest.FixtureRequest, path: Path) -> Make:
    return Ledger.in_memory if request.param == "memory" else lambda **budget: Ledger.create(path, **budget)
