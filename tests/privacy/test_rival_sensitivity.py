"""GUPT and PrivGene on neighbouring tables: how far their exact integers move.

Brute force over neighbours at the corners of every domain, with the harmless randomness held fixed. The promise of GUPT
holds for any function of a block, so it is also handed functions that react to every record as strongly as can be.
Every check has a planted bug that it must catch.
"""

import itertools
import zlib
from fractions import Fraction

import numpy as np
import pytest
from cases import RecordingNoise, context, domains, extreme_rows
from rival_cases import RecordingSelector, block_of_parity, run, unclipped

import recoup.curator.rivals.gupt as gupt
import recoup.curator.rivals.privgene as privgene
from recoup import Box
from recoup.curator.rivals.gupt import Gupt, assigned_blocks
from recoup.curator.rivals.privgene import PrivGene, integer_losses, loss_range
from recoup.curator.source import open_source
from recoup.kernels.weighted_kmeans import Clustering
from recoup.privacy.mechanism import SENSITIVITY

# ---- GUPT: one record changes one block, and so the sum by at most D ----


def block_of_content(points, weights, n_clusters, **_):
    """As sensitive, by every bit of the block: whichever record it gains or loses, it may end in the other corner."""
    odd = zlib.crc32(points.tobytes()) % 2
    return Clustering(np.full((n_clusters, points.shape[1]), 50.0 if odd else -50.0), 0.0)


def gupt_totals(table, domain, *, n_clusters=2, n_blocks=3):
    noise = RecordingNoise()
    run(Gupt(n_clusters=n_clusters, n_blocks=n_blocks), table, context(domain), noise=noise)
    ((_, totals, _),) = noise.calls
    return totals


