"""Whatever the text of a cell, it is part of one record: as a quoting writer writes it, and however it is divided."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recoup.curator.tables import csv_cells
from recoup.curator.tables.csv_cells import Form, cells_of_bytes, header_then_bytes
from recoup.curator.tables.rules import NUMBERS

TEXT = st.text('ab19.,"\r\n\t \0é', max_size=12) | st.text(max_size=12)
NUMBER = st.integers(-99, 99)
RECORDS = st.lists(st.tuples(NUMBER, TEXT, NUMBER, TEXT), max_size=5)
CHUNK = st.integers(3, 40)
WRITERS = st.fixed_dictionaries(
    {"quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])}
    | {"lineterminator": st.sampled_from(["\n", "\r\n"]), "delimiter": st.sampled_from([",", "\t"])}
)
HOSTILE = "hi\n" + "99,x,99,y\n" * 50


def written(records: list[tuple[int, str, int, str]], how: dict[str, object]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, **how)
    writer.writerow(["a", "note", "b", "comment"])
    writer.writerows(records)
    return out.getvalue().encode("utf-8", "surrogatepass")


def read(content: bytes, *, chunk: int, delimiter: str = ",", dialect: str = "rfc4180", longest: int = 1 << 20) -> list:
    """The numbers `a` and `b` of all records, from chunks of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
        patch.setattr(csv_cells, "CSV_RECORD_BYTES", longest)
        form = Form(delimiter, dialect)
        chunks = header_then_bytes(io.BytesIO(content), form)
        next(chunks)
        blocks = cells_of_bytes(chunks, form, 4, [0, 2], [NUMBERS, NUMBERS], 3)
        return [tuple(row) for block in blocks for row in np.transpose(block.arrays).tolist()]


@settings(deadline=None, max_examples=300)
@given(records=RECORDS, how=WRITERS, chunk=CHUNK)
@example(records=[(1, HOSTILE, 2, '"'), (3, "x", 4, "")], how={"lineterminator": "\n", "delimiter": ","}, chunk=40)
def test_what_a_quoting_writer_wrote_is_read_record_by_record(records: list, how: dict, chunk: int) -> None:
    found = read(written(records, how), chunk=chunk, delimiter=how["delimiter"])
    assert found == [(a, b) for a, _, b, _ in records]


@settings(deadline=None, max_examples=300)
@given(records=RECORDS, how=WRITERS, chunk=CHUNK, place=st.integers(0, 5), cells=st.tuples(NUMBER, TEXT, NUMBER, TEXT))
def test_one_record_more_is_one_row_more(records: list, how: dict, chunk: int, place: int, cells: tuple) -> None:
    place = min(place, len(records))
    more = [*records[:place], cells, *records[place:]]
    before, after = (read(written(r, how), chunk=chunk, delimiter=how["delimiter"]) for r in (records, more))
    assert after == [*before[:place], (cells[0], cells[2]), *before[place:]]


@settings(deadline=None, max_examples=300)
@given(records=RECORDS, how=WRITERS, chunk=CHUNK, text=TEXT, longest=st.integers(20, 60), data=st.data())
def test_another_text_in_one_cell_changes_at_most_one_record(
    records: list, how: dict, chunk: int, text: str, longest: int, data: st.DataObject
) -> None:
    records = [*records, (7, "x", 8, "y")]
    place = data.draw(st.integers(0, len(records) - 1))
    column = data.draw(st.integers(0, 3))  # where a number is declared, too
    changed = [*records]
    changed[place] = (*records[place][:column], text, *records[place][column + 1 :])

    def others(rows: list, number: int) -> list:
        """The rows of all records but one: each is there once, or not if it is too long."""
        alone = [read(written([r], how), chunk=chunk, delimiter=how["delimiter"], longest=longest) for r in rows]
        assert all(len(found) <= 1 for found in alone)
        together = read(written(rows, how), chunk=chunk, delimiter=how["delimiter"], longest=longest)
        np.testing.assert_equal(together, [row for found in alone for row in found])
        return [alone[i] for i in range(len(rows)) if i != number]

    assert others(records, place) == others(changed, place)


