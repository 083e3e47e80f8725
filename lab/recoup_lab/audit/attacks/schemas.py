"""Tables with a schema: no cell, whatever it is, moves a total beyond the claim, and nothing else tells of it.

Neighbours differ by a record with an undeclared category, an unparsable number, an empty cell, a huge text, or an
object that raises, through every reader. Records around it lack values too, so that what stands for these shows if it
is learnt from the table. Queries are asked about every category and every pattern of missing cells.
"""

from __future__ import annotations

import csv
import itertools
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from recoup.driver import release
from recoup.estimators import PrivateKMeans
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.schema import Category, Number, Schema
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.files import called
from recoup_lab.audit.attacks.loss import answered, draws_of
from recoup_lab.audit.attacks.observed import Observation
from recoup_lab.audit.attacks.paths import Losses
from recoup_lab.audit.attacks.silence import Works, compared
from recoup_lab.audit.attacks.subjects import Subject, Terms, queries, subjects
from recoup_lab.audit.findings import Finding

GROUP: Final = "schemas"
LOSS, SILENCE = "exact loss with a schema", "side information of cells"
Row = Sequence[Any]

SCHEMA: Final = Schema(
    {
        "age": Number(-2, 6, weight=0.3),
        "charges": Number(1, 1000, scale="log", missing="own"),
        "stay": Number(0, 4, missing=1),
        "sex": Category(("x", "y"), weight=1.1),
        "ward": Category(("p", "q", "r"), other=True, weight=1.3),
        "grade": Category(("1", "2", "3"), ordered=True, missing="2"),
    }
)
DOMAIN: Final = Mixed(schema=SCHEMA)
# Ends and middles of numbers, every category, undeclared ones and missing cells.
_VALUES: Final[tuple[Row, ...]] = (
    (-9, 6, None),
    (0.5, 31, 1e9, None),
    (0, 9, None),
    ("x", "y", "zz"),
    ("p", "q", "r", "zz", None),
    ("1", "2", "3", None),
)


class _Raises:
    """An object of which nothing can be asked."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("the words of a record")

    __str__ = __repr__ = __float__ = __hash__ = __eq__ = __bool__ = __len__ = __getattr__  # type: ignore[assignment]


class _Text(str):
    """A text that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the words of a record")

    __hash__ = None  # type: ignore[assignment]


NUMBERS: Final[Mapping[str, Any]] = {
    "an ordinary number": 3.0,
    "an empty cell": "",
    "no value": None,
    "not a number": float("nan"),
    "an infinite number": float("inf"),
    "a far-out number": -1e308,
    "a huge whole number": 10**400,
    "an unparsable number": "12.5x",
    "a huge text": "z" * 200_000,
    "an object that raises": _Raises(),
}
CATEGORIES: Final[Mapping[str, Any]] = {
    "a declared category": "x",
    "an undeclared category": "Jane Roe",
    "an empty cell": "  ",
    "no value": None,
    "a number": 1e300,
    "a huge text": "z" * 200_000,
    "text that is not well formed": "\ud800",
    "a list": ["x"],
    "a text that raises": _Text("x"),
    "an object that raises": _Raises(),
}
_KINDS: Final = {"age": NUMBERS, "charges": NUMBERS, "sex": CATEGORIES, "ward": CATEGORIES}


def attack(effort: Effort) -> Iterator[Finding]:
    """Ask every query about every pattern of cells, and read records with odd cells through every reader."""
    rows = ordinary_rows(14, effort.rng(20))
    for mechanism in ("laplace", "gaussian"):
        yield _on_queries(effort, mechanism, rows)
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    for kind, reader in READERS.items():
        odd = odd_records(rows[0], every=effort.tries(1, 3))
        yield _on_reader(effort, lloyd, kind, reader, rows, odd)
        yield _observed(effort, kind, _releases(lloyd, reader, rows, odd))
    odd = odd_records(rows[0], every=effort.tries(2, 8))
    yield _observed(effort, "PrivateKMeans, and its attributes", _models(rows, odd))
    yield _observed(effort, "recoup release", _commands(rows, odd))
    refused = compared(effort, "types that are refused", _refusals(), should_fail=True, group=GROUP, attack=SILENCE)
    yield refused


# ---- records ----


def ordinary_rows(n: int, rng: np.random.Generator) -> list[Row]:
    """Complete records, among them some without what may be missing."""
    rows: list[Row] = []
    for i in range(n):
        numbers = [float(rng.uniform(-2, 6)), float(rng.uniform(1, 1000)), float(rng.uniform(0, 4))]
        if i % 3 == 0:
            numbers[1:] = [np.nan, np.nan]
        rows.append([*numbers, "xy"[i % 2], "pqr"[i % 3], None if i % 4 == 0 else str(1 + i % 3)])
    return rows


