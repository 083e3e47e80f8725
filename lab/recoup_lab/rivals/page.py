"""What the runs of a comparison came to: kept as JSON, and written as a part of a page from that JSON alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recoup._files import write_whole
from recoup_lab.experiments.datasets import LoadedSet
from recoup_lab.experiments.peers import best_peer
from recoup_lab.pages import markdown, page_with_part, read_json
from recoup_lab.rivals.cited import PE_MEANS, pe_means
from recoup_lab.rivals.contestants import BINS, CONTESTANTS, DELTA, FAMILIES
from recoup_lab.rivals.marginals import BINS as MARGINAL_BINS
from recoup_lab.rivals.runs import OF_THE_BEST, SCREENED, Outcome, shown

PART, DATA = "rivals", "rivals.json"


class Mean(NamedTuple):
    """A mean over seeds, its standard error (0 of one seed), and the number of seeds; 0 of a cited figure."""

    value: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of at least one value."""
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), error, len(values))

    def __str__(self) -> str:
        digits = 3 if self.value < 10 else 1
        return f"{self.value:.{digits}f}" + (f" ± {self.error:.{digits}f}" if self.n > 1 else "")


def write(folder: Path, outcomes: Sequence[Outcome], sets: Sequence[LoadedSet]) -> list[Path]:
    """Keep runs of these sets as JSON in a folder of pages, and write its page again; returns both paths."""
    data: dict[str, list[dict[str, Any]]] = {
        "sets": [
            {"name": s.name, "title": s.title, "n": s.rows.shape[0], "d": s.rows.shape[1], "k": s.n_clusters}
            for s in sets
        ],
        "cells": _cells(outcomes, sets),
    }
    page = page_with_part(folder / "comparison.md", "Comparison", PART, text(data))
    kept = folder / "data" / DATA
    kept.parent.mkdir(exist_ok=True)
    lines = {name: ",\n".join(json.dumps(entry) for entry in entries) for name, entries in data.items()}
    write_whole(kept, f'{{"sets": [\n{lines["sets"]}\n], "cells": [\n{lines["cells"]}\n]}}\n')
    write_whole(folder / "comparison.md", page)
    return [kept, folder / "comparison.md"]


def read(folder: Path) -> Any:
    """What `write` kept in a folder of pages."""
    return read_json(folder / "data" / DATA, "recoup experiment rivals")


def outcomes(data: Any, sets: Sequence[LoadedSet]) -> list[Outcome]:
    """The runs behind what `read` gave, of sets that have the same size still: a comparison goes on from its page."""
    found: list[Outcome] = []
    if data is None:
        return found
    sizes = {entry["name"]: (entry["n"], entry["d"], entry["k"]) for entry in data["sets"]}
    same = {s.name: s.digest for s in sets if sizes.get(s.name) == (*s.rows.shape, s.n_clusters)}
    for cell in data["cells"]:
        if cell["set"] not in same:
            continue
        run = Outcome(
            set=cell["set"],
            digest=same[cell["set"]],
            contestant=cell["contestant"],
            epsilon=cell["epsilon"],
            seed=len(cell["seeds"]),
            why=cell["why"],
        )
        for k, seed in enumerate(cell["seeds"]):
            distance = cell["marginals"][k] if cell["marginals"] else None
            score, seconds = cell["wcss"][k], cell["seconds"][k]
            found.append(replace(run, seed=seed, wcss=score, seconds=seconds, marginals=distance, why=None))
        found += [run] if cell["why"] else []
    return found


def _cells(outcomes: Sequence[Outcome], sets: Sequence[LoadedSet]) -> list[dict[str, Any]]:
    cells: dict[tuple[Any, ...], dict[str, Any]] = {}
    for data in sets:
        own = [run for run in outcomes if (run.set, run.digest) == (data.name, data.digest)]
        for run in sorted(own, key=lambda run: (run.epsilon or 0.0, list(CONTESTANTS).index(run.contestant), run.seed)):
            cell = cells.setdefault(
                (run.set, run.contestant, run.epsilon),
                {"set": run.set, "contestant": run.contestant, "epsilon": run.epsilon, "why": None}
                | {"seeds": [], "wcss": [], "seconds": [], "marginals": []},
            )
            if run.wcss is None:
                cell["why"] = run.why
                continue
            cell["seeds"].append(run.seed)
            cell["wcss"].append(float(f"{run.wcss:.6g}"))
            cell["seconds"].append(run.seconds)
            cell["marginals"] += [] if run.marginals is None else [round(run.marginals, 4)]
    return list(cells.values())


