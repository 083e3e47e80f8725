"""Numbers and categories together: Adult with all its columns, against k-prototypes without privacy, and AIM.

32,561 records, six numbers, eight categories, 2,399 records with an empty cell, K = 5; `classification` is left out.
Everyone is scored alike, on the true records: squared differences of numbers, scaled to [-1, 1] by the declared bounds,
plus gamma for each category that is not the mode of its cluster. Bounds and values are those of the census's own
description of its questions, not of this file; an empty cell is a category of its own.

AIM and MST, then k-prototypes: opendp's, in an environment of their own, numbers in equal bins, as many synthetic
records as there are records, numbers uniform within their bins, then the same k-prototypes. Simulated noise: nothing is
private.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from recoup import Category, Number, PrivateKMeans, Schema
from recoup.curator.tables.open import open_table
from recoup.mixed import Mixed
from recoup.privacy.price import as_fraction, rho_of
from recoup_lab.rivals.foreign import Foreign, NoAnswerError

K, GAMMA, RESTARTS, BINS = 5, 0.25, 10, 16
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
WITH_EMPTY = ("workclass", "occupation", "native_country")


def schema_of(gamma):
    """The columns as the census describes them."""
    numbers = {name: Number(*bounds) for name, bounds in NUMBERS.items()}
    categories = {
        name: Category(values.split(), weight=gamma, missing="own" if name in WITH_EMPTY else None)
        for name, values in CATEGORIES.items()
    }
    return Schema(numbers | categories)


class Prototypes:
    """Records as scaled numbers and places of categories, and the loss that all are compared by."""

    def __init__(self, numbers, categories, gamma):
        self.numbers, self.categories, self.gamma = numbers, categories, gamma

    @classmethod
    def of(cls, domain, unit, gamma):
        """From points of the unit domain: records, or centres, whose modes are taken."""
        numbers = [unit[:, part.first] for part in domain.parts if part.kind == "number"]
        places = [
            unit[:, part.own].argmax(axis=1) if part.kind == "corners" else (unit[:, part.first] > 0).astype(np.int64)
            for part in domain.parts
            if part.kind != "number"
        ]
        return cls(np.column_stack(numbers), np.column_stack(places), gamma)

    def costs(self, others):
        """The cost of every record at every prototype."""
        return np.stack(
            [
                ((self.numbers - numbers) ** 2).sum(axis=1) + self.gamma * (self.categories != categories).sum(axis=1)
                for numbers, categories in zip(others.numbers, others.categories, strict=True)
            ],
            axis=1,
        )

    def loss(self, prototypes):
        """The sum of the cost of every record at its nearest prototype."""
        return float(self.costs(prototypes).min(axis=1).sum())

    def taken(self, rows):
        """Some of the records."""
        return Prototypes(self.numbers[rows], self.categories[rows], self.gamma)

    def fitted(self, k, seed):
        """K-prototypes (Huang 1998): the best of several starts, from records drawn at random."""
        rng, best = np.random.default_rng(seed), (np.inf, None)
        for _ in range(RESTARTS):
            prototypes, before = self.taken(rng.choice(len(self.numbers), k, replace=False)), np.inf
            while True:
                costs = self.costs(prototypes)
                owners, loss = costs.argmin(axis=1), float(costs.min(axis=1).sum())
                if loss >= before - 1e-9 or len(np.unique(owners)) < k:
                    break
                before = loss
                prototypes = Prototypes(
                    np.array([self.numbers[owners == c].mean(axis=0) for c in range(k)]),
                    np.array([[np.bincount(v).argmax() for v in self.categories[owners == c].T] for c in range(k)]),
                    self.gamma,
                )
            best = min(best, (before, prototypes), key=lambda found: found[0])
        return best[1]


def ours(path, schema, domain, records, seed, epsilon, delta):
    """Multiple of the loss, and seconds, of a private fit."""
    start = time.process_time()
    model = PrivateKMeans(K, epsilon, schema, delta=delta, random_state=seed, noise="simulated").fit(path)
    centers = Prototypes.of(domain, domain.to_unit(model.cluster_centers_), records.gamma)
    return records.loss(centers), time.process_time() - start


def synthetic(foreign, how, records, sizes, seed, epsilon, delta):
    """The same of AIM or MST, then k-prototypes."""
    width = len(NUMBERS)
    levels = np.clip(np.floor((records.numbers + 1.0) / 2.0 * BINS), 0, BINS - 1)
    table = np.column_stack([levels, records.categories]).astype(np.float64)
    rho = np.nextafter(float(rho_of(as_fraction(epsilon, "epsilon"), as_fraction(delta, "delta"))), 0.0)
    made = foreign.ask(table, how=how, sizes=[BINS] * width + sizes, loss={"rho": float(rho)})
    rng, start = np.random.default_rng(seed), time.process_time()
    numbers = (made.points[:, :width] + rng.random((len(made.points), width))) / BINS * 2.0 - 1.0
    found = Prototypes(numbers, made.points[:, width:].astype(np.int64), records.gamma).fitted(K, seed)
    return records.loss(found), made.seconds + time.process_time() - start


def shown(name, outcomes, floor):
    """One line of the table."""
    multiples = np.array([loss / floor for loss, _ in outcomes])
    error = multiples.std(ddof=1) / np.sqrt(len(multiples)) if len(multiples) > 1 else 0.0
    seconds = np.median([seconds for _, seconds in outcomes])
    return (
        f"| {name} | {multiples.mean():.4f} ± {error:.4f} | {multiples.max():.4f} | {len(multiples)} | {seconds:.1f} |"
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with adult_mixed.csv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--gamma", type=float, default=GAMMA)
    parser.add_argument("--mbi", help="a Python that has opendp[mbi], for AIM")
    parser.add_argument("--mbi-seeds", type=int, default=3)
    parser.add_argument("--systems", default="aim,mst", help="of that environment, with commas")
    parser.add_argument("--limit", type=float, default=1200.0, help="processor seconds of one fit of AIM")
    given = parser.parse_args()
    path, schema = given.data / "adult_mixed.csv.gz", schema_of(given.gamma)
    domain = Mixed(schema=schema)
    raw = np.concatenate([np.asarray(block) for block in open_table(path, schema=schema).blocks()])
    records = Prototypes.of(domain, domain.encode(list(raw.T)), given.gamma)
    floor = records.loss(records.fitted(K, 0))
    print(f"{len(raw):,} records, gamma {given.gamma:g}; k-prototypes without privacy: {floor:.1f}\n")
    print("| method, epsilon 1 | loss | worst | seeds | seconds |\n|---|--:|--:|--:|--:|")
    for name, delta in (("Recoup, epsilon", 0), ("Recoup, epsilon and delta", 1e-6)) if given.seeds else ():
        runs = [ours(path, schema, domain, records, seed, 1, delta) for seed in range(given.seeds)]
        print(shown(name, runs, floor), flush=True)
    if given.mbi is None:
        return
    sizes = [len(column.all_values) for column in schema.values() if isinstance(column, Category)]
    with tempfile.TemporaryDirectory() as folder:
        foreign = Foreign(given.mbi, Path(folder), given.limit)
        for how in given.systems.split(","):
            name = f"{how.upper()}, {BINS} bins, then k-prototypes"
            try:
                runs = [synthetic(foreign, how, records, sizes, seed, 1, 1e-6) for seed in range(given.mbi_seeds)]
                print(shown(name, runs, floor), flush=True)
            except NoAnswerError as error:
                print(f"| {name} | {error} | | | |", flush=True)
        foreign.close()


if __name__ == "__main__":
    main()
