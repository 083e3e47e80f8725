"""Inference by what its cost depends on: rounds, clusters, columns and support; never on the number of records.

Non-private k-means on the raw records (ten starts) is the yardstick: what an analyst with access would wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.domain import Array, L1Ball
from recoup.driver import release
from recoup.inference.infer import infer
from recoup.transcript.transcript import Transcript
from recoup_lab.bench.data import blobs
from recoup_lab.bench.growth import growth_of_races
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Contestant, Rules, describe_machine, finished, race

MAXENT, MCMC, YARDSTICK = "maxent", "mcmc", "scikit-learn KMeans, 10 starts"
N_STEPS: Final = 30_000  # of a chain: the paper's


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one inference is about.

    >>> Shape(n_rounds=5, n_clusters=15, n_columns=2).n_rows
    225
    """

    n_rounds: int = 5
    n_clusters: int = 15
    n_columns: int = 2
    n_points: int = 10_000

    @property
    def n_rows(self) -> int:
        """Released values: T K (d + 1)."""
        return self.n_rounds * self.n_clusters * (1 + self.n_columns)


def shapes(quick: bool) -> list[Shape]:
    """A base, and each factor varied alone."""
    base = Shape()
    if quick:
        return [base, replace(base, n_rounds=2), replace(base, n_clusters=5), replace(base, n_points=2500)]
    return [
        base,
        *(replace(base, n_rounds=t) for t in (2, 10, 20)),
        *(replace(base, n_clusters=k) for k in (5, 50)),
        *(replace(base, n_columns=d) for d in (10, 50)),
        *(replace(base, n_points=m) for m in (2_500, 40_000)),
    ]


def measure_inference(rules: Rules) -> Part:
    """Time the maximum-entropy estimator and the sampler; in the facts, growth with the number of released values."""
    with rules.cores():
        return _measured(rules)


def _measured(rules: Rules) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    n_records = rules.size(100_000, 20_000)
    warm = Shape(n_rounds=2, n_clusters=2, n_points=200)
    x = blobs(1000, 2, 2)
    for contestant in _contestants(_transcript(x, warm), x, warm, rules).values():
        contestant()  # imports and compiled kernels
    for shape in shapes(rules.quick):
        rules.say(
            f"inference: {shape.n_rounds} rounds, {shape.n_clusters} clusters, {shape.n_columns} columns, "
            f"{shape.n_points:,} points"
        )
        x = blobs(n_records, shape.n_columns, shape.n_clusters)
        transcript = _transcript(x, shape)
        contestants = _contestants(transcript, x, shape, rules)
        seconds = race(contestants, repeats=2 if rules.quick else 5, patience=2.0 if rules.quick else 15.0)
        described: dict[str, int | str] = {
            "n_rounds": shape.n_rounds,
            "n_clusters": shape.n_clusters,
            "n_columns": shape.n_columns,
            "n_points": shape.n_points,
            "n_rows": shape.n_rows,
        }
        races.append(Race(shape=described, seconds=dict(seconds)))
    return Part(
        name="inference",
        quick=rules.quick,
        machine=finished(machine),
        races=tuple(races),
        facts={
            "n_records": n_records,
            "n_steps": N_STEPS,
            "growth": {
                MAXENT: growth_of_races(races, MAXENT, ("n_rows", "n_points")).to_json(),
                MCMC: growth_of_races(races, MCMC, ("n_rows",)).to_json(),
            },
        },
    )


def _transcript(x: Array, shape: Shape) -> Transcript:
    return release(
        KMeans(n_clusters=shape.n_clusters, n_rounds=shape.n_rounds),
        x,
        domain=L1Ball((-1.0,) * shape.n_columns, (1.0,) * shape.n_columns),
        epsilon=1.0,
        random_state=0,
        noise="simulated",
    )


def _contestants(transcript: Transcript, x: Array, shape: Shape, rules: Rules) -> dict[str, Contestant]:
    from sklearn.cluster import KMeans as PlainKMeans

    return {
        MAXENT: rules.timed(
            lambda: infer(transcript, method="maxent", n_points=shape.n_points, random_state=0, warn=False)
        ),
        MCMC: rules.timed(lambda: infer(transcript, method="mcmc", n_steps=N_STEPS, random_state=0, warn=False)),
        YARDSTICK: rules.timed(lambda: PlainKMeans(shape.n_clusters, n_init=10, random_state=0).fit(x)),
    }
