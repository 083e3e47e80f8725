"""Tiles of integers from rows to columns and back, by shuffles of registers.

A plain double loop moves one value at a time: compilers do not see that it is a permutation. Squares of values are read
as vectors, interleaved and written as vectors here, which halves the time.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from recoup.kernels.compiled import compiled

_SIDE = 4  # values of 4 bytes in the registers that every machine has


@intrinsic
def _turn_square(typing_context, source, row, column, target, target_row, target_column):
    # target[target_row + j, target_column + i] = source[row + i, column + j] for i, j below _SIDE.
    signature = types.void(source, types.intp, types.intp, target, types.intp, types.intp)

    def build(context, builder, signature, arguments):
        kind = context.get_value_type(source.dtype)
        vector, width = ir.VectorType(kind, _SIDE), context.get_abi_sizeof(kind)

        def lines(array_type, array, row, column):
            made = context.make_array(array_type)(context, builder, array)
            strides = cgutils.unpack_tuple(builder, made.strides, 2)
            first = builder.bitcast(made.data, ir.IntType(8).as_pointer())
            for i in range(_SIDE):
                down = builder.mul(builder.add(row, ir.Constant(row.type, i)), strides[0])
                across = builder.mul(column, strides[1])
                yield builder.bitcast(builder.gep(first, [builder.add(down, across)]), vector.as_pointer())

        def interleaving(first):
            positions = [position for i in range(first, first + _SIDE // 2) for position in (i, _SIDE + i)]
            return ir.Constant(ir.VectorType(ir.IntType(32), _SIDE), positions)

        values = [builder.load(line, align=width) for line in lines(source, *arguments[:3])]
        # Two perfect shuffles of the upper lines with the lower ones turn a square of four.
        for _ in range(2):
            pairs = list(zip(values[: _SIDE // 2], values[_SIDE // 2 :], strict=True))
            values = [builder.shuffle_vector(*pair, interleaving(at)) for pair in pairs for at in (0, _SIDE // 2)]
        for value, line in zip(values, lines(target, *arguments[3:]), strict=True):
            builder.store(value, line, align=width)
        return context.get_dummy_value()

    return signature, build


@compiled(nogil=True, error_model="numpy")
def columns_of_rows(
    rows,  # IN   (n, d) int32
    start,  # IN   first row
    size,  # IN   how many
    columns,  # OUT  (d, at least size) int32
):
    """Write rows as columns."""
    d = rows.shape[1]
    n_turned = size - size % _SIDE if d >= _SIDE else 0
    for b in range(0, n_turned, _SIDE):
        for j in range(0, d, _SIDE):
            # The last square overlaps the one before it.
            at = min(j, d - _SIDE)
            _turn_square(rows, start + b, at, columns, at, b)
    for b in range(n_turned, size):
        for j in range(d):
            columns[j, b] = rows[start + b, j]


@compiled(nogil=True, error_model="numpy")
def rows_of_columns(
    columns,  # IN   (d, at least size) int32
    start,  # IN   first row to write
    size,  # IN   how many
    rows,  # OUT  (n, d) int32
):
    """Write columns as rows."""
    d = rows.shape[1]
    n_turned = size - size % _SIDE if d >= _SIDE else 0
    for b in range(0, n_turned, _SIDE):
        for j in range(0, d, _SIDE):
            at = min(j, d - _SIDE)
            _turn_square(columns, at, b, rows, start + b, at)
    for b in range(n_turned, size):
        for j in range(d):
            rows[start + b, j] = columns[j, b]
