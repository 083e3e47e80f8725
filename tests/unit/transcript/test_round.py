"""One round: what a stated answer costs, which numbers are too large, and files whose parts do not fit each other."""

import copy
import dataclasses
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, queries, request
from own_queries import First

from recoup import Ledger
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.custom import Sensitivity, bounded_block
from recoup.domain import Box, L1Ball
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.queries.moments import PowerQuery
from recoup.transcript.context import Request
from recoup.transcript.round import (
    Round,
    fraction_from_json,
    imported_round_from_json,
    quote,
    round_from_json,
    round_to_json,
)

BOX = Box([0, 0], [1, 1])
TERMS = context(BOX)
QUERY = VoronoiQuery(centers=np.array([[-0.5, 0.0], [0.5, 0.0]]))  # 2 counts, 4 sums
GRID = GridQuery(sides=(2, 1))


class NoArray:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("not an array after all")


class NineSums(First):
    """The sum of the first column, nine times."""

    type_name, size = "test-nine", 9

    def sensitivity(self, domain):
        return Sensitivity(tuple(bounded_block(f"sum {n}", 1, l1=1.0) for n in range(9)))

    def contribution(self, x):
        return np.repeat(x[:, :1], 9, axis=1)


def stated(noisy=(1.0, 2.0), scales=1.0, terms=TERMS, query=GRID):
    return Round.of_imported(terms, query=query, noisy=noisy, scales=scales)


def drawn(query=QUERY, terms=TERMS, share=Fraction(1, 2)):
    return Curator(open_source(np.zeros((3, 2)), BOX), terms).answer(request(query, terms.domain, share))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_price_of_blocks_is_split_as_was_asked(mechanism):
    terms = context(BOX, mechanism)
    asked = dataclasses.replace(
        request(QUERY, BOX, Fraction(1, 2)), split={"count": Fraction(3, 4), "sum": Fraction(1, 4)}
    )
    answered = Curator(open_source(np.zeros((3, 2)), BOX), terms).answer(asked)
    price = float(answered.price.amount)
    parts = answered.price_of_blocks(terms)
    assert list(parts) == ["count", "sum"]
    assert parts == {"count": pytest.approx(0.75 * price, rel=1e-6), "sum": pytest.approx(0.25 * price, rel=1e-6)}
    # Of nine stated blocks, the squares of whole weights add up to more than fits into 63 bits.
    nine = stated(np.ones(9), 1.0, terms, NineSums(2))
    assert list(nine.price_of_blocks(terms).values()) == pytest.approx([float(nine.price.amount) / 9] * 9)


# ---- stated ----


def test_a_stated_round_holds_what_was_stated():
    found = stated([1, 2, 3, 4, 5, 6], [2.0, 4.0], query=QUERY)
    assert found.noisy.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.scales.tolist() == found.units.tolist() == [2, 2, 4, 4, 4, 4]
    assert (found.integers, found.scale, found.share) == ((), 1.0, 0)
    for array in (found.noisy, found.units):
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0


def test_what_was_given_may_be_changed_afterwards():
    noisy, scales = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    found = stated(noisy, scales)
    noisy[0] = scales[0] = 7.0
    assert (found.noisy.tolist(), found.scales.tolist()) == ([1, 2], [1, 3])


@pytest.mark.parametrize(("mechanism", "amounts"), [("laplace", (0.5, 0.5)), ("gaussian", (0.5, 0.5 / 2**0.5))])
def test_the_price_of_stated_noise_by_hand(mechanism, amounts):
    # Counts: a record moves one by 1. Sums in the box of two columns: by 2 in L1 and sqrt(2) in L2.
    terms = context(BOX, mechanism, records_per_person=3)
    found = stated(np.ones(6), [2.0, 4.0], terms, QUERY)
    reach = [3 * amounts[0], 3 * amounts[1]]
    expected = sum(reach) if mechanism == "laplace" else (reach[0] ** 2 + reach[1] ** 2) / 2
    assert float(found.price.amount) == pytest.approx(expected)
    assert found.price.measure == ("pure" if mechanism == "laplace" else "gaussian")
    assert found.mechanism == found.noise.name == mechanism
    assert found.weights == tuple(round(2**30 * part / max(reach)) for part in reach)
    # The quietest value of a block sets its price.
    quiet = stated(np.ones(6), [2, 1, 4, 4, 4, 4], terms, QUERY)
    assert quiet.price.amount > found.price.amount
    assert stated(np.ones(6), [2, 9, 4, 9, 9, 9], terms, QUERY).price == found.price