def odd_records(row: Row, *, every: int) -> dict[str, Row]:
    """A record with every odd cell in turn, or with every so many of them; and one of the far ends of all columns."""
    found: dict[str, Row] = {
        "the far ends": [6.0, 1000.0, 4.0, "y", "r", "3"],
        "the other ends": [-2.0, 1.0, 0.0, "x", "p", "1"],
    }
    odd = [(column, name) for column, cells in _KINDS.items() for name in cells]
    for column, name in odd[::every]:
        record = list(row)
        record[list(SCHEMA).index(column)] = _KINDS[column][name]
        found[f"{name} in {column}"] = record
    return found


# ---- readers ----


def _typed(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Columns of declared types: a cell that is of another is missing, and text is well formed."""
    found: dict[str, list[Any]] = {}
    for j, (name, column) in enumerate(SCHEMA.items()):
        read = _as_number if isinstance(column, Number) else _as_text
        found[name] = [read(row[j]) for row in rows]
    return found


def _as_number(cell: Any) -> float:
    return float(cell) if type(cell) in (int, float) and cell != 10**400 else float("nan")


def _as_text(cell: Any) -> str | None:
    if type(cell) in (int, float):
        return repr(cell)
    return str(cell).encode("utf-8", "replace").decode() if type(cell) is str else None


def _arrow(rows: Sequence[Row]) -> pa.Table:
    kinds = {name: pa.float64() if isinstance(column, Number) else pa.string() for name, column in SCHEMA.items()}
    return pa.table({name: pa.array(cells, kinds[name]) for name, cells in _typed(rows).items()})


def _encoded(rows: Sequence[Row]) -> pa.Table:
    table = _arrow(rows)
    columns = [c if pa.types.is_floating(c.type) else c.dictionary_encode() for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _objects(rows: Sequence[Row]) -> Any:
    found = np.empty((len(rows), len(SCHEMA)), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            found[i, j] = cell
    return found


def _pandas(rows: Sequence[Row]) -> object:
    pandas, cells = import_module("pandas"), _objects(rows)
    numbers = {n: c for n, c in _typed(rows).items() if isinstance(SCHEMA[n], Number)}
    # A column of objects holds any object.
    objects = {name: pandas.Series(cells[:, j], dtype=object) for j, name in enumerate(SCHEMA)}
    return pandas.DataFrame(objects | numbers)


def _polars(rows: Sequence[Row]) -> Any:
    polars = import_module("polars")
    kinds = {name: polars.Float64 if isinstance(c, Number) else polars.String for name, c in SCHEMA.items()}
    return polars.DataFrame(_typed(rows), schema=kinds)


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV file; what has no text is left out."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(SCHEMA)
        for row in rows:
            writer.writerow(
                [cell if type(cell) in (int, float) and cell != 10**400 else _as_text(cell) for cell in row]
            )


Reader = Callable[[Sequence[Row], Path], object]


def _file(ending: str, write: Callable[[Sequence[Row], Path], Any]) -> Reader:
    def written(rows: Sequence[Row], folder: Path) -> Path:
        path = folder / f"table.{ending}"
        write(rows, path)
        return path

    return written


# Each makes a table of records, in memory or in a folder.
READERS: Final[Mapping[str, Reader]] = {
    "lists of rows": lambda rows, folder: [list(row) for row in rows],
    "arrays of objects": lambda rows, folder: _objects(rows),
    "pandas": lambda rows, folder: _pandas(rows),
    "Polars": lambda rows, folder: _polars(rows),
    "a lazy frame": lambda rows, folder: _polars(rows).lazy(),
    "PyArrow": lambda rows, folder: _arrow(rows),
    "PyArrow, encoded": lambda rows, folder: _encoded(rows),
    "Parquet": _file("parquet", lambda rows, path: parquet.write_table(_arrow(rows), path, row_group_size=5)),
    "Feather": _file("feather", lambda rows, path: feather.write_feather(_arrow(rows), str(path))),
    "CSV": _file("csv", write_csv),
}


# ---- the exact loss ----


def _on_queries(effort: Effort, mechanism: str, rows: list[Row]) -> Finding:
    """One record more, of any category and any pattern of missing cells."""
    terms, losses = Terms(mechanism=mechanism, domain=DOMAIN), Losses(f"queries on categories, {mechanism}")
    patterns = list(itertools.product(*_VALUES))
    chosen = effort.rng(21).choice(len(patterns), size=effort.tries(400, 30), replace=False)
    for name, query in queries(mechanism, DOMAIN, rows).items():
        without = answered(query, [], terms, effort.seed)
        for record in [patterns[i] for i in chosen]:
            with losses.errors(f"{name}, {record}"):
                heard = [without, answered(query, [record], terms, effort.seed)]
                losses.compare(heard, terms, f"{name}, {record}")
    return losses.finding(GROUP, LOSS)


def _on_reader(
    effort: Effort, lloyd: Subject, kind: str, reader: Reader, rows: list[Row], odd: Mapping[str, Row]
) -> Finding:
    """One record with an odd cell more, in the middle, also where there is one already."""
    terms, losses = Terms(domain=DOMAIN), Losses(kind)
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        first = draws_of(lloyd, reader(rows, Path(folder)), terms, effort.seed)
        for name, record in odd.items():
            again = [*rows[:7], record, *rows[7:]]
            with losses.errors(name):
                one = draws_of(lloyd, reader(again, Path(folder)), terms, effort.seed)
                losses.compare([first, one], terms, name)
                two = draws_of(lloyd, reader([record, *again], Path(folder)), terms, effort.seed)
                losses.compare([one, two], terms, f"{name}, and one already")
    return losses.finding(GROUP, LOSS)


# ---- side information ----


def _observed(effort: Effort, target: str, works: Works) -> Finding:
    return compared(effort, target, works, group=GROUP, attack=SILENCE)


def _tables(rows: list[Row], odd: Mapping[str, Row]) -> dict[str, list[Row]]:
    more = {name: [*rows[:7], record, *rows[7:]] for name, record in odd.items()}
    return {"the table": rows, "no record": [], **more}


def _releases(lloyd: Subject, reader: Reader, rows: list[Row], odd: Mapping[str, Row]) -> Works:
    def work(table: list[Row]) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            assert lloyd.algorithm is not None
            ledger = Ledger.create(folder / "ledger.db", epsilon=2)
            terms: dict[str, Any] = {"domain": SCHEMA, "epsilon": 1, "random_state": 3, "ledger": ledger}
            made = reader(table, folder)
            return {"shown": repr(release(lloyd.algorithm, made, path=folder / "t.json", **terms))}

        return run

    return {name: work(table) for name, table in _tables(rows, odd).items()}


def _models(rows: list[Row], odd: Mapping[str, Row]) -> Works:
    more: dict[str, Any] = {"algorithm": "lloyd", "n_rounds": 2, "postprocess": "none"}

    def work(table: list[Row]) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            model = PrivateKMeans(n_clusters=2, epsilon=1, bounds=SCHEMA, random_state=3, **more).fit(table)
            return {"attributes": sorted(vars(model)), "pickle": pickle.dumps(model), "shown": repr(model)}

        return run

    return {name: work(table) for name, table in _tables(rows, odd).items()}


def _commands(rows: list[Row], odd: Mapping[str, Row]) -> Works:
    def work(table: list[Row]) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            write_csv(table, folder / "table.csv")
            SCHEMA.save(folder / "schema.toml")
            words = ["release", str(folder / "table.csv"), "-k", "2", "--epsilon", "1", "--rounds", "2", "--seed", "3"]
            words += ["--bounds", str(folder / "schema.toml"), "-o", str(folder / "t.json"), "--json"]
            return {"output": called(words).output.replace(str(folder), "FOLDER")}

        return run

    return {name: work(table) for name, table in _tables(rows, odd).items()}


def _refusals() -> Works:
    """A type that cannot be read as it is declared is refused whatever the cells are, in words that tell of none."""

    def work(text: str) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            table = _arrow(ordinary_rows(4, np.random.default_rng(0)))
            texts, nested = pa.array([text] * 4), pa.array([[text]] * 4)
            bad = {
                f"{column} is {what}": table.set_column(table.column_names.index(column), column, cells)
                for column, what, cells in (
                    ("age", "text", texts),
                    ("age", "nested", nested),
                    ("sex", "nested", nested),
                )
            }
            seen: Observation = {}
            for name, frame in bad.items():
                parquet.write_table(frame, folder / "table.parquet")
                tables = {"PyArrow": frame, "pandas": frame.to_pandas(), "Parquet": folder / "table.parquet"}
                for kind, given in tables.items():
                    # Of objects nothing is declared: a column of them is text.
                    if kind == "pandas" and name == "sex is nested":
                        continue
                    try:
                        PrivateKMeans(n_clusters=2, epsilon=1, bounds=SCHEMA).fit(given)
                    except Exception as error:  # its type and text are what is compared, and what it holds
                        held = f"{type(error).__name__}: {error} {error.__context__!r}"
                        seen[f"refused {name}, {kind}"] = held.replace(str(folder), "FOLDER")
                    else:
                        seen[f"taken {name}, {kind}"] = "was not refused"
            return seen

        return run

    return {text[:10]: work(text) for text in ("12", "Jane Roe", "", "z" * 50_000)}
