"""Harmless choices that nobody seeded: if they come again with the same table, they were computed from its records.

First centres, orders and candidates may be known to everybody and may not depend on a record. Without a seed they come
from the operating system, so further runs on the same table must choose differently, with the noise held as it was.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from recoup.errors import DoubtfulResult
from recoup.estimators import PrivateKMeans
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.sampler import listening
from recoup_lab.audit.attacks.subjects import BOX, Subject, Terms, ordinary_table, subjects
from recoup_lab.audit.findings import Finding

ATTACK: Final = "choices without a seed"
_TIMES: Final = 4


def unseeded_choices(effort: Effort, group: str) -> Iterator[Finding]:
    """Make every algorithm and rival choose some times without a seed, on one table.

    What chooses alike with any two of as many seeds has too little to choose, and is left out.
    """
    table = ordinary_table(BOX, 15, effort.rng(9))
    for subject in subjects():
        yield from _compared(effort, group, subject.name, _chosen_by(subject, table))
    yield from _compared(effort, group, "PrivateKMeans", _chosen_by_default(table))


def _compared(effort: Effort, group: str, target: str, chosen: Callable[[int | None], str]) -> Iterator[Finding]:
    def held(seed: int | None) -> str:
        with listening(held=effort.seed):
            return chosen(seed)

    if len({held(seed) for seed in range(_TIMES)}) < _TIMES:
        return
    # Some can choose among few things only, so that two choices may agree by chance.
    again = len({held(None) for _ in range(_TIMES)}) == 1
    yield Finding(
        group=group,
        attack=ATTACK,
        target=target,
        tries=_TIMES,
        result="always chosen alike, without a seed" if again else "choices differ",
        passed=not again,
    )


def _chosen_by(subject: Subject, table: Array) -> Callable[[int | None], str]:
    def chosen(seed: int | None) -> str:
        released = subject.run(table, Terms(), seed=seed)
        if released.transcript is not None:
            return _asked(released.transcript)
        assert released.centers is not None
        return repr(released.centers.tolist())

    return chosen


def _chosen_by_default(table: Array) -> Callable[[int | None], str]:
    def chosen(seed: int | None) -> str:
        terms: dict[str, Any] = {"n_clusters": 2, "n_rounds": 2, "bounds": (list(BOX.low), list(BOX.high))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResult)  # the table is tiny
            return _asked(PrivateKMeans(epsilon=1, random_state=seed, **terms).fit(table).transcript_)

    return chosen


def _asked(transcript: Transcript) -> str:
    return json.dumps([answered.query.to_json() for answered in transcript.rounds])
