"""CSV as records, in one of two dialects that are declared and never guessed from a file.

`rfc4180` is what spreadsheets, databases and data frames write: text in quotes may hold line breaks. Who writes a cell
must not be able to write a record, so a quote is followed to its end, and what is too long, ragged or wrongly quoted
contributes nothing, up to where it ends. `lines` takes each line for itself, whatever its quotes.
"""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recoup.curator.tables.table import Columns
from recoup.kernels.csv import AT_START, copy_cells, split_records

CSV_CHUNK_BYTES = 4 << 20
# A fixed limit, so that whether a record is read never depends on those around it.
CSV_RECORD_BYTES = 1 << 20
_NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


class Form(NamedTuple):
    """How a file is written: what stands between its cells, and in which dialect."""

    delimiter: str
    dialect: str


def header_then_bytes(stream: BinaryIO, form: Form) -> Iterator[bytes]:
    """Yield the first record that is not blank, nothing if it is too long or never ends; then all that follows."""
    chunks, start = _chunks(stream, form), b""
    for chunk in chunks:
        start = (start + chunk).lstrip(b"\r\n")
        end = _scan(start, form, one_record=True)[1]
        if end or len(start) > CSV_RECORD_BYTES:
            yield start[: end - 1] if end else b""
            yield start[end:]
            break
    yield from chunks


def _chunks(stream: BinaryIO, form: Form) -> Iterator[bytes]:
    mark = codecs.BOM_UTF8
    while chunk := stream.read(CSV_CHUNK_BYTES):
        chunk, mark = chunk.removeprefix(mark), b""
        # Of the other dialect, a carriage return alone is text: some writers do not quote it.
        yield chunk.replace(b"\r", b"\n") if form.dialect == "lines" else chunk
    # The last record may lack its end. A quote that is still open takes this one for text, too.
    yield b"\n"


def numbers_of(chunks: Iterator[bytes], form: Form, width: int, wanted: Sequence[int], rows: int) -> Iterator[Columns]:
    """Read the wanted cells of records of some width as numbers.

    Args:
        chunks: the bytes after the header, divided anywhere.
        form: how they are written.
        width: how many cells a record has; another one contributes nothing.
        wanted: the places of the cells to read.
        rows: the most records in a block.

    Returns:
        Blocks of records; what is no plain decimal number is not finite.

    Guarantees: a record is read alike whatever stands around it and wherever chunks are divided. Of one that is too
    long no more than a chunk is kept in memory.
    """
    rest, state, spoilt = b"", AT_START, False
    for chunk in chunks:
        data = rest + chunk
        cells = _scan(data, form, width, wanted, state=state, spoilt=spoilt)
        for first in range(0, cells.n_records, rows):
            yield _numbers(data, cells, first, min(first + rows, cells.n_records))
        rest, state = data[cells.end :], AT_START
        # Of a record that is too long, all that counts is where it ends.
        spoilt = len(rest) > CSV_RECORD_BYTES or (spoilt and cells.end == 0)
        if spoilt:
            rest, state = b"", cells.state


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


def _numbers(data: bytes, cells: _Cells, first: int, stop: int) -> Columns:
    columns, n = [], stop - first
    for starts, ends in zip(cells.starts[:, first:stop], cells.ends[:, first:stop], strict=True):
        offsets, text = np.empty(n + 1, np.int32), np.empty(int((ends - starts).sum()), np.uint8)
        copy_cells(np.frombuffer(data, np.uint8), starts, ends, offsets, text)
        columns.append(pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(text)]))
    return Columns(tuple(map(parsed, columns)), n)


def parsed(texts: Any) -> NDArray[np.float64]:
    """Read an Arrow array of texts as numbers; what is no plain decimal number is not finite."""
    # What it takes and a plain number is not ("nan", "inf") it reads as not finite, so nothing but time is saved.
    with contextlib.suppress(pa.ArrowInvalid):
        return np.asarray(texts.cast(pa.float64()))
    text = pc.ascii_trim_whitespace(texts)
    plain = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None)
    return np.asarray(pc.ascii_ltrim(plain, "+").cast(pa.float64()))


def number_of(text: str) -> float:
    """Read one text as a cell would be read.

    >>> number_of(" +1.5 "), number_of("1_000")
    (1.5, nan)
    """
    return float(parsed(pa.array([text]))[0])
