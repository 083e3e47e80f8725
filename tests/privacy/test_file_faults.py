"""Files that fail, before and in the middle of a release: errors without values, and a ledger that tells the truth.

Whatever is wrong with a file from the start is found before the first charge. What breaks on the way loses nothing: the
rounds before it are charged, saved and kept, the failed one is not charged, and the release can be continued.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recoup import Box, KMeans, Ledger, PrivateKMeans, Transcript, release
from recoup._files import checksum_of, exclusive, write_whole
from recoup.errors import ColumnTypeError, DataError, TranscriptFormatError, UnknownColumnError, UnreadableFileError

CANARY = 0.31337424299
BOX, ALGORITHM = Box([0, 0], [1, 1], ["x", "y"]), KMeans(n_clusters=2, n_rounds=4)


def write(path: Path, names: tuple[str, str] = ("x", "y"), kind: pa.DataType | None = None) -> Path:
    rows = np.random.default_rng(0).uniform(size=(50, 2))
    rows[7] = CANARY
    second = pa.array(rows[:, 1])
    table = pa.table({names[0]: rows[:, 0], names[1]: second if kind is None else second.cast(kind)})
    pq.write_table(table, path)
    return path


def damage_page(path: Path) -> None:
    chunk = pq.read_metadata(path).row_group(0).column(1)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + 12] = b"\xff" * 12
    path.write_bytes(content)


def other_type(path: Path) -> None:
    write(path, kind=pa.string())


def other_columns(path: Path) -> None:
    write(path, ("x", "z"))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


FAULTS: dict[str, tuple[Callable[[Path], object], type[DataError], str | None]] = {
    "another schema": (other_type, ColumnTypeError, "'y'"),
    "a column missing": (other_columns, UnknownColumnError, "'y'"),
    "a damaged footer": (cut_short, UnreadableFileError, None),
    "a damaged page": (damage_page, UnreadableFileError, "'y'"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for i in range(3):
        write(tmp_path / "in" / f"part-{i}.parquet")
    return tmp_path / "in"


def no_value_in(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error, chain=True))
    assert str(CANARY) not in shown
    assert repr(float(np.float32(CANARY))) not in shown


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_is_there_from_the_start_costs_nothing(fault: str, folder: Path, tmp_path: Path) -> None:
    break_it, kind, column = FAULTS[fault]
    bad = folder / "part-1.parquet"
    break_it(bad)
    ledger, path = Ledger.create(tmp_path / "l.db", epsilon=1), tmp_path / "t.json"
    with pytest.raises(kind) as caught:
        release(ALGORITHM, folder, domain=BOX, epsilon=1, ledger=ledger, path=path)
    assert str(bad) in str(caught.value)
    assert column is None or column in str(caught.value)
    no_value_in(caught.value)
    assert ledger.spent == 0
    assert not ledger.entries()
    assert not path.exists() or (Transcript.load(path).rounds, Transcript.load(path).shares_spent) == ((), 0)


@pytest.mark.parametrize("fault", [*FAULTS, "gone"])
@pytest.mark.parametrize("after", [1, 3])
def test_a_fault_on_the_way_keeps_what_was_paid_for(fault: str, after: int, folder: Path, tmp_path: Path) -> None:
    bad = folder / "part-1.parquet"
    whole = bad.read_bytes()
    break_it = Path.unlink if fault == "gone" else FAULTS[fault][0]
    ledger, path = Ledger.create(tmp_path / "l.db", epsilon=1), tmp_path / "t.json"
    terms = {"domain": BOX, "epsilon": 1, "ledger": ledger, "path": path}

    def on_round(n: int) -> None:
        if n == after:
            break_it(bad)

    with pytest.raises(UnreadableFileError) as caught:
        release(ALGORITHM, folder, on_round=on_round, **terms)
    assert str(bad) in str(caught.value)
    no_value_in(caught.value)
    kept = Transcript.load(path)
    assert len(kept.rounds) == len(ledger.entries()) == after
    assert ledger.spent == sum(r.price.amount for r in kept.rounds)
    assert kept.pending is None
    assert kept.shares_spent == Fraction(after, 4)
    # Once the file is back, the release goes on and pays for the missing rounds alone.
    bad.write_bytes(whole)
    done = release(ALGORITHM, folder, resume=True, **terms)
    assert done.to_json()["rounds"][:after] == kept.to_json()["rounds"]
    assert len(done.rounds) == len(ledger.entries()) == 4
    assert not done.lost
    assert ledger.spent <= 1


def test_an_estimator_meets_the_same_fault_before_its_first_charge(folder: Path, tmp_path: Path) -> None:
    damage_page(folder / "part-2.parquet")
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    for bounds, shown in (({"x": (0, 1), "y": (0, 1)}, "'y'"), (([0, 0], [1, 1]), "number 2")):
        with pytest.raises(UnreadableFileError, match=rf"{shown}.*part-2"):
            PrivateKMeans(n_clusters=2, epsilon=1, bounds=bounds, ledger=ledger).fit(folder)
    assert ledger.spent == 0


@pytest.mark.parametrize("cells", ["SECRET,1\n", "1,SECRET\n2,nan\n", "", "0.5,0.5\n" * 40])
def test_a_csv_of_text_in_a_declared_column_is_answered_like_any_other(cells: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + cells)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    done = release(ALGORITHM, tmp_path / "t.csv", domain=BOX, epsilon=1, ledger=ledger)
    assert len(done.rounds) == len(ledger.entries()) == 4
    assert [r.price for r in done.rounds] == [done.rounds[0].price] * 4


def test_a_fault_after_the_totals_would_be_a_lost_round(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The check above can fail: an error of another kind leaves its round announced, and that is what is counted.
    ledger, path = Ledger.create(tmp_path / "l.db", epsilon=1), tmp_path / "t.json"

    def charge_and_die(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Ledger, "charge", charge_and_die)
    with pytest.raises(RuntimeError):
        release(ALGORITHM, folder, domain=BOX, epsilon=1, ledger=ledger, path=path)
    assert Transcript.load(path).pending == Fraction(1, 4)


def test_only_parts_of_the_file_itself_are_removed(tmp_path):
    left, others = (
        tmp_path / ".t.json.abc_1.part",
        [tmp_path / name for name in (".t.json.v2.abc_1.part", ".t.json.part")],
    )
    for path in (left, *others):
        path.touch()
    with exclusive(tmp_path / "t.json"):
        assert not left.exists()
        assert all(path.exists() for path in others)


def test_only_ordinary_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for refused in ("pipe", "."):
        with pytest.raises(OSError, match="ordinary"):
            write_whole(tmp_path / refused, "new")
    assert (tmp_path / "pipe").is_fifo()
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_half_a_character_in_a_transcript_is_refused(tmp_path):
    table, box = pa.table({"a": [0.5]}), Box([0], [1], ("a",))
    saved = release(KMeans(n_clusters=1, n_rounds=1), table, domain=box, epsilon=1)
    body = saved.to_json()
    body["context"]["domain"]["columns"] = ["\ud800"]
    del body["checksum"]
    (tmp_path / "t.json").write_text(json.dumps(body | {"checksum": checksum_of(body)}))
    with pytest.raises(TranscriptFormatError, match="not a text file"):
        Transcript.load(tmp_path / "t.json")
