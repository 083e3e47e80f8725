"""Attacks through a connection to a served curator succeed against code that is wrong, and fail on code as it is.

Noise has no seed: the two statistical findings on right code raise a false alarm with a probability of 3e-6 a run. Of a
fifth of the noise so few answers show enough in more than 99 of 100 runs, by the bound; by the law always.
"""

import logging
from dataclasses import replace
from itertools import islice

import pytest

import recoup.serve.app
from recoup.curator.source import TableSource
from recoup.privacy.ledger import Ledger
from recoup.privacy.mechanism import Laplace
from recoup.serve.store import Store
from recoup_lab.audit.attacks import connected_noise, connected_spending
from recoup_lab.audit.attacks.connected_noise import attack_noise
from recoup_lab.audit.attacks.connected_silence import attack_silence
from recoup_lab.audit.attacks.connected_spending import attack_spending
from recoup_lab.audit.attacks.effort import ALARM, Effort

EFFORT = Effort(quick=True)
TRIES = 300


def caught(attack):
    """The names of attacks that find something."""
    return {found.attack for found in attack(EFFORT, "connected") if not found.passed}


def noise_found(monkeypatch):
    """What few answers with Laplace noise show: the bound, and the law."""
    monkeypatch.setattr(Effort, "tries", lambda self, full, quick: TRIES)
    return list(islice(attack_noise(EFFORT, "connected"), 2))


@pytest.mark.statistical
def test_noise_over_http_is_as_claimed(monkeypatch):
    bound, law = noise_found(monkeypatch)
    assert (bound.attack, bound.tries, bound.passed, bound.alarm) == (connected_noise.BOUND, 2 * TRIES, True, ALARM)
    assert law.passed


@pytest.mark.statistical
def test_a_fifth_of_the_noise_is_caught(monkeypatch):
    properly = Laplace.release
    monkeypatch.setattr(Laplace, "release", lambda self, totals, scale, noise: properly(self, totals, scale / 5, noise))
    assert [found.passed for found in noise_found(monkeypatch)] == [False, False]


def test_charges_and_replies_are_right():
    assert caught(attack_spending) == set()
    assert caught(attack_silence) == set()


def test_half_a_charge_to_the_table_is_caught(monkeypatch):
    properly = Ledger.charge

    def half(self, price, **named):
        properly(self, replace(price, amount=price.amount / 2), **named)

    monkeypatch.setattr(Ledger, "charge", half)
    assert caught(attack_spending) == {connected_spending.CHARGES, connected_spending.USED_UP}


def test_half_a_charge_to_the_token_is_caught(monkeypatch):
    properly = Store.reserve

    def half(self, answer, *given):
        price = replace(answer.price, amount=answer.price.amount / 2)
        properly(self, answer._replace(price=price), *given)

    monkeypatch.setattr(Store, "reserve", half)
    assert caught(attack_spending) == {connected_spending.CHARGES, connected_spending.USED_UP}


def test_a_number_of_rows_in_log_and_header_is_caught(monkeypatch):
    total, json, rows = TableSource.total, recoup.serve.app._json, []

    def counting(self, query, factors):
        rows[:] = [sum(len(block) for block in self.records())]
        logging.getLogger("recoup.serve").debug("%d rows", *rows)
        return total(self, query, factors)

    def telling(body, status=200):
        reply = json(body, status)
        reply.headers["x-rows"] = str(rows)
        return reply

    monkeypatch.setattr(TableSource, "total", counting)
    monkeypatch.setattr(recoup.serve.app, "_json", telling)
    assert caught(attack_silence) == {"side information", "replies to neighbours"}
