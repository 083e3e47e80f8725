"""CSV as records, in one of two dialects that are declared and never guessed from a file. It declares no types.

`rfc4180` is what spreadsheets, databases and data frames write: text in quotes may hold line breaks. Who writes a cell
must not be able to write a record, so a quote is followed to its end, and what is too long, ragged or wrongly quoted
contributes nothing, up to where it ends. `lines` takes each line for itself, whatever its quotes.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recoup.curator.tables.rules import NUMBERS, Made, Reader, Rule
from recoup.curator.tables.table import file_changed
from recoup.errors import Argument, UnreadableFileError
from recoup.kernels.csv import AT_START, copy_cells, split_records

CSV_CHUNK_BYTES = 4 << 20
# A fixed limit, without the line break, so that whether a record is read never depends on those around it.
CSV_RECORD_BYTES = 1 << 20
_BREAK: Final = re.compile(rb"\r\n?|\n")
_OTHER_KINDS: Final = {
    b"PAR1": "Parquet",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
}


class Form(NamedTuple):
    """How a file is written: what stands between its cells, in which dialect, and by what it is compressed."""

    delimiter: str
    dialect: str
    compression: str | None = None


def open_csv(path: Path, shown: str, form: Form) -> tuple[tuple[str, ...], Reader] | None:
    """The names in a file's first record, and what reads the columns at some places, each by its rule, in blocks.

    The names may be a record, of a file without header: no message may hold one that the user did not declare. None for
    a file of nothing but line breaks.
    """
    header = _header(path, shown, form)
    if header is None:
        return None
    cells = next(csv.reader([header.decode("utf-8", "replace")], delimiter=form.delimiter))
    names = tuple(cell.strip() for cell in cells)

    def read(positions: Sequence[int], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        with pa.input_stream(str(path), compression=form.compression) as stream:
            chunks = header_then_bytes(stream, form)
            if next(chunks, b"").removesuffix(b"\r") != header:
                raise file_changed(shown)
            yield from cells_of_bytes(chunks, form, len(names), positions, rules, block_rows)

    return names, read


def _header(path: Path, shown: str, form: Form) -> bytes | None:
    with path.open("rb") as file:
        start = file.read(8)
    # A compressed file is recognised by its reader; one that is named as if it were plain text, by nobody.
    other = next((kind for magic, kind in _OTHER_KINDS.items() if start.startswith(magic)), None)
    if form.compression is None and other is not None:
        raise UnreadableFileError(f"{shown!r} is named as CSV but holds {other}. Rename it.")
    with pa.input_stream(str(path), compression=form.compression) as stream:
        start = stream.read(CSV_RECORD_BYTES + 1).removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    ending = _BREAK.search(start)
    alone = ending is not None and ending[0] == b"\r" and start.count(b'"', 0, ending.start()) % 2 == 0
    # By the first line alone: where such lines are taken for one record, what is wrong with it depends on all of them.
    if alone and form.dialect != "lines":
        raise UnreadableFileError(
            f"The lines of {shown!r} end with carriage returns alone: only ",
            Argument("csv_dialect", '"lines"'),
            " reads them so.",
        )
    with pa.input_stream(str(path), compression=form.compression) as stream:
        header = next(header_then_bytes(stream, form), None)
    if header is None:
        return None
    header = header.removesuffix(b"\r")
    if not header or len(header) > CSV_RECORD_BYTES or b"\0" in header:
        raise UnreadableFileError(f"{shown!r} has no first line, in UTF-8, that names its columns.")
    return header


def header_then_bytes(stream: BinaryIO, form: Form) -> Iterator[bytes]:
    """Yield the first record that is not blank, no bytes if it is too long or never ends; then all that follows."""
    chunks, start = _chunks(stream, form), b""
    for chunk in chunks:
        start = (start + chunk).lstrip(b"\r\n")
        end = _scan(start, form, one_record=True)[1]
        if end or _too_long(start):
            yield start[: end - 1] if end else b""
            yield start[end:]
            break
    else:
        if start:
            yield b""
    yield from chunks


def _chunks(stream: BinaryIO, form: Form) -> Iterator[bytes]:
    mark = codecs.BOM_UTF8
    while chunk := stream.read(CSV_CHUNK_BYTES):
        chunk, mark = chunk.removeprefix(mark), b""
        # Of the other dialect, a carriage return alone is text: some writers do not quote it.
        yield chunk.replace(b"\r", b"\n") if form.dialect == "lines" else chunk
    # The last record may lack its end. A quote that is still open takes this one for text, too.
    yield b"\n"


def cells_of_bytes(
    chunks: Iterator[bytes], form: Form, width: int, wanted: Sequence[int], rules: Sequence[Rule], rows: int
) -> Iterator[Made]:
    """Read the cells at the wanted places, after the header, each by its rule, in blocks of at most so many rows.

    Guarantees: a record is read alike whatever stands around it and wherever chunks are divided; one of another width
    contributes nothing. Of one that is too long no more than a chunk is kept in memory.
    """
    rest, state, spoilt, once = b"", AT_START, False, list(dict.fromkeys(wanted))
    # One place may be read by two rules.
    read = [(once.index(place), rule) for place, rule in zip(wanted, rules, strict=True)]
    for chunk in chunks:
        data = rest + chunk
        cells = _scan(data, form, width, once, state=state, spoilt=spoilt)
        for first in range(0, cells.n_records, rows):
            yield _made(data, cells, slice(first, min(first + rows, cells.n_records)), read)
        rest, state = data[cells.end :], AT_START
        # Of a record that is too long, all that counts is where it ends.
        spoilt = _too_long(rest) or (spoilt and cells.end == 0)
        if spoilt:
            rest, state = b"", cells.state


def _too_long(unfinished: bytes) -> bool:
    # What may be the first half of a line break is none of the record.
    return len(unfinished) - unfinished.endswith(b"\r") > CSV_RECORD_BYTES


class _Cells(NamedTuple):
    """Where the wanted cells of the first records are, (wanted, n_records); where the last one ended; in what state."""

    n_records: int
    end: int
    state: int
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


def _scan(
    data: bytes,
    form: Form,
    width: int = 1,
    wanted: Sequence[int] = (),
    *,
    state: int = AT_START,
    spoilt: bool = False,
    one_record: bool = False,
) -> _Cells:
    place = np.full(width, -1)
    place[list(wanted)] = np.arange(len(wanted))
    # A record of so many cells has at least as many bytes.
    starts, ends = np.empty((2, len(wanted), len(data) // width + 1), np.int32)
    n_records, end, state = split_records(
        np.frombuffer(data, np.uint8),
        state,
        spoilt,
        ord(form.delimiter),
        form.dialect == "lines",
        CSV_RECORD_BYTES,
        one_record,
        place,
        starts,
        ends,
    )
    return _Cells(n_records, end, state, starts, ends)


def _made(data: bytes, cells: _Cells, records: slice, read: Sequence[tuple[int, Rule]]) -> Made:
    made = []
    for index, rule in read:
        starts, ends = cells.starts[index, records], cells.ends[index, records]
        texts = _plain_texts(data, starts, ends) if rule is NUMBERS else _raw_texts(data, starts, ends)
        made.append(rule.of_texts(texts))
    return Made(made, records.stop - records.start)


def _plain_texts(data: bytes, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> Any:
    offsets, text = np.empty(len(starts) + 1, np.int32), np.empty(int((ends - starts).sum()), np.uint8)
    copy_cells(np.frombuffer(data, np.uint8), starts, ends, offsets, text)
    return pa.Array.from_buffers(pa.string(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _raw_texts(data: bytes, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> Any:
    """The bytes of cells; in those that were quoted two quotes stand for one."""
    source, sizes = np.frombuffer(data, np.uint8), ends - starts
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    text = source[np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    cells = pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)
    if ord('"') not in text:
        return cells
    # A cell that was not starts after a delimiter or a line break, if there is anything before it.
    quoted = (starts > 0) & (source[np.maximum(starts, 1) - 1] == ord('"'))
    return pc.if_else(quoted, pc.replace_substring(cells, '""', '"'), cells)