class _Table:
    """The cells of one set."""

    def __init__(self, entry: dict[str, Any], cells: Sequence[dict[str, Any]]) -> None:
        self.entry = entry
        self.name, self.title = str(entry["name"]), str(entry["title"])
        own = [cell for cell in cells if cell["set"] == self.name]
        self._cells = {(cell["contestant"], cell["epsilon"]): cell for cell in own}
        floor = self._cells.get(("non-private", None))
        self.floor = float(floor["wcss"][0]) if floor else None

    def multiple(self, contestant: str, epsilon: float) -> Mean | None:
        """WCSS as a multiple of non-private k-means."""
        cell = self._cells.get((contestant, epsilon))
        if cell is None or not cell["wcss"] or self.floor is None:
            return None
        return Mean.of([score / self.floor for score in cell["wcss"]])

    def marginals(self, contestant: str, epsilon: float) -> Mean | None:
        cell = self._cells.get((contestant, epsilon))
        return Mean.of(cell["marginals"]) if cell is not None and cell["marginals"] else None

    def why(self, contestant: str, epsilon: float) -> str | None:
        return str(cell["why"]) if (cell := self._cells.get((contestant, epsilon))) and cell["why"] else None

    def seconds(self, contestant: str, epsilon: float) -> str:
        """The median; of one seed it may include compiling our kernels."""
        seconds = self._cells[contestant, epsilon]["seconds"]
        return f"{np.median(seconds):.1f}" if seconds else "-"

    def rows(self, epsilons: Sequence[float]) -> Iterator[tuple[str, str, float]]:
        """Contestant, title and epsilon of every row, with the default and the best setting of each family."""
        for epsilon in epsilons:
            for contestant in CONTESTANTS.values():
                if contestant.family is None and (contestant.name, epsilon) in self._cells:
                    yield contestant.name, contestant.title, epsilon
            for family in FAMILIES:
                runs = [
                    Outcome(set="", digest="", contestant=cell["contestant"], epsilon=epsilon, seed=seed, wcss=score)
                    for cell in self._cells.values()
                    if cell["epsilon"] == epsilon
                    for seed, score in zip(cell["seeds"], cell["wcss"], strict=True)
                ]
                names = shown(runs, family)
                both = len(names) == 1 and self.multiple(names[0], epsilon) is not None
                for name, part in zip(names, ("default and best" if both else "default", "best"), strict=False):
                    if (name, epsilon) in self._cells:
                        yield name, f"{CONTESTANTS[name].title} ({part})", epsilon


def text(data: Any) -> str:
    """The part of the page, from what was kept alone."""
    tables = [_Table(entry, data["cells"]) for entry in data["sets"]]
    epsilons = sorted({cell["epsilon"] for cell in data["cells"] if cell["epsilon"] is not None})
    parts = [
        "WCSS on the records as a multiple of non-private k-means, mean ± standard error over the seeds in the column "
        f"beside it; two-way marginals as mean total variation distance on {MARGINAL_BINS} bins per column (0 is the "
        "same, 1 nothing in common), of the data that a system makes; processor seconds of a fit (median). *Delta* is "
        f"{float(DELTA):g} where noise is Gaussian, else 0: for AIM and MST, and for Recoup with delta in more than "
        "three columns. AIM and MST convert (epsilon, delta) to zCDP, as opendp does; Recoup prices Gaussian noise "
        f"exactly, which is worth a tenth of its scale. Every number of bins runs on {_seeds(SCREENED)}, the "
        f"best of those by WCSS on {OF_THE_BEST}, and the default on all. Lines in italics are cited, not run.",
        *_verdict(tables, epsilons),
    ]
    for table in tables:
        parts += _of_set(table, epsilons)
    parts += _by_bins(tables, epsilons)
    parts += _cited()
    return "\n\n".join(parts) + "\n"


def _seeds(n: int) -> str:
    return "the first seed" if n == 1 else f"{n} seeds"


def _of_set(table: _Table, epsilons: Sequence[float]) -> list[str]:
    entry, rows = table.entry, []
    for name, title, epsilon in table.rows(epsilons):
        score, distance = table.multiple(name, epsilon), table.marginals(name, epsilon)
        cell = "; then ".join(str(found) for found in (score, table.why(name, epsilon)) if found) or "-"
        made = str(distance) if distance else "-"
        rows.append((epsilon, [title, cell, str(score.n if score else 0), made, table.seconds(name, epsilon)]))
    for who, figures in _cited_of(table):
        rows += [(e, [f"*{who}*", f"*{figures[e]:.3f}*", "-", "-", "-"]) for e in epsilons if e in figures]
    rows.sort(key=lambda row: row[0])
    header = ("epsilon", "method", "WCSS", "seeds", "marginals", "seconds")
    body = [[f"{epsilon:g}", *cells] for epsilon, cells in rows]
    floor = "not run" if table.floor is None else f"{table.floor:.5g}"
    about = f"{entry['n']:,} records, {entry['d']} columns, K = {entry['k']}; non-private WCSS {floor}."
    return [f"### {table.title}\n{about}", markdown(header, body, {0, 2, 3, 4, 5})] if rows else []


