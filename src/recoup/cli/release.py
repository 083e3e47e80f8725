"""`recoup release`: run an algorithm and keep everything that was released, ready for post-processing anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.cli import config, options
from recoup.errors import ParameterError

if TYPE_CHECKING:
    from recoup.algorithms.base import Algorithm
    from recoup.transcript.transcript import Transcript


class AlgorithmName(StrEnum):
    """The algorithms that leave a transcript."""

    auto = "auto"
    adaptive = "adaptive"
    lloyd = "lloyd"
    grid = "grid"
    hybrid = "hybrid"


def release(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The transcript to write.", rich_help_panel="Output")
    ] = Path("transcript.json"),
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: Annotated[
        AlgorithmName,
        typer.Option(
            help="auto is adaptive, or lloyd with --rounds; lloyd (DP-KMEANS); grid (EUGkM); or hybrid (grid, then "
            "lloyd).",
            rich_help_panel="Algorithm",
        ),
    ] = AlgorithmName.auto,
    rounds: Annotated[
        int | None,
        typer.Option(help="How many rounds of lloyd (by default 5).", rich_help_panel="Algorithm", show_default=False),
    ] = None,
    seed: options.Seed = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: config.ConfigFile = None,
) -> None:
    """Run one algorithm, that of `recoup cluster` by default, and save its transcript after every round.

    The transcript holds queries and noisy answers, nothing else: whoever reads it can infer without the data. After an
    interruption the same command with --resume continues. Example:

        recoup release people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o transcript.json
    """
    from recoup.cli import output as out
    from recoup.cli.bounds import read_columns
    from recoup.cli.progress import Progress, planned_rounds
    from recoup.driver import release as drive
    from recoup.transcript.context import Context
    from recoup.transcript.transcript import COUNTED, NOT_COUNTED

    budget = options.read_budget(epsilon, delta)
    asked = _algorithm(algorithm, clusters, rounds)
    terms = Context(
        domain=options.declared_domain(domain, read_columns(bounds).bounds),
        epsilon=budget[0],
        delta=budget[1],
        mechanism="gaussian" if budget[1] else "laplace",
        n_records=n_records,
        records_per_person=records_per_person,
    )
    charged = None if ledger is None else options.existing_ledger(ledger)
    if output.is_dir():
        raise ParameterError(f"{str(output)!r} is a folder: name the transcript with -o, such as -o transcript.json.")
    if resume:
        options.resumable(output)
    else:
        options.writable_folder(output.parent)
    n_rounds, at_most = planned_rounds(asked, terms)
    with Progress(n_rounds, at_most=at_most) as progress:
        transcript = drive(
            asked,
            data,
            domain=terms.domain,
            epsilon=terms.epsilon,
            delta=terms.delta,
            ledger=charged,
            records_per_person=records_per_person,
            n_records=n_records,
            csv_dialect=csv_dialect.value,
            random_state=seed,
            noise="simulated" if simulated_noise else "secure",
            path=output,
            resume=resume,
            on_round=progress.finished,
        )
    privacy = transcript.privacy | {"counted": NOT_COUNTED if charged is None else COUNTED}
    out.say(out.privacy_sentence(privacy))
    _show(output, transcript, privacy, as_json)


def _algorithm(name: AlgorithmName, clusters: int, rounds: int | None) -> Algorithm:
    from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
    from recoup.algorithms.kmeans.grid import GridKMeans
    from recoup.algorithms.kmeans.hybrid import HybridKMeans
    from recoup.algorithms.kmeans.lloyd import KMeans

    if name is AlgorithmName.lloyd or (name is AlgorithmName.auto and rounds is not None):
        return KMeans(n_clusters=clusters, n_rounds=5 if rounds is None else rounds)
    if rounds is not None:
        raise ParameterError(f"--algorithm {name.value} plans its own rounds: leave out --rounds.")
    planned: dict[str, Callable[..., Algorithm]]
    planned = {"auto": AdaptiveKMeans, "adaptive": AdaptiveKMeans, "grid": GridKMeans, "hybrid": HybridKMeans}
    return planned[name.value](n_clusters=clusters)


def _rounds(transcript: Transcript) -> list[dict[str, Any]]:
    """What each round asked for and cost, with the noise's scale in units of counts and of sums."""
    context, rounds = transcript.context, []
    for answered in transcript.rounds:
        names = answered.query.sensitivity(context.domain).names
        scales = [float(answered.scales[answered.block(name, context)][0]) for name in names]
        rounds.append(
            {
                "n_cells": answered.block(names[0], context).stop,
                "measure": answered.price.measure,
                "price": float(answered.price.amount),
                "count_scale": scales[0],
                "sum_scale": scales[1] if len(scales) > 1 else None,
            }
        )
    return rounds


def _show(path: Path, transcript: Transcript, privacy: Mapping[str, Any], as_json: bool) -> None:
    from recoup.cli import output as out

    rounds, spent = _rounds(transcript), float(transcript.epsilon_spent)
    if as_json:
        out.print_json(
            {
                "transcript": str(path),
                "algorithm": transcript.algorithm["type"],
                "epsilon_spent": spent,
                "rounds": rounds,
                "privacy": privacy,
                "files": [str(path)],
            }
        )
        return
    price = "epsilon" if transcript.context.budget_measure == "pure" else "rho"
    header = ["round", "cells", price, "scale of counts", "scale of sums"]
    rows = []
    for t, r in enumerate(rounds, start=1):
        sums = "-" if r["sum_scale"] is None else f"{r['sum_scale']:.6g}"
        rows.append([str(t), str(r["n_cells"]), f"{r['price']:.6g}", f"{r['count_scale']:.6g}", sums])
    kind = f"{transcript.statement}, " if transcript.simulated else ""
    title = f"{path}: {kind}{out.counted(len(rounds), 'round')}, epsilon {spent:.6g} spent"
    out.print_table(title, header, rows, left=0)
