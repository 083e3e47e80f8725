"""Write the golden transcripts and ledger of the current versions: run it only when a version has been raised.

A file that exists is never touched; it must load for ever.
"""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from recoup import (
    Box,
    Category,
    HybridKMeans,
    KMeans,
    L1Ball,
    L2Ball,
    Ledger,
    Number,
    Schema,
    release,
    transcript_from,
)
from recoup.curator.curator import Curator
from recoup.curator.source import open_source, source_of
from recoup.curator.tables.table import OpenTable
from recoup.mixed import Mixed
from recoup.privacy.ledger_file import VERSION
from recoup.privacy.mechanism import SimulatedNoise
from recoup.privacy.price import Price
from recoup.privacy.statement import Unit
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal, marginals_of_domain
from recoup.transcript.context import Context, Request
from recoup.transcript.transcript import Payment, Transcript

FOLDER = Path(__file__).parent
RUNS = ("5f0e4d9c6a7b48f1a2c3d4e5f60718a9", "0a1b2c3d4e5f60718293a4b5c6d7e8f9")


def lloyd() -> Transcript:
    """A whole release of the paper's algorithm."""
    x = np.random.default_rng(0).normal([[20.0, 3.0]], [5.0, 1.0], size=(500, 2))
    domain = Box([0, 0], [50, 10], ("age", "visits"))
    table = {name: x[:, j] for j, name in enumerate(domain.columns or ())}
    algorithm = KMeans(n_clusters=2, n_rounds=3)
    made = release(algorithm, pa.table(table), domain=domain, epsilon="0.7", random_state=0, noise="simulated")
    return replace(made, payment=Payment("0123456789abcdef0123456789abcdef", RUNS[0]))


def hybrid() -> Transcript:
    """A whole release of a total, a grid and a Lloyd round."""
    x = np.random.default_rng(0).normal([[20.0, 3.0, 1.0]], [5.0, 1.0, 0.5], size=(500, 3))
    domain = L1Ball([0, 0, 0], [50, 10, 2])
    return release(HybridKMeans(n_clusters=2), x, domain=domain, epsilon="0.7", random_state=0, noise="simulated")


def every_query() -> Transcript:
    """One round of every kind of query under Gaussian noise, with a lost and a pending share."""
    domain = L2Ball([-1, 0], [1, 4], radius=1.25)
    context = Context(
        domain=domain,
        epsilon=Fraction(2),
        delta=Fraction(1, 10**6),
        mechanism="gaussian",
        n_records=1000,
        records_per_person=3,
    )
    centers = np.array([[-0.5, 0.25], [0.5, -0.125]])
    queries = [
        VoronoiQuery(centers=centers, sums="none"),
        VoronoiQuery(centers=centers),
        VoronoiQuery(centers=centers, sums="relative", radii=np.array([0.25, 0.5]), norm=2),
        GridQuery(sides=(2, 3)),
        HistogramQuery.one_way(dimension=2, bins=4),
        HistogramQuery(dimension=2, marginals=(Marginal(columns=(0, 1), sides=(2, 2)),)),
    ]
    x = np.random.default_rng(1).uniform([-1, 0], [1, 4], size=(300, 2))
    curator = Curator(open_source(x, domain), context)
    noise = SimulatedNoise(np.random.default_rng(2))
    rounds = []
    for query in queries:
        blocks = query.sensitivity(domain).names
        split = {"count": Fraction(1)} if blocks == ("count",) else {"count": Fraction(1, 3), "sum": Fraction(2, 3)}
        rounds.append(curator.answer(Request(query=query, share=Fraction(1, 10), split=split), noise))
    return Transcript(
        context=context,
        algorithm=KMeans(n_clusters=2, n_rounds=10).to_json(),
        rounds=tuple(rounds),
        simulated=True,
        lost=(Fraction(1, 20),),
        pending=Fraction(1, 40),
    )


