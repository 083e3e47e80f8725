"""CSV as lines that are read one by one: whether and how a line is read never depends on the lines around it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recoup.curator.columns import Columns

CSV_CHUNK_BYTES = 4 << 20
# A fixed limit, so that whether a line is read never depends on the lines around it.
CSV_LINE_BYTES = 1 << 20
TO_ASCII: Final = bytes(range(128)) + b"?" * 128
_NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def _whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(CSV_CHUNK_BYTES):
        chunk = chunk.replace(b"\r", b"\n")
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            # A line cut here is still too long to be read, and no longer too long for memory.
            rest = (rest + chunk)[: CSV_LINE_BYTES + 1]
    if rest:
        yield rest + b"\n"


def header_then_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the first line that is not empty, then chunks of whole lines."""
    header = b""
    for lines in _whole_lines(stream):
        if header:
            yield lines
            continue
        header, _, records = lines.removeprefix(codecs.BOM_UTF8).lstrip(b"\n").partition(b"\n")
        if header:
            yield header
            yield records


def well_quoted(lines: bytes, delimiter: str) -> bytes:
    """Keep the lines that can be split on their own: neither too long nor with a quote that reaches beyond them."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")).astype(np.int32) + np.int32(1)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    keep = np.diff(offsets) <= CSV_LINE_BYTES + 1
    whole = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(lines)])
    if b'"' in lines:
        cell = f'(?:"(?:[^"\n]|"")*"|[^"{delimiter}\n][^{delimiter}\n]*|)'
        keep &= pc.match_substring_regex(whole, f"^{cell}(?:{delimiter}{cell})*\n$").to_numpy(zero_copy_only=False)
    if keep.all():
        return lines
    return b"".join(whole.filter(pa.array(keep)).to_pylist())


def split_cells(lines: bytes, delimiter: str, width: int, positions: list[int]) -> Any | None:
    """Split lines into the wanted cells, as an Arrow table of text; lines with another number of cells drop out."""
    if not lines:
        return None
    names = [str(position) for position in positions]
    return pa.csv.read_csv(
        pa.BufferReader(lines),
        # One block, since a line across two of them is an error; and our own names, since a header may repeat one.
        read_options=pa.csv.ReadOptions(
            column_names=[str(position) for position in range(width)], block_size=len(lines) + 1, use_threads=False
        ),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda row: "skip"),
        convert_options=pa.csv.ConvertOptions(
            check_utf8=False,
            strings_can_be_null=False,
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
        ),
    )


def parse_numbers(texts: Any) -> Columns:
    """Read text cells as numbers; what is no plain decimal number is not finite."""
    return Columns(tuple(_parsed(column).to_numpy() for column in texts.columns), texts.num_rows)


def _parsed(column: Any) -> Any:
    try:
        # What it takes and a plain number is not ("nan", "inf") it reads as not finite, so nothing but time is saved.
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        text = pc.ascii_trim_whitespace(column)
        plain = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None)
        return pc.ascii_ltrim(plain, "+").cast(pa.float64())


def number_of(text: str) -> float:
    """Read one text as a cell would be read.

    >>> number_of(" +1.5 "), number_of("1_000")
    (1.5, nan)
    """
    return float(parse_numbers(pa.table({"cell": [text]})).arrays[0][0])
