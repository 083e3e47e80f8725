"""`recoup release`: run an algorithm and keep everything that was released, ready for post-processing anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile, read_columns

if TYPE_CHECKING:
    from recoup.transcript.transcript import Transcript


def release(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    output: options.TranscriptOutput = Path("transcript.json"),
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: options.TranscribedAlgorithm = "auto",
    rounds: options.LloydRounds = None,
    seed: options.Seed = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Run one algorithm, that of `recoup cluster` by default, and save its transcript after every round.

    The transcript holds queries and noisy answers, nothing else: whoever reads it can infer without the data. After an
    interruption the same command with --resume continues. Example:

        recoup release people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o transcript.json
    """
    from recoup.algorithms.registry import clustering_named
    from recoup.driver import release as drive

    budget = options.read_budget(epsilon, delta)
    entry, n_rounds_asked = clustering_named(algorithm, rounds)
    asked = entry.kind(n_clusters=clusters, **n_rounds_asked)  # type: ignore[call-arg]
    declared = options.declared_domain(domain, read_columns(bounds).bounds)
    terms = options.terms(declared, *budget, n_records, records_per_person)
    charged = options.existing_ledger(ledger)
    if resume and not output.is_dir():
        options.resumable(output)
    else:
        options.output_file(output, "transcript")
    n_rounds, at_most = asked.planned_rounds(terms)
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
    out.say(out.privacy_sentence(transcript.privacy))
    rounds_made, spent = _rounds(transcript), float(transcript.epsilon_spent)
    if as_json:
        out.print_json(
            {
                "transcript": str(output),
                "algorithm": transcript.algorithm["type"],
                "epsilon_spent": spent,
                "rounds": rounds_made,
                "privacy": transcript.privacy,
                "files": [str(output)],
            }
        )
        return
    kind = f"{transcript.statement}, " if transcript.simulated else ""
    title = f"{output}: {kind}{out.counted(len(rounds_made), 'round')}, epsilon {spent:.6g} spent"
    out.print_rounds(title, rounds_made)


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
