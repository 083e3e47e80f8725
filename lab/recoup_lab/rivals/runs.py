"""Run what is missing of a comparison, one run after the other, each on disk as soon as it is finished."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from recoup._files import exclusive, write_whole
from recoup.version import __version__
from recoup_lab.experiments.datasets import LoadedSet
from recoup_lab.experiments.run import Run
from recoup_lab.experiments.scoring import wcss
from recoup_lab.rivals.contestants import CONTESTANTS, DEFAULT, Contestant, Environment
from recoup_lab.rivals.foreign import Foreign, NoAnswerError
from recoup_lab.rivals.marginals import marginal_distance

SCREENED = 1  # seeds on which every number of bins runs; then the default alone, and the best of these
OF_THE_BEST = 17  # seeds: these systems take hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run, finished or given up.

    Attributes:
        set: name of the set; `digest` is of its records and bounds.
        contestant: its name.
        epsilon: none where nothing depends on it.
        seed: of what can be seeded; noise of OpenDP cannot.
        wcss: none where it was given up.
        seconds: of a processor.
        marginals: mean total variation of two-way marginals of the data that it made, if it made some.
        why: it was given up; no other seed of this setting is tried.
        recoup: version.
    """

    set: str
    digest: str
    contestant: str
    epsilon: float | None
    seed: int
    wcss: float | None = None
    seconds: float | None = None
    marginals: float | None = None
    why: str | None = None
    recoup: str = __version__

    def in_words(self) -> str:
        """For a terminal.

        >>> Outcome(set="s1", digest="", contestant="recoup", epsilon=1.0, seed=0, wcss=41.2, seconds=1.5).in_words()
        's1, recoup, epsilon 1.0, seed 0: WCSS 41.2, 1.5 s'
        """
        came_to = self.why if self.wcss is None else f"WCSS {self.wcss:.5g}, {self.seconds} s"
        return f"{self.set}, {self.contestant}, epsilon {self.epsilon}, seed {self.seed}: {came_to}"


def read(path: Path) -> list[Outcome]:
    """The runs of a file, without a line that a crash cut short; none if there is no file."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def forget(path: Path, contestants: Sequence[str]) -> None:
    """Drop the runs of contestants that changed, so that they are run again."""
    if contestants:
        with exclusive(path):
            kept = [outcome for outcome in read(path) if outcome.contestant not in contestants]
            write_whole(path, "".join(_line(outcome) for outcome in kept))


def shown(outcomes: Sequence[Outcome], family: str) -> list[str]:
    """The settings of a family that more than the first seeds are for: the default, and the best mean of those.

    The runs are those of one set and one epsilon.

    >>> run = Outcome(set="a", digest="", contestant="aim-8-gaussian", epsilon=1.0, seed=0, wcss=2.0)
    >>> shown([run, replace(run, contestant="aim-64-gaussian", wcss=1.0)], "aim")
    ['aim-32-gaussian', 'aim-64-gaussian']
    """
    scores: dict[str, list[float]] = {}
    for run in outcomes:
        if run.contestant.startswith(f"{family}-") and run.wcss is not None and run.seed < SCREENED:
            scores.setdefault(run.contestant, []).append(run.wcss)
    best = [min(scores, key=lambda name: float(np.mean(scores[name])))] if scores else []
    return list(dict.fromkeys([f"{family}-{DEFAULT}", *best]))


def run_missing(
    path: Path,
    sets: Sequence[LoadedSet],
    epsilons: Sequence[Fraction],
    n_seeds: int,
    environments: Mapping[Environment, Foreign],
    on_run: Callable[[Outcome], None] = lambda _: None,
    known: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Run what a file lacks; returns all of it.

    Args:
        path: the file of the runs.
        sets: the tables.
        epsilons: one after the other, so that an interrupted comparison is whole for the first.
        n_seeds: from 0.
        environments: those that are there; contestants of others do not take part.
        on_run: called after each run.
        known: runs to begin with where there is no file yet.
    """
    present = [c for c in CONTESTANTS.values() if c.environment is None or c.environment in environments]
    # What is quick first, then the defaults: whatever is stopped half-way holds something of every set.
    present.sort(key=lambda contestant: (contestant.family is not None, not contestant.name.endswith(DEFAULT)))
    with exclusive(path):
        outcomes = read(path) if path.exists() else list(known)
        write_whole(path, "".join(_line(outcome) for outcome in outcomes))  # without half a line
        for epsilon in epsilons:
            for seed in range(n_seeds):
                for contestant in present:
                    for data in sets:
                        price = None if contestant.name == "non-private" else epsilon
                        at = None if price is None else float(price)
                        here = [o for o in outcomes if (o.set, o.digest, o.epsilon) == (data.name, data.digest, at)]
                        if not _is_missing(contestant, seed, here):
                            continue
                        foreign = environments[contestant.environment] if contestant.environment else None
                        outcome = _measured(contestant, Run.of(data, "user", price, seed), foreign)
                        _append(path, outcome)
                        outcomes.append(outcome)
                        on_run(outcome)
    return outcomes


def _is_missing(contestant: Contestant, seed: int, here: Sequence[Outcome]) -> bool:
    own = [outcome for outcome in here if outcome.contestant == contestant.name]
    if any(outcome.seed == seed or outcome.why is not None for outcome in own):
        return False
    if contestant.name == "non-private":
        return seed == 0 and not own
    if contestant.family is None or seed < SCREENED or contestant.name.endswith(DEFAULT):
        return True
    return seed < OF_THE_BEST and contestant.name in shown(here, contestant.family)


def _measured(contestant: Contestant, run: Run, foreign: Foreign | None) -> Outcome:
    outcome = Outcome(
        set=run.data.name,
        digest=run.data.digest,
        contestant=contestant.name,
        epsilon=None if run.epsilon is None else float(run.epsilon),
        seed=run.seed,
    )
    try:
        answer = contestant.answer(run, foreign)
    except NoAnswerError as error:
        return replace(outcome, why=str(error))
    unit = run.domain.to_unit(run.data.rows)
    distance = None if answer.points is None else marginal_distance(unit, answer.points, answer.weights)
    score = wcss(unit, answer.centers, run.domain)
    return replace(outcome, wcss=score, seconds=round(answer.seconds, 2), marginals=distance)


def _append(path: Path, outcome: Outcome) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(outcome))
        file.flush()
        os.fsync(file.fileno())


def _line(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome), allow_nan=False) + "\n"