def largest_move_of_gupt(domain, **terms):
    """The largest L1 change of GUPT's integer sum over neighbours, as a fraction of the sensitivity."""
    rows, largest = extreme_rows(domain), Fraction(0)
    mixed = np.concatenate(
        [rows, rows[:3], np.random.default_rng(1).uniform(domain.low, domain.high, (12, len(rows[0])))]
    )
    for base in (rows[:0], rows[:1], np.repeat(rows[:1], 5, axis=0), mixed):
        before = gupt_totals(base, domain, **terms)
        for row in rows:
            # In the middle: whatever depends on the place of a row would shift.
            after = gupt_totals(np.insert(base, len(base) // 2, row, axis=0), domain, **terms)
            moved = sum(abs(a - b) for a, b in zip(after, before, strict=True))
            largest = max(largest, Fraction(moved, SENSITIVITY))
    return largest


@pytest.mark.parametrize("domain_name", domains(1))
def test_gupt_moves_by_at_most_the_sensitivity(domain_name):
    for d, n_blocks in ((1, 2), (2, 1), (2, 4)):
        assert largest_move_of_gupt(domains(d)[domain_name], n_blocks=n_blocks) <= 1


@pytest.mark.parametrize("domain_name", domains(1))
def test_gupt_moves_by_at_most_the_sensitivity_whatever_is_done_with_a_block(domain_name, monkeypatch):
    monkeypatch.setattr(gupt, "weighted_kmeans", block_of_parity)
    for d, n_blocks in itertools.product((1, 3), (1, 4)):
        found = largest_move_of_gupt(domains(d)[domain_name], n_blocks=n_blocks)
        assert found <= 1
        if n_blocks == 1 and domain_name in ("box", "l2-tight", "l1-tight"):
            assert found > 1 - 1e-6


def test_a_factor_a_little_too_large_is_caught(monkeypatch):
    monkeypatch.setattr(gupt, "weighted_kmeans", block_of_parity)
    monkeypatch.setattr(gupt, "_SHAVE", 1.0001)
    assert largest_move_of_gupt(domains(2)["box"]) > 1


def test_outputs_that_are_not_clamped_are_caught(monkeypatch):
    monkeypatch.setattr(gupt, "weighted_kmeans", block_of_parity)
    monkeypatch.setattr(Box, "clip", lambda self, unit: np.asarray(unit))
    assert largest_move_of_gupt(domains(2)["box"]) > 1


def cut_in_order(records, n_blocks, key):
    return np.arange(len(records)) * n_blocks // max(len(records), 1)


def drawn_by_row(records, n_blocks, key):
    return np.random.default_rng(key).integers(n_blocks, size=len(records))


@pytest.mark.parametrize("shifting", [cut_in_order, drawn_by_row])
def test_blocks_that_shift_are_caught(shifting, monkeypatch):
    monkeypatch.setattr(gupt, "weighted_kmeans", block_of_content)
    assert largest_move_of_gupt(domains(2)["box"], n_blocks=4) <= 1
    monkeypatch.setattr(gupt, "assigned_blocks", shifting)
    assert largest_move_of_gupt(domains(2)["box"], n_blocks=4) > 1


def test_one_record_joins_one_block_and_all_others_stay():
    rng = np.random.default_rng(3)
    for seed in range(30):
        records = rng.integers(-2, 3, size=(60, 2)).astype(np.int32)
        further = rng.integers(-2, 3, size=(1, 2)).astype(np.int32)
        counts = []
        for table in (records, np.concatenate([further, records])):
            ordered = table[np.lexsort(table.T[::-1])]
            blocks = assigned_blocks(ordered, 7, seed)
            counts.append({(b, *r): 0 for b in range(7) for r in itertools.product(range(-2, 3), repeat=2)})
            for block, record in zip(blocks, ordered, strict=True):
                counts[-1][int(block), *map(int, record)] += 1
        changed = {cell for cell in counts[0] if counts[0][cell] != counts[1][cell]}
        assert len(changed) == 1


def test_equal_records_are_spread_over_the_blocks():
    records = np.zeros((20_000, 2), dtype=np.int32)
    counts = np.bincount(assigned_blocks(records, 20, 0), minlength=20)
    assert counts.min() > 800
    assert counts.max() < 1200


# ---- PrivGene: a record moves all scores in one direction, by at most D ----


def largest_move_of_privgene(domain, *, n_clusters=2, seed=0):
    """The largest and smallest change of any loss in any round when a record is added, in parts of the sensitivity."""
    rows = extreme_rows(domain)

    def losses(table):
        selector = RecordingSelector()
        rival = PrivGene(n_clusters=n_clusters, n_rounds=3, n_candidates=12, n_survivors=4)
        run(rival, table, context(domain), seed=seed, selector=selector)
        return [[-s for s in scores] for scores, _, _ in selector.calls]

    moves = []
    for base in (rows[:0], rows):
        before = losses(base)
        for row in rows:
            after = losses(np.concatenate([base, row[None]]))
            moves += [b - a for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True)]
    return Fraction(max(moves), SENSITIVITY), Fraction(min(moves), SENSITIVITY)


@pytest.mark.parametrize("domain_name", domains(1))
def test_privgene_moves_every_loss_up_by_at_most_the_sensitivity(domain_name):
    for d in (1, 2):
        most, least = largest_move_of_privgene(domains(d)[domain_name])
        assert 0 == least < most <= 1


def test_the_sensitivity_is_attained():
    candidates = np.array([[[0.5]], [[0.25]]])
    domain = Box([-1], [1])
    assert loss_range(domain, candidates) == 1.5**2 - 1.25**2
    found = integer_losses(open_source([[-1.0]], domain), domain, candidates, SENSITIVITY)
    assert found == [SENSITIVITY, 0]


def test_a_range_that_is_too_small_costs_accuracy_but_no_privacy(monkeypatch):
    monkeypatch.setattr(privgene, "loss_range", lambda *_: 0.01)
    assert largest_move_of_privgene(domains(2)["box"])[0] == 1


def test_scores_without_a_cap_are_caught(monkeypatch):
    monkeypatch.setattr(privgene, "excess_totals", unclipped)
    assert largest_move_of_privgene(domains(2)["l1"])[0] <= 1
    monkeypatch.setattr(privgene, "loss_range", lambda *_: 0.5)
    assert largest_move_of_privgene(domains(2)["l1"])[0] > 1


def test_losses_in_place_of_their_excess_are_caught(monkeypatch):
    def plain(records, centers, members, factor, cap, totals):
        distances = ((records[:, None] * 2.0**-30 - centers) ** 2).sum(axis=2)
        totals += np.trunc(distances[:, members].min(axis=2) * factor).astype(np.int64).sum(axis=0)

    candidates, domain = np.array([[[0.5]], [[0.25]]]), Box([-1], [1])
    monkeypatch.setattr(privgene, "excess_totals", plain)
    assert max(integer_losses(open_source([[-1.0]], domain), domain, candidates, SENSITIVITY)) > SENSITIVITY


@pytest.mark.parametrize("domain_name", domains(1))
def test_the_public_range_covers_every_record(domain_name):
    rng, largest = np.random.default_rng(2), 0.0
    for d in (1, 2, 3):
        domain = domains(d)[domain_name]
        records = domain.to_unit(np.concatenate([extreme_rows(domain), rng.uniform(-5, 8, size=(200, d))]))
        for spread in (1.0, 0.05):
            candidates = domain.clip(rng.uniform(-0.6, 0.6, (1, 3, d)) + spread * rng.standard_normal((6, 3, d)))
            losses = ((records[:, None, None] - candidates) ** 2).sum(axis=3).min(axis=2)
            ratio = (losses.max(axis=1) - losses.min(axis=1)).max() / loss_range(domain, candidates)
            assert ratio <= 1 + 1e-9
            largest = max(largest, ratio)
    assert largest > 0.2
