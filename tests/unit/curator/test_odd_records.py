"""Odd records: the outcome differs from a neighbour's in nothing but the row."""

from __future__ import annotations

import decimal
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from table_kinds import NAMED, NAMES, NAN, ROWS, gather, refusal

from recoup.curator.tables import csv_cells
from recoup.curator.tables.open import open_table
from recoup.errors import DataError, UnreadableFileError


def quiet(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], work: Callable[[], Any]) -> Any:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer = work()
    assert not seen
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
    return answer


ODD_CELLS = {
    "SECRET": NAN,
    "": NAN,
    "nan": NAN,
    "inf": NAN,
    "-Infinity": NAN,
    "NULL": NAN,
    "0x10": NAN,
    "1_000": NAN,
    "1e": NAN,
    ".": NAN,
    "--1": NAN,
    "+-1": NAN,
    "1 2": NAN,
    "true": NAN,
    "\0": NAN,
    "\xa0": NAN,
    "\u0663": NAN,
    "1e400": NAN,
    "9" * 400: NAN,
    "1e99999999999999999999": NAN,
    " 12 ": 12.0,
    '"12"': 12.0,
    '" 12 "': 12.0,
    "+12": 12.0,
    "1e5": 1e5,
    "1.5E+2": 150.0,
    "-.5": -0.5,
    "7.": 7.0,
    "1e-400": 0.0,
    "1e308": 1e308,
    "18446744073709551617": 2.0**64,
    "0." + "0" * 400 + "1": 0.0,
}


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: cell[:12].encode("unicode_escape").decode())
def test_an_odd_csv_cell_is_a_number_or_missing(cell: str, tmp_path: Path, caplog: Any, capfd: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,2\n{cell},4\n5,6\n")
    table = quiet(caplog, capfd, lambda: gather(open_table(path, ["a", "b"])))
    np.testing.assert_array_equal(table, [[1, 2], [ODD_CELLS[cell], 4], [5, 6]])


ODD_LINES = {
    "too few": b"SECRET",
    "too few and no text": b"\xff\xfe",
    "too many": b"7,8,SECRET",
    "blank": b"",
    "open quote": b'"SECRET,8',
    "open quote in the last cell": b'7,"SECRET',
    "text after a quote": b'"7"SECRET,8',
    "quote after text, then an open one": b'7"x,"SECRET',
    "lone quote": b'"',
    "three quotes": b'""",8',
    "a line break in quotes": b'7,"SEC\nRET"',
    "a carriage return in quotes": b'7,"SEC\rRET"',
    "quoted delimiters": b'"7,8"',
    "too long": b"7," + b"8" * 500,
    "many lines in quotes": b'7,"' + b"8\n" * 50 + b'"',
    "too long and ragged": b"7," * 500,
}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("chunk", [5, 100, 1 << 20])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_odd_csv_line_leaves_its_neighbours_alone(
    place: int, chunk: int, ending: bytes, tmp_path: Path, caplog: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
    monkeypatch.setattr(csv_cells, "CSV_RECORD_BYTES", 400)
    sound = [b"1,2", b"3,4"]
    for name, odd in ODD_LINES.items():
        lines = [*sound[:place], odd, *sound[place:]]
        path = tmp_path / "t.csv"
        path.write_bytes(ending.join([b"a,b", *lines]))
        rows = quiet(caplog, capfd, lambda path=path: gather(open_table(path, ["a", "b"], csv_dialect="lines")))
        finite = rows[np.isfinite(rows).all(axis=1)]
        np.testing.assert_array_equal(finite, [[1, 2], [3, 4]], err_msg=name)


def test_whether_a_long_line_is_read_depends_on_its_own_length_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "CSV_RECORD_BYTES", 20)
    path = tmp_path / "t.csv"
    for chunk in (3, 19, 20, 21, 22, 23, 100):
        monkeypatch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
        for before in range(6):
            path.write_bytes(b"a\n" + b"x" * before + b"\n" + b"1".zfill(20) + b"\n" + b"2".zfill(21) + b"\n3\n")
            rows = gather(open_table(path, ["a"]))
            np.testing.assert_array_equal(rows[np.isfinite(rows)], [1, 3])


@pytest.mark.parametrize("chunk", [200, 20, 21, 22, 23])
@pytest.mark.parametrize("text", ["x" * 16, '"' + "x" * 14 + '"'])
def test_a_record_just_as_long_as_allowed_counts_wherever_it_stands(
    text: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "CSV_RECORD_BYTES", 20)
    monkeypatch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
    path, long, other = tmp_path / "t.csv", f"0.1,{text}", "0.9,b"
    for records in ([long], [long, other], [other, long], [other, long, long, other], [long + "x", long]):
        for line_break in ("\n", "\r\n"):
            for last in ("", line_break):
                path.write_bytes((line_break.join(["x,t", *records]) + last).encode())
                expected = [float(record[:3]) for record in records if len(record) <= 20]
                assert gather(open_table(path, ["x"])).ravel().tolist() == expected


@pytest.mark.parametrize(
    "records", [b"", b"1,x\r", b'1,"x\ny"\r', b"1,x\r" * 300_000, b"\0\r", b'1,"x\r' * 300_000, b"1,x\n2,y\n"]
)
def test_lines_that_end_with_carriage_returns_are_refused_alike_whatever_they_hold(
    records: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r" + records)
    message = refusal(UnreadableFileError, lambda: open_table(path, ["a"]))
    assert message.startswith(f"The lines of {str(path)!r} end with carriage returns alone")
    assert open_table(path, ["a"], csv_dialect="lines").n_columns == 1


def test_bytes_that_are_not_text_are_missing(tmp_path: Path, caplog: Any, capfd: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b,note\n1,2,\xff\xfe\n\xff,4,\xc3\n5,6,"\xe9,\xff"\n')
    rows = quiet(caplog, capfd, lambda: gather(open_table(path, ["a", "b"])))
    np.testing.assert_array_equal(rows, [[1, 2], [NAN, 4], [5, 6]])


def test_a_csv_header_may_be_marked_quoted_spaced_and_below_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for start in ("", "\n\n", "\ufeff"):
        path.write_text(start + '"a, or b", c ,c2\r\n1,2,3', newline="")
        table = open_table(path, ["c", "a, or b"])
        np.testing.assert_array_equal(gather(table), [[2, 1]])


@pytest.mark.parametrize(
    "odd", [NAN, np.inf, -np.inf, None, "SECRET", "", "\u0663x", 10**400, 1j, [1.0], b"x", np.complex128(1j)], ids=repr
)
def test_an_odd_cell_in_a_list_is_missing(odd: Any, caplog: Any, capfd: Any) -> None:
    rows = [[1.0, 2.0], [odd, 4.0], [5.0, 6.0]]
    table = quiet(caplog, capfd, lambda: open_table(rows, n_columns=2))
    assert repr(table) == repr(open_table([[1.0, 2.0]], n_columns=2))
    np.testing.assert_array_equal(gather(table), [[1, 2], [NAN, 4], [5, 6]])


class Raising:
    """A row or a cell that nothing can be asked of."""

    def __len__(self) -> int:
        raise RuntimeError("SECRET")

    def __float__(self) -> float:
        raise RuntimeError("SECRET")

    def __repr__(self):
        return "Raising()"  # without an address: workers must agree on the names of tests


class Unreadable(Raising):
    """A row whose cells cannot be read."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[float]:
        raise RuntimeError("SECRET")


def test_a_ragged_row_in_a_list_is_missing(caplog: Any, capfd: Any) -> None:
    for odd in ([], [1], [1, 2, 3], "SECRET", None, 7, np.array(5.0), Raising(), Unreadable()):
        table = quiet(caplog, capfd, lambda odd=odd: open_table([[1, 2], odd, [3, 4]], n_columns=2))
        np.testing.assert_array_equal(gather(table), [[1, 2], [NAN, NAN], [3, 4]])


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (np.ma.array([1.0, 2.0], mask=[0, 1]), [1, NAN]),
        ([np.timedelta64(5, "s"), 1.0], [NAN, 1]),
        ([np.datetime64("2020"), 1.0], [NAN, 1]),
        (np.array([5, 1], dtype="m8[s]"), [NAN, NAN]),
        ([np.array(np.timedelta64(5)), 1.0], [NAN, 1]),
        ([np.ma.array(1.0, mask=True), 1.0], [NAN, 1]),
        ([np.array([1.0]), 1.0], [NAN, 1]),
        ([Raising(), 1.0], [NAN, 1]),
        (["1", "2.5"], [1, 2.5]),
        ([b"1", decimal.Decimal("2.5")], [1, 2.5]),
        ((True, np.int8(3)), [1, 3]),
        (np.array([1, 2], dtype=np.float16), [1, 2]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("other", [["zz", 1.0], [1.0, 1.0], [1, None], None, Raising()], ids=repr)
def test_a_row_of_a_list_is_read_alike_whatever_the_others_are(row: Any, read: list[float], other: Any) -> None:
    np.testing.assert_array_equal(gather(open_table([row, row], n_columns=2)), [read, read])
    np.testing.assert_array_equal(gather(open_table([row, other, row], n_columns=2))[[0, 2]], [read, read])


@pytest.mark.parametrize(
    "X", [[], [[]], [[1.0, 2.0]], [[1, 2], [1, 2, 3]], [1.0, 2.0], ["SECRET", 1], ([1],)], ids=repr
)
def test_a_list_does_not_declare_its_width_whatever_it_holds(X: Any) -> None:
    assert refusal(DataError, lambda: open_table(X)) == refusal(DataError, lambda: open_table([]))
    assert "bounds with one entry a column" in refusal(DataError, lambda: open_table(X))


@pytest.mark.parametrize("odd", [NAN, np.inf, -np.inf, None])
@pytest.mark.parametrize("kind", NAMED)
def test_an_odd_cell_in_a_frame_is_missing(
    kind: str, odd: float | None, tmp_path: Path, caplog: Any, capfd: Any
) -> None:
    rows = ROWS.copy()
    rows[1, 2] = NAN if odd is None else odd
    table = quiet(caplog, capfd, lambda: gather(open_table(NAMED[kind](rows, tmp_path), NAMES)))
    rows[1, 2] = NAN
    np.testing.assert_array_equal(table, rows)


def test_a_cast_that_overflows_is_silent(caplog: Any, capfd: Any) -> None:
    wide = np.array([["1e4000", "1"]], dtype=np.longdouble)
    huge = pa.table(
        {"a": pa.array([decimal.Decimal(10) ** 75], pa.decimal256(76, 0)), "b": pa.array([2**64 - 1], "u8")}
    )
    frame = pd.DataFrame({"a": wide[:, 0]})
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(wide))), [[NAN, 1]])
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(huge))), [[1e75, 2.0**64]])
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(frame))), [[NAN]])