def test_every_block_is_priced_by_its_own_scales():
    query = PowerQuery(directions=[[1.0], [0.0]])  # 1 count, 2 sums, 1 square, 2 products
    bounds = [float(block.l1[0]) for block in query.sensitivity(BOX).blocks]
    found = stated(np.ones(6), [1.0, 2.0, 4.0, 8.0], query=query)
    expected = sum(bound / scale for bound, scale in zip(bounds, (1, 2, 4, 8), strict=True))
    assert float(found.price.amount) == pytest.approx(expected)


def test_an_answer_of_one_value():
    one = GridQuery(sides=(1, 1))
    assert round_to_json(stated([3.0], 2.0, query=one), TERMS)["scales"] == 2.0
    answered = drawn(one)
    assert read(answered).integers == answered.integers
    assert round_to_json(answered, TERMS)["blocks"][0]["unit"] == 2.0**-30


def test_rounds_are_compared_by_identity():
    found = stated()
    assert found != dataclasses.replace(found)
    assert len({found, dataclasses.replace(found)}) == 2


def test_a_block_of_nearly_no_weight_keeps_one():
    assert stated(np.ones(6), [1e-6, 1e11], query=QUERY).weights == (2**30, 1)


def test_limits_of_what_is_stated_are_exact():
    assert stated([1e12, -1e12]).noisy.tolist() == [1e12, -1e12]
    with pytest.raises(ParameterError, match="at most 1e"):
        stated([np.nextafter(1e12, np.inf), 0.0], 10.0)
    with pytest.raises(ParameterError, match="at most 1e"):
        stated([0.0, np.nan])
    for scale in (1e-6, 1e12):
        assert stated([1.0, 1.0], scale).scales.tolist() == [scale, scale]
    for scale in (np.nextafter(1e-6, 0), np.nextafter(1e12, np.inf), np.nan, 0, -1):
        with pytest.raises(ParameterError, match="without noise"):
            stated([1.0, 1.0], scale)
        with pytest.raises(ParameterError, match="without noise"):
            stated([1.0, 1.0], [1.0, scale])
    with pytest.raises(ParameterError, match="at most 1e"):
        stated([-2e12, 0.0], 10.0)
    with pytest.raises(ParameterError, match="times its noise"):
        stated([np.nextafter(1e6, np.inf), 0.0], 1e-6)
    assert stated([1e6, -1e6], 1e-6).noisy[0] == 1e6
    with pytest.raises(ParameterError, match="times its noise"):
        stated([1.0, -1.1e6], 1e-6)


def test_shapes_of_what_is_stated():
    assert stated(scales=[3]).scales.tolist() == stated(scales=np.float32(3)).scales.tolist() == [3, 3]
    assert stated(np.array([1, 2], dtype=np.uint8)).noisy.tolist() == [1, 2]
    with pytest.raises(ParameterError, match="of 1 values to a query of 2"):
        stated([1.0])
    with pytest.raises(ParameterError, match="3 noise scales for a query of 2 values"):
        stated(scales=[1, 2, 3])
    for query in (GridQuery(sides=(2,)), First()):
        with pytest.raises(ParameterError, match="columns"):
            stated(np.ones(query.size), query=query)


@pytest.mark.parametrize(
    "noisy", [None, "ab", ["1", "2"], [True, 1], [1.0, np.True_], (False, 2), [[1, 2]], [], [1j, 2]]
)
def test_what_is_no_list_of_numbers_is_refused(noisy):
    with pytest.raises(ParameterError, match="a noisy answer must be numbers"):
        stated(noisy)


@pytest.mark.parametrize("noisy", [[1, [2]], [10**400, 1], [1.5, 10**400], [object(), 1], NoArray()])
def test_what_numpy_cannot_hold_is_refused(noisy):
    with pytest.raises(ParameterError, match="a noisy answer must be"):
        stated(noisy)


def test_json_of_a_stated_round():
    assert round_to_json(stated(), TERMS) == {"query": GRID.to_json(), "noisy": [1.0, 2.0], "scales": 1.0}
    assert round_to_json(stated(scales=[1, 2]), TERMS)["scales"] == [1.0, 2.0]
    value = round_to_json(stated(scales=[1, 2]), TERMS)
    assert imported_round_from_json(value, TERMS).scales.tolist() == [1, 2]
    for change, message in (
        ({"noisy": "12"}, "must be a list"),
        ({"noisy": {"0": 1}}, "must be a list"),
        ({"extra": 1}, "nothing else"),
        ({"scales": 0.0}, "cannot be used"),
    ):
        with pytest.raises(TranscriptFormatError, match=message):
            imported_round_from_json(value | change, TERMS)


