"""CSV as one state machine over bytes: which record a byte belongs to never depends on what it is taken for later.

A quote opens only at the start of a cell; inside it two quotes stand for one, and a line break is text. A cell that
goes on after its closing quote is no longer quoted, and its record is kept out.
"""

from __future__ import annotations

import numpy as np

from recoup.kernels.compiled import compiled

AT_START = 0  # of a cell
_PLAIN = 1
_QUOTED = 2
_CLOSED = 3  # after a quote that closes its cell, or is the first of two
_QUOTE, _LINE_FEED, _RETURN = ord('"'), ord("\n"), ord("\r")


@compiled(nogil=True)
def split_records(
    data,  # IN   (size,) uint8
    state,  # IN   AT_START, or what was returned for the bytes before
    spoilt,  # IN   whether the first record is a later part of one, which is kept out
    delimiter,  # IN   between cells
    one_line,  # IN   whether a record ends with its line even in quotes, which keeps it out
    longest,  # IN   bytes of a record that is kept, without its line break
    one_record,  # IN   whether to stop after the first
    place,  # IN   (width,) int64: which of the wanted columns each cell is; -1: none
    starts,  # OUT  (wanted, size // width + 1) int32: where the cells of kept records start
    ends,  # OUT  the same shape: where they end, without their quotes
):
    """Find the cells of records of `width` cells; return how many, where an unfinished record starts, and the state."""
    size, width = data.shape[0], place.shape[0]
    n, record, cell, begin, i = 0, 0, 0, 0, 0
    while i < size:
        if state == AT_START:
            begin = i
            if data[i] == _QUOTE:
                state, begin = _QUOTED, i + 1
                i += 1
            else:
                state = _PLAIN
            continue
        if state == _QUOTED:
            while i < size and data[i] != _QUOTE and not (one_line and data[i] == _LINE_FEED):
                i += 1
            if i < size and data[i] == _QUOTE:
                state = _CLOSED
                i += 1
                continue
            spoilt, end = True, i
        elif state == _CLOSED:
            end = i - 1
            if data[i] == _QUOTE:
                state = _QUOTED
                i += 1
                continue
            if data[i] == _RETURN and i + 1 < size and data[i + 1] == _LINE_FEED:
                i += 1
            elif data[i] != delimiter and data[i] != _LINE_FEED:
                spoilt, state = True, _PLAIN
                continue
        else:
            while i < size and data[i] != delimiter and data[i] != _LINE_FEED:
                i += 1
            end = i
            if i < size and data[i] == _LINE_FEED and end > begin and data[end - 1] == _RETURN:
                end -= 1
        if i == size:
            break
        if cell < width and place[cell] >= 0:
            starts[place[cell], n], ends[place[cell], n] = begin, end
        cell += 1
        if data[i] == _LINE_FEED:
            blank = cell == 1 and end == record
            # Without its line break, which has two bytes, one, or at the end of a file none.
            length = i - record - (i > record and data[i - 1] == _RETURN)
            if cell == width and not spoilt and not blank and length <= longest:
                n += 1
            record, cell, spoilt = i + 1, 0, False
        state = AT_START
        i += 1
        if one_record and record == i:
            break
    return n, record, state


@compiled(nogil=True)
def copy_cells(
    data,  # IN   (size,) uint8
    starts,  # IN   (n,) int32
    ends,  # IN   (n,) int32
    offsets,  # OUT  (n + 1,) int32: where each cell starts in the text
    text,  # OUT  (sum of lengths,) uint8: the cells one after the other; what is not ASCII is a question mark
):
    """Put the cells of one column next to each other."""
    at = np.int32(0)
    for i in range(starts.shape[0]):
        offsets[i] = at
        for j in range(starts[i], ends[i]):
            text[at] = data[j] if data[j] < 128 else 63
            at += np.int32(1)
    offsets[starts.shape[0]] = at