@settings(deadline=None, max_examples=300)
@given(
    records=st.lists(st.lists(TEXT | NUMBER, min_size=3, max_size=5).map(tuple), min_size=1, max_size=5),
    how=WRITERS,
    chunk=CHUNK,
    longest=st.integers(8, 24),
    break_at_the_end=st.booleans(),
)
@example([(1, "x" * 12, 2, "y")] * 2, {"lineterminator": "\r\n", "delimiter": ","}, 40, 18, False)
@example([(1, "x" * 12, 2, "y")] * 2, {"lineterminator": "\r\n", "delimiter": ","}, 19, 18, True)
@example([(1, "x" * 9, 2, '"')] * 2, {"lineterminator": "\r\n", "delimiter": ","}, 20, 18, False)
def test_records_together_are_each_as_they_are_alone(
    records: list, how: dict, chunk: int, longest: int, break_at_the_end: bool
) -> None:
    def rows(records: list, chunk: int, break_at_the_end: bool) -> list:
        content = written(records, how)
        content = content if break_at_the_end else content.removesuffix(how["lineterminator"].encode())
        return read(content, chunk=chunk, delimiter=how["delimiter"], longest=longest)

    alone = [rows([record], 1000, True) for record in records]
    together = rows(records, chunk, break_at_the_end)
    np.testing.assert_equal(together, [row for found in alone for row in found])


# ---- any bytes at all: the kernel against a plain twin, and against itself however its input is divided ----


def twin(content: str, dialect: str, longest: int) -> Iterator[list[str]]:
    """Records of well-quoted cells after the header, read character by character."""
    if dialect == "lines":
        content = content.replace("\r", "\n")
    content = content.lstrip("\r\n") + "\n"
    start, cells, cell, state, sound, first = 0, [], "", "start", True, True
    for i, c in enumerate(content):
        ends = c == "\n" and (state != "quoted" or dialect == "lines")
        if state == "start" and c == '"':
            state = "quoted"
            continue
        if state == "quoted" and not ends:
            state, cell = ("closed", cell) if c == '"' else ("quoted", cell + c)
            continue
        if state == "closed" and c == '"':
            state, cell = "quoted", cell + '""'
            continue
        if ends or c == ",":
            sound &= state != "quoted"
            cells.append(cell.removesuffix("\r") if ends and state == "plain" else cell)
            cell, state = "", "start"
            if ends:
                record = content[start:i]
                if (
                    not first
                    and sound
                    and record not in ("", "\r")
                    and len(record.removesuffix("\r")) <= longest
                    and len(cells) == 4
                ):
                    yield cells
                start, cells, sound, first = i + 1, [], True, False
            continue
        if state == "closed":
            # The end of a line may have two characters; any other text makes it no quoted cell.
            sound &= content[i : i + 2] == "\r\n"
            state = "closed" if content[i : i + 2] == "\r\n" else "plain"
            continue
        state, cell = "plain", cell + c


BYTES = st.text('a1,,,"""\r\n ', max_size=60)


@settings(deadline=None, max_examples=600)
@given(content=BYTES, chunk=CHUNK, longest=st.integers(1, 30), dialect=st.sampled_from(["rfc4180", "lines"]))
def test_any_text_is_split_as_a_plain_twin_splits_it(content: str, chunk: int, longest: int, dialect: str) -> None:
    content = "a,note,b,comment\n" + content
    found = read(content.encode(), chunk=chunk, longest=max(longest, 16), dialect=dialect)
    expected = [
        tuple(float(NUMBERS.of_texts(pa.array([cells[j]]))[0]) for j in (0, 2))
        for cells in twin(content, dialect, max(longest, 16))
    ]
    np.testing.assert_equal(found, expected)


@settings(deadline=None, max_examples=200)
@given(before=RECORDS, after=RECORDS, chunk=CHUNK, longest=st.integers(30, 60))
def test_a_quote_that_is_never_closed_takes_what_follows_and_contributes_nothing(
    before: list, after: list, chunk: int, longest: int
) -> None:
    how = {"lineterminator": "\n", "quoting": csv.QUOTE_NONE, "escapechar": "\\"}
    plain = [(a, "text", b, "text") for a, _, b, _ in after]
    content = written(before, {"lineterminator": "\n"})
    tail = written(plain, how).partition(b"\n")[2]
    alone = read(content, chunk=chunk, longest=longest)
    assert read(content + b'5,"open,6,x\n' + tail, chunk=chunk, longest=longest) == alone


@pytest.mark.parametrize("chunk", [7, 64, 4096])
@pytest.mark.parametrize(
    "text", ["x" * 5000, 'a""b' * 1000, '1,x,1,y\n"",\r\n' * 400], ids=["plain", "quotes", "breaks"]
)
def test_a_record_that_is_too_long_ends_where_its_quote_closes(text: str, chunk: int) -> None:
    content = b'a,note,b,comment\n1,x,2,y\n3,"' + text.encode().replace(b'"', b'""') + b'",4,z\r\n5,x,6,y\n'
    assert read(content, chunk=chunk, longest=200) == [(1, 2), (5, 6)]
    assert read(content, chunk=chunk) == [(1, 2), (3, 4), (5, 6)]