# ---- drawn ----


def test_a_drawn_round_by_hand():
    answered = drawn()
    assert answered.weights == (2**29, 2**29)
    assert answered.scale == 2.0**31
    assert (answered.price.amount, answered.share) == (Fraction(1, 2), Fraction(1, 2))
    np.testing.assert_allclose(answered.units, [2.0**-29] * 2 + [2.0**-28] * 4, rtol=1e-11)
    with pytest.raises(ValueError, match="read-only"):
        answered.units[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        answered.share = Fraction(1, 4)
    assert answered.block("sum", TERMS) == slice(2, 6)
    assert (answered.mechanism, answered.noise.name) == ("laplace", "laplace")


def test_json_of_a_drawn_round():
    answered = drawn()
    value = round_to_json(answered, TERMS)
    assert value == {
        "query": QUERY.to_json(),
        "noisy": list(answered.integers),
        "blocks": [
            {"name": "count", "size": 2, "weight": 2**29, "unit": answered.units[0]},
            {"name": "sum", "size": 4, "weight": 2**29, "unit": answered.units[2]},
        ],
        "scale": 2.0**31,
        "price": {"measure": "pure", "amount": "1/2"},
        "share": "1/2",
    }
    relative = VoronoiQuery(centers=QUERY.centers, sums="relative", radii=np.array([0.5, 0.25]))
    blocks = round_to_json(drawn(relative), TERMS)["blocks"]
    assert isinstance(blocks[0]["unit"], float)
    assert blocks[1]["unit"] == pytest.approx([2.0**-30] * 2 + [2.0**-31] * 2)


def read(answered=None, terms=TERMS, **changes):
    value = copy.deepcopy(round_to_json(drawn() if answered is None else answered, terms))
    for path, item in changes.items():
        inner, keys = value, path.split("__")
        for key in keys[:-1]:
            inner = inner[int(key) if key.isdigit() else key]
        inner[int(keys[-1]) if keys[-1].isdigit() else keys[-1]] = item
    return round_from_json(value, terms)


def test_limits_of_what_is_read_are_exact():
    assert read(noisy__0=2**63 - 1).integers[0] == 2**63 - 1
    assert read(noisy__0=1 - 2**63).integers[0] == 1 - 2**63
    for value in (2**63, -(2**63), 1.0, False):
        with pytest.raises(TranscriptFormatError, match="64-bit integers"):
            read(noisy__0=value)
    whole = drawn(GRID, share=Fraction(1))
    assert whole.weights == (2**30,)
    assert read(whole).share == 1
    assert read(whole, blocks__0__weight=1, blocks__0__unit=1.0).weights == (1,)
    for weight in (0, 2**30 + 1, 1.0, True):
        with pytest.raises(TranscriptFormatError, match="weight must be"):
            read(whole, blocks__0__weight=weight)
        with pytest.raises(TranscriptFormatError, match="weight must be"):
            read(blocks__1__weight=weight)
    for scale in (0, -1.0, True, "1", 2.0**62, None):
        with pytest.raises(TranscriptFormatError, match="noise scale must be"):
            read(scale=scale)
    with pytest.raises(TranscriptFormatError, match="does not follow from its noise"):
        read(scale=np.nextafter(2.0**62, 0))
    assert read(scale=2**31).scale == 2.0**31
    with pytest.raises(TranscriptFormatError, match="does not follow from its noise"):
        read(scale=5e-324)


def test_prices_units_and_shares_must_follow_from_each_other():
    assert read(price__amount=str(Fraction(1, 2) * (1 - Fraction(1, 2 * 10**9)))).share == Fraction(1, 2)
    for off in (1 - Fraction(2, 10**9), 1 + Fraction(2, 10**9)):
        with pytest.raises(TranscriptFormatError, match="price does not follow"):
            read(price__amount=str(Fraction(1, 2) * off))
    # As close as rounding allows, and yet more than was paid.
    with pytest.raises(TranscriptFormatError, match="share does not cover"):
        read(price__amount=str(Fraction(1, 2) * (1 + Fraction(1, 10**10))))
    for share in ("0", "2", "1/3"):
        with pytest.raises(TranscriptFormatError, match="share does not cover"):
            read(share=share)
    unit = float(drawn().units[0])
    assert read(blocks__0__unit=unit * (1 + 5e-10)).units[0] == unit
    for wrong in (unit * (1 + 2e-9), unit * (1 - 2e-9), [unit, 1.0]):
        with pytest.raises(TranscriptFormatError, match="unit does not follow"):
            read(blocks__0__unit=wrong)
    assert read(blocks__0__unit=[unit, unit]).units[0] == unit


def test_gaussian_rounds_are_read_back_and_checked():
    terms = context(BOX, "gaussian", records_per_person=2)
    answered = drawn(terms=terms)
    assert read(answered, terms).price == answered.price
    assert (answered.mechanism, answered.noise.name) == ("gaussian", "gaussian")
    with pytest.raises(TranscriptFormatError, match="price does not follow"):
        read(answered, terms, scale=answered.scale / 2)
    with pytest.raises(TranscriptFormatError, match="another measure"):
        read(answered, terms, price__measure="pure")


def test_parts_of_another_query_are_refused():
    for changes in ({"noisy": [1, 2]}, {"noisy": "abcdef"}, {"noisy": dict.fromkeys("abcdef", 1)}):
        with pytest.raises(TranscriptFormatError, match="size of its query"):
            read(**changes)
    for changes in ({"blocks": []}, {"blocks__0__name": "sum"}, {"blocks__1__size": 3}):
        with pytest.raises(TranscriptFormatError, match="not those of its query"):
            read(**changes)


def test_fractions_are_read_strictly():
    assert fraction_from_json("3/4") == Fraction(3, 4)
    assert fraction_from_json("12") == 12
    assert fraction_from_json("9876543210/1") == 9876543210
    for text in (1, None, "", "1/0", "1.5", "-1", " 1", "1e3", "1/2/3", "9" * 5000, "1_0", b"1"):
        with pytest.raises(TranscriptFormatError, match="fractions written as text"):
            fraction_from_json(text)


# ---- fresh noise ----


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_fresh_noise_has_the_scales_of_the_round(mechanism):
    terms = context(L1Ball([0, 0], [1, 1]), mechanism)
    for answered in (
        Curator(open_source(np.zeros((3, 2)), terms.domain), terms).answer(
            request(QUERY, terms.domain, Fraction(1, 2))
        ),
        stated(np.ones(6), [2.0, 4.0], terms, QUERY),
    ):
        exact = np.array([5.0, 6.0, 1.0, -1.0, 0.5, 0.25])
        again = answered.simulated(exact, np.random.default_rng(3))
        twin = np.random.default_rng(3)
        draws = (twin.laplace if mechanism == "laplace" else twin.normal)(size=6)
        np.testing.assert_allclose(again.noisy, exact + answered.scales * draws, atol=float(answered.units.max()) / 2)
        assert (again.price, again.weights, again.scale) == (answered.price, answered.weights, answered.scale)
        if answered.imported is None:
            assert {type(v) for v in again.integers} == {int}
            np.testing.assert_allclose(
                np.array(again.integers, dtype=float),
                (exact + answered.scales * draws) / answered.units,
                rtol=0,
                atol=0.5001,
            )


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", queries(2))
def test_it_is_what_the_curator_charges_and_releases(mechanism, name):
    domain, ledger = domains(2)["l1"], Ledger.in_memory(epsilon=9, delta="1e-6")
    terms, asked = context(domain, mechanism), request(queries(2)[name], domain, Fraction(1, 3))
    offer = quote(terms, asked)
    answered = Curator(open_source(np.zeros((1, 2)), domain), terms, ledger=ledger).answer(asked)
    assert (offer.price, offer.scale, offer.weights) == (answered.price, answered.scale, answered.weights)
    assert [entry.amount for entry in ledger.entries()] == [offer.price.amount]
    assert offer.price.amount <= terms.budget.amount * Fraction(1, 3)
    np.testing.assert_allclose(offer.scales, answered.scales, rtol=1e-15)
    np.testing.assert_array_equal(1.0 / offer.factors, answered.units)
    assert offer.sensitivity.names == tuple(asked.split)
    assert offer != quote(terms, asked)  # arrays have no one answer to whether they are equal
    with pytest.raises(FrozenInstanceError):
        offer.scale = 1.0


def test_a_split_must_name_the_blocks_of_the_answer():
    domain = domains(2)["box"]
    asked = request(next(iter(queries(2).values())), domain)
    with pytest.raises(ParameterError, match=r"the split names \['other'\], the answer has \["):
        quote(context(domain), replace(asked, split={"other": Fraction(1)}))


def test_bounds_that_do_not_fit_the_answer_are_refused():
    class Short:
        type_name, size = "short", 3

        def sensitivity(self, domain):
            return GridQuery(sides=(2, 1)).sensitivity(domain)

    asked = Request(query=Short(), share=Fraction(1), split={"count": Fraction(1)})
    with pytest.raises(ParameterError):
        quote(context(domains(2)["box"]), asked)
