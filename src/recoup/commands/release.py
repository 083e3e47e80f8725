"""`recoup release`: run an algorithm and keep everything that was released, ready for post-processing anywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recoup.commands import options
from recoup.errors import ParameterError


class AlgorithmName(StrEnum):
    """The algorithms that leave a transcript."""

    lloyd = "lloyd"
    adaptive = "adaptive"
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
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: Annotated[
        AlgorithmName,
        typer.Option(
            help="lloyd (DP-KMEANS); adaptive; grid (EUGkM); or hybrid (grid, then lloyd).", rich_help_panel="Algorithm"
        ),
    ] = AlgorithmName.lloyd,
    rounds: Annotated[
        int | None, typer.Option(help="How many rounds of lloyd.", rich_help_panel="Algorithm", show_default="5")
    ] = None,
    seed: options.Seed = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue this transcript and pay only for what is missing.", rich_help_panel="Output"
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run DP-KMEANS, or another algorithm, on a table and save its transcript after every round.

    The transcript holds queries and noisy answers, nothing else: whoever reads it can infer without the data. After an
    interruption the same command with --resume continues. Example:

        recoup release people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o transcript.json
    """
    from recoup.algorithms.adaptive import AdaptiveKMeans
    from recoup.algorithms.base import Algorithm
    from recoup.algorithms.eugkm import GridKMeans
    from recoup.algorithms.hybrid import HybridKMeans
    from recoup.algorithms.lloyd import KMeans
    from recoup.commands import output as out
    from recoup.commands.progress import Progress
    from recoup.driver import release as drive

    budget = options.read_budget(epsilon, delta)
    if algorithm is AlgorithmName.lloyd:
        rounds = 5 if rounds is None else rounds
        asked: Algorithm = KMeans(n_clusters=clusters, n_rounds=rounds)
    else:
        if rounds is not None:
            raise ParameterError(f"--algorithm {algorithm.value} plans its own rounds: leave out --rounds.")
        planned = {"adaptive": AdaptiveKMeans, "grid": GridKMeans, "hybrid": HybridKMeans}
        asked = planned[algorithm.value](n_clusters=clusters)
    terms = options.declared_domain(domain, options.read_bounds(bounds))
    options.writable_folder(output.parent)
    with Progress(n_rounds=rounds) as progress:
        transcript = drive(
            asked,
            data,
            domain=terms,
            epsilon=budget[0],
            delta=budget[1],
            ledger=ledger,
            records_per_person=records_per_person,
            n_records=n_records,
            random_state=seed,
            noise="simulated" if simulated_noise else "secure",
            path=output,
            resume=resume,
            on_round=progress.finished,
        )
    out.say(out.privacy_sentence(transcript.privacy))
    pure = transcript.context.budget_measure == "pure"
    if as_json:
        prices = [{"measure": r.price.measure, "amount": float(r.price.amount)} for r in transcript.rounds]
        out.print_json({"transcript": str(output), "rounds": prices, "privacy": transcript.privacy})
        return
    header = ["round", "cells", "epsilon" if pure else "rho", "scale of counts", "scale of sums"]
    rows = []
    for t, answered in enumerate(transcript.rounds, start=1):
        all_scales, scales = answered.scales, ["-", "-"]
        for column, block in enumerate(answered.query.sensitivity(terms).blocks):
            scales[column] = f"{all_scales[answered.block(block.name, transcript.context)][0]:.6g}"
        n_cells = answered.block("count", transcript.context).stop
        rows.append([str(t), str(n_cells), f"{float(answered.price.amount):.6g}", *scales])
    kind = f"{transcript.statement}, " if transcript.simulated else ""
    title = f"{output}: {kind}{len(transcript.rounds)} rounds, epsilon {float(transcript.epsilon_spent):.6g} spent"
    out.print_table(title, header, rows, left=0)
