"""Arrow batches as float columns: types, nulls, layout; what a value is never matters to the outcome's shape."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from recoup.curator.tables.arrow import arrow_numbers
from recoup.curator.tables.table import Columns
from recoup.curator.tables.wanted import Wanted
from recoup.errors import ColumnTypeError

EXACT_IN_FLOAT32 = [pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.float16(), pa.float32(), pa.bool_(), pa.null()]
WIDER = [pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(21, 2), pa.decimal256(40, 0)]

columns_of, blocks_of = Wanted().columns_of, Wanted().blocks_of


def column(kind: pa.DataType) -> pa.Array:
    return pa.nulls(3) if pa.types.is_null(kind) else pa.array([1, None, 0]).cast(kind, safe=False)


@pytest.mark.parametrize("kind", [*EXACT_IN_FLOAT32, *WIDER], ids=str)
def test_every_numeric_type_becomes_a_float_column(kind: pa.DataType) -> None:
    block = columns_of(pa.record_batch({"a": column(kind), "b": column(pa.int8())}))
    assert block.arrays[0].dtype == (np.float32 if kind in EXACT_IN_FLOAT32 else np.float64)
    assert block.arrays[1].dtype == np.float32
    expected = [np.nan] * 3 if pa.types.is_null(kind) else [1, np.nan, 0]
    np.testing.assert_array_equal(block, np.transpose([expected, [1, np.nan, 0]]))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.uint8(), pa.uint16()], ids=str)
def test_float32_holds_the_ends_of_the_types_that_it_is_chosen_for(kind: pa.DataType) -> None:
    ends = np.iinfo(str(kind))
    (found,) = columns_of(pa.record_batch({"a": pa.array([ends.min, ends.max], kind)})).arrays
    assert found.dtype == np.float32
    assert found.tolist() == [ends.min, ends.max]


def test_encoded_columns_have_the_type_of_their_values() -> None:
    plain = pa.array([1, None, 1], pa.float32())
    nested = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array([1, None], pa.float32()))
    batch = pa.record_batch(
        {
            "dictionary": plain.dictionary_encode(),
            "null in the dictionary": nested,
            "run ends": pc.run_end_encode(plain),
            "extension": pa.ExtensionArray.from_storage(pa.bool8(), plain.cast(pa.int8())),
        }
    )
    block = columns_of(batch)
    assert {array.dtype for array in block.arrays} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(block, np.repeat([[1], [np.nan], [1]], 4, axis=1))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16()])
def test_a_place_that_a_dictionary_does_not_have_is_a_missing_cell(kind: pa.DataType) -> None:
    wrong = 7 if pa.types.is_unsigned_integer(kind) else -1
    places = pa.array([1, 2, None, wrong, 0], kind)
    array = pa.DictionaryArray.from_arrays(places, pa.array([0.5, 0.25]), safe=False)
    np.testing.assert_array_equal(arrow_numbers(array), [0.25, np.nan, np.nan, np.nan, 0.5])


def test_a_slice_is_its_own_rows() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3, 4]).dictionary_encode(), "b": [True, False, None, True]})
    np.testing.assert_array_equal(columns_of(batch.slice(1, 2)), [[np.nan, 0], [3, np.nan]])
    blocks = list(blocks_of(batch, 3))
    assert [len(block) for block in blocks] == [3, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), columns_of(batch))


def test_numbers_that_no_float_holds_are_rounded_without_a_word() -> None:
    batch = pa.record_batch(
        {
            "integer": pa.array([2**63 - 1, -(2**53) - 1]),
            "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
            "decimal": pa.array([decimal.Decimal("0.1"), decimal.Decimal(10) ** 36], pa.decimal128(38, 1)),
            "float": [np.inf, -np.nan],
        }
    )
    expected = [[2.0**63, 2.0**64, 0.1, np.inf], [-(2.0**53), 0, 1e36, np.nan]]
    np.testing.assert_array_equal(columns_of(batch), expected)


def test_floats_without_nulls_are_not_copied_and_cannot_be_written_to() -> None:
    for dtype in (np.float32, np.float64):
        values = np.array([1.0, 2.0, 3.0], dtype)
        (found,) = columns_of(pa.record_batch({"a": pa.array(values)}).slice(1)).arrays
        assert np.shares_memory(found, values)
        assert found.tolist() == [2, 3]
        assert not found.flags.writeable


@pytest.mark.parametrize("kind", [pa.string(), pa.date32(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string())])
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(ColumnTypeError, match="'city'"):
        Wanted(("a", "city")).columns_of(pa.record_batch({"a": pa.array([], pa.int8()), "city": pa.nulls(0, kind)}))


# ---- columns themselves ----


def test_columns_read_as_an_array_of_rows() -> None:
    wide, narrow = np.array([1.0, 2.0]), np.array([3.0, 4.0], np.float32)
    assert np.asarray(Columns((narrow, narrow), 2)).dtype == np.float32
    both = Columns((wide, narrow), 2)
    assert np.asarray(both).dtype == np.float64
    np.testing.assert_array_equal(np.concatenate([both, both]), [[1, 3], [2, 4]] * 2)
    np.testing.assert_array_equal(np.asarray(both, dtype=np.float32), [[1, 3], [2, 4]])
    assert both.shape == (len(both), 2) == (2, 2)
    assert both.narrow.tolist() == [False, True]
    assert both.addresses.tolist() == [wide.ctypes.data, narrow.ctypes.data]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(both, copy=False)


def test_columns_that_are_not_contiguous_or_not_aligned_are_copied() -> None:
    strided = np.arange(6.0)[::2]
    unaligned = np.frombuffer(b"x" + np.arange(3.0).tobytes(), np.float64, offset=1)
    assert not unaligned.flags.aligned
    block = Columns((strided, unaligned), 3)
    assert all(array.flags.c_contiguous and array.flags.aligned for array in block.arrays)
    np.testing.assert_array_equal(block, [[0, 0], [2, 1], [4, 2]])


@pytest.mark.parametrize(
    "array", [np.zeros(2), np.zeros(4), np.zeros((3, 1)), np.zeros(3, int), np.zeros(3, ">f8"), np.zeros(3, "f2")]
)
def test_what_a_kernel_could_not_read_never_becomes_columns(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="columns"):
        Columns((np.zeros(3), array), 3)