def persons() -> Transcript:
    """Columns of every kind, and a sample of each person's records, under Laplace noise."""
    schema = Schema(
        {
            "age": Number(0, 110, unit="years"),
            "charges": Number(1, 1e6, scale="log", unit="EUR", missing=1),
            "lab": Number(40, 400, scale=(100, 200), missing="own", weight=0.5),
            "sex": Category(["F", "M"], missing="F"),
            "ward": Category(["a", "b", "c"], weight=0.5, other=True, missing="own"),
            "stage": Category([1, 2, 3], ordered=True),
        }
    )
    domain = Mixed(schema=schema)
    context = Context(
        domain=domain,
        epsilon=Fraction(1),
        records_per_person=2,
        csv_dialect="rfc4180",
        person="patient",
        per_person="sample",
        sample_key="00112233445566778899aabbccddeeff",
    )
    rng = np.random.default_rng(1)
    raw = np.column_stack([rng.uniform(0, 110, 300), rng.uniform(1, 1e6, 300), rng.uniform(40, 400, 300)])
    codes = np.column_stack([rng.integers(0, n, 300) for n in (2, 4, 3)])
    table = OpenTable(None, 6, lambda _: iter((np.column_stack([raw, codes]),)))
    centers = np.zeros((2, domain.n_columns))
    centers[:, 0] = -0.5, 0.5
    queries = [
        HistogramQuery(dimension=domain.n_columns, marginals=marginals_of_domain(domain, 4)),
        VoronoiQuery(centers=domain.clip(centers)),
    ]
    curator, noise = Curator(source_of(table, domain, keep=True), context), SimulatedNoise(np.random.default_rng(2))
    splits = ({"count": Fraction(1)}, {"count": Fraction(1, 3), "sum": Fraction(2, 3)})
    rounds = [
        curator.answer(Request(query=query, share=Fraction(1, 4), split=split), noise)
        for query, split in zip(queries, splits, strict=True)
    ]
    algorithm = KMeans(n_clusters=2, n_rounds=4).to_json()
    return Transcript(context=context, algorithm=algorithm, rounds=tuple(rounds), simulated=True)


def imported() -> Transcript:
    """Answers that were made elsewhere: a scale for all, for each block, and for each value."""
    centers = np.array([[-0.5, 0.25], [0.5, -0.125]])
    return transcript_from(
        domain=Box([0, 0], [50, 10], ("age", "visits")),
        epsilon="0.7",
        neighbours="replace-one-record",
        simulated=True,
        algorithm=KMeans(n_clusters=2, n_rounds=3),
        rounds=[
            (GridQuery(sides=(1, 2)), [251.5, 248.25], 4.0),
            (HistogramQuery.one_way(dimension=2, bins=2), [260.125, 240.5, 251.0, 247.75], [2.0, 2.0, 3.0, 3.0]),
            (VoronoiQuery(centers=centers), [262.5, 239.0, -130.5, 61.25, 118.75, -30.0], [5.0, 10.0]),
        ],
    )


def ledger(path: Path) -> None:
    """A ledger for five records of a person, with charges of both kinds; one says what it is for."""
    made = Ledger.create(path, epsilon=3, delta="1e-6", records_per_person=5)
    made.begin(RUNS[0], purpose="opening hours of the clinics", by="ada")
    pure, gaussian = Price(measure="pure", amount=Fraction(1, 4)), Price(measure="gaussian", amount=Fraction(1, 1000))
    made.charge(pure, purpose="voronoi query of 6 values", run=RUNS[0], unit=Unit(records_per_person=5))
    made.charge(gaussian, purpose="grid query of 4 values", run=RUNS[1])


if __name__ == "__main__":
    if not (kept := FOLDER / f"ledger-v{VERSION}.db").exists():
        ledger(kept)
    made = {"foreign": imported(), "lloyd": lloyd(), "hybrid": hybrid(), "every-query": every_query()}
    made["persons"] = persons()
    for name, transcript in made.items():
        file = FOLDER / f"{name}-v{transcript.to_json()['schema_version']}.json"
        if not file.exists():
            transcript.save(file)