def _cited_of(table: _Table) -> list[tuple[str, dict[float, float]]]:
    peers = best_peer("user", table.name, table.floor)
    found = [("best of diffprivlib, Google, FastLloyd", {e: v / (table.floor or 1.0) for e, v in peers.items()})]
    found.append(("PE-means, repaired", pe_means(table.name)))
    return [(who, figures) for who, figures in found if figures]


def _verdict(tables: Sequence[_Table], epsilons: Sequence[float]) -> list[str]:
    """Where ours is lower and where not, with epsilon alone and with delta."""
    cells = [(table, epsilon) for table in tables for epsilon in epsilons]
    seeds = {s.n for t, e in cells for name, _, _ in t.rows([e]) if (s := t.multiple(name, e))}
    text = [f"Seeds of a line: {min(seeds)} to {max(seeds)}; its column says how many."] if seeds else []
    for name, words in (("recoup", "with epsilon alone"), ("recoup-delta", "with epsilon and delta")):
        scores = [_match(t, e, t.multiple(name, e), _others(t, e)) for t, e in cells]
        made = [_match(t, e, t.marginals(name, e), _made(t, e)) for t, e in cells]
        text += _sentence(f"**Clusters.** Recoup {words} has a lower mean than all others below", scores)
        text += _sentence(f"**Two-way marginals.** Recoup's data {words} are closer than AIM's and MST's", made)
    return text


class _Match(NamedTuple):
    where: str
    ours: Mean
    who: str
    best: Mean

    @property
    def clear(self) -> bool:
        """Whether the difference is more than two of its standard errors; no single seed shows that."""
        apart = abs(self.ours.value - self.best.value)
        return 1 not in (self.ours.n, self.best.n) and apart > 2 * float(np.hypot(self.ours.error, self.best.error))


def _match(table: _Table, epsilon: float, ours: Mean | None, others: Sequence[tuple[str, Mean]]) -> _Match | None:
    if ours is None or not others:
        return None
    return _Match(f"{table.title} at {epsilon:g}", ours, *min(others, key=lambda other: other[1].value))


def _sentence(what: str, found: Sequence[_Match | None]) -> list[str]:
    matches = [match for match in found if match is not None]
    ahead = [match for match in matches if match.ours.value <= match.best.value]
    behind = [match for match in matches if match not in ahead]
    text = (
        f"{what} in {len(ahead)} of {len(matches)} cells (a set at an epsilon), in {sum(m.clear for m in ahead)} of "
        "them by more than two standard errors of the difference."
    )
    lost = [f"{m.where} ({m.who} {m.best}, Recoup {m.ours}{'' if m.clear else ', not clear'})" for m in behind]
    return [f"{text} Behind on: {'; '.join(lost)}." if lost else text] if matches else []


def _others(table: _Table, epsilon: float) -> list[tuple[str, Mean]]:
    found = [
        (title, score)
        for name, title, e in table.rows([epsilon])
        if not name.startswith("recoup") and (score := table.multiple(name, e))
    ]
    return found + [(f"{who}, cited", Mean(f[epsilon], 0.0, 0)) for who, f in _cited_of(table) if epsilon in f]


def _made(table: _Table, epsilon: float) -> list[tuple[str, Mean]]:
    """Of every setting: on their own ground the best by marginals, which need not be the best by clusters."""
    settings = [contestant for contestant in CONTESTANTS.values() if contestant.family]
    return [(c.title, found) for c in settings if (found := table.marginals(c.name, epsilon))]


def _by_bins(tables: Sequence[_Table], epsilons: Sequence[float]) -> list[str]:
    rows = []
    for table in tables:
        for epsilon in epsilons:
            for family, title in FAMILIES.items():
                names = [f"{family}-{bins}-gaussian" for bins in BINS]
                cells = [
                    f"{score.value:.3f} ({score.n})"
                    if (score := table.multiple(name, epsilon))
                    else table.why(name, epsilon) or "-"
                    for name in names
                ]
                if set(cells) != {"-"}:
                    rows.append([table.title, f"{epsilon:g}", title, *cells])
    header = ("set", "epsilon", "system", *(f"{bins} bins" for bins in BINS))
    return ["### AIM and MST by bins\nMultiple of non-private, with the number of seeds."] + (
        [markdown(header, rows, {1, 3, 4, 5, 6})] if rows else ["No run yet."]
    )


def _cited() -> list[str]:
    rows = [[str(row.n_clusters), str(row.n_columns), f"{row.quarter:g}", f"{row.one:g}"] for row in PE_MEANS]
    about = (
        "### PE-means, cited\nPE-means (arXiv 2606.00342) on blobs of 20,000 records, measured beside this project in "
        "the same metric, after its exact mean, radius and N and its exact coordinate differences were repaired; "
        "delta = N^-1.1."
    )
    return [about, markdown(("clusters", "columns", "epsilon .25", "epsilon 1"), rows, {0, 1, 2, 3})]
