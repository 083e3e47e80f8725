"""One reading of `random_state`: seeds give the streams that they always gave."""

import numpy as np
import pytest

from recoup._random import USUAL_SEED, entropy_of, generator, sampler, seed_for, stream
from recoup.errors import ParameterError


def test_seeds_are_themselves_and_generators_are_asked():
    assert (seed_for(), seed_for(7), seed_for(np.int64(7))) == (USUAL_SEED, 7, 7)
    assert seed_for(np.random.default_rng(1)) == np.random.default_rng(1).integers(2**31)
    assert seed_for(np.random.RandomState(1)) == np.random.RandomState(1).randint(2**31)
    assert seed_for([1, 2]) == np.random.SeedSequence([1, 2]).generate_state(1)[0]


def test_readers_of_transcripts_share_a_seed_and_keep_a_generator():
    assert generator(None).integers(2**60) == np.random.default_rng(USUAL_SEED).integers(2**60)
    rng = np.random.default_rng(3)
    assert generator(rng) is rng


def test_streams_are_children_of_the_seed():
    child = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(1, 2)))
    assert stream(entropy_of(5), 1, 2).integers(2**60) == child.integers(2**60)
    assert entropy_of(np.random.default_rng(4)) == [int(v) for v in np.random.default_rng(4).integers(0, 2**31, size=4)]
    assert entropy_of(None) != entropy_of(None)


def test_samples_differ_without_a_seed():
    assert sampler(None).integers(2**60) != sampler(None).integers(2**60)
    assert sampler(6).integers(2**60) == stream(6, 2).integers(2**60)
    rng = np.random.default_rng(3)
    assert sampler(rng) is rng
    drawn = np.random.RandomState(1).randint(2**31)
    assert sampler(np.random.RandomState(1)).integers(2**60) == stream(drawn, 2).integers(2**60)


@pytest.mark.parametrize("read", [seed_for, generator, entropy_of, sampler])
@pytest.mark.parametrize("wrong", ["x", 1.5, object()])
def test_what_is_no_seed_is_refused_by_its_name(read, wrong):
    with pytest.raises(ParameterError, match="random_state must be") as refusal:
        read(wrong)
    assert refusal.value.parameter == "random_state"
