"""`recoup report`: one page about a result, from the transcript alone; the records may be anywhere else."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from recoup.cli import config, options
from recoup.errors import ParameterError


class ReportMethod(StrEnum):
    """The ways to read a transcript."""

    maxent = "maxent"
    mcmc = "mcmc"
    consistency = "consistency"
    none = "none"


def report(
    transcript: Annotated[
        list[Path],
        typer.Argument(
            help="A transcript, as `recoup cluster -o` or `recoup release` writes it.",
            metavar="TRANSCRIPT",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", rich_help_panel="Output")] = Path(
        "report.html"
    ),
    method: Annotated[
        ReportMethod | None,
        typer.Option(
            help="maxent (the default); mcmc; consistency for a transcript of lloyd; none keeps the last iterate.",
            rich_help_panel="Algorithm",
            show_default=False,
        ),
    ] = None,
    inferred: Annotated[
        Path | None,
        typer.Option(
            help="An inferred data set, as `recoup infer -o` writes it, to report on instead of inferring again.",
            rich_help_panel="Algorithm",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="The coverage of the intervals.", rich_help_panel="Algorithm")] = 0.9,
    intervals: Annotated[
        bool,
        typer.Option("--intervals/--no-intervals", help="Without them it is quicker.", rich_help_panel="Algorithm"),
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of inference and refit.", rich_help_panel="Algorithm")] = 0,
    title: Annotated[
        str | None, typer.Option(help="Of the page; it is public.", rich_help_panel="Output", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
    config_file: config.ConfigFile = None,
) -> None:
    """Write one page about a result: what was promised, what was found, how sure it is. Costs no privacy.

    The page is a single file that needs no network. Example:

        recoup report out/transcript.json -o report.html
    """
    from recoup._random import seed_for
    from recoup.cli import output as out
    from recoup.cli.progress import Progress
    from recoup.inference.evidence import privacy_of
    from recoup.inference.infer import infer as read
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.intervals import draws_for
    from recoup.report.facts import without_picture
    from recoup.report.plain import answer_of, warnings_of
    from recoup.report.profiles import size_words
    from recoup.report.write import check_title, write_report
    from recoup.transcript.transcript import Transcript

    check_title(title)
    if inferred is not None and method is not None:
        raise ParameterError("--inferred and --method exclude each other: the data set was inferred by its own method.")
    if len(transcript) > 1:
        raise ParameterError(
            "a report is about one transcript: read several with `recoup infer A B -o together`, then report on either "
            "with --inferred together/inferred.parquet."
        )
    if intervals:
        draws_for(level, None)
    released = Transcript.load(transcript[0])
    folder = output.parent
    if output.is_dir():
        raise ParameterError(f"{str(output)!r} is a folder: name the page with -o, such as -o report.html.")
    options.writable_folder(folder)
    options.free_output(output, *transcript, inferred, config_file)
    with Progress():
        data = None if inferred is None else InferredDataset.load(inferred)
        if data is None and method is not ReportMethod.none:
            chosen: Any = ReportMethod.maxent.value if method is None else method.value
            data = read(released, chosen, random_state=seed_for(seed), warn=False)
        answer = answer_of(released, data, random_state=seed_for(seed))
        facts = write_report(
            output,
            released,
            answer,
            data,
            level=level if intervals else None,
            title=title,
            seed=seed,
            exact=inferred is None,
        )
    out.say(out.privacy_sentence(privacy_of(released, data)))
    out.say(f"{facts['verdict']['sentence']} {facts['verdict']['rests_on']}")
    for reason in warnings_of(released) if data is not None else ():
        out.say(reason)
    if as_json:
        out.print_json({"report": str(output), "files": [str(output)]} | without_picture(facts))
        return
    kind = "" if facts["private"] else f", {facts['privacy']['statement']}"
    if facts["profiles"] is not None:
        clusters = facts["profiles"]["clusters"]
        rows = [[str(cluster["label"]), size_words(cluster), cluster["sentence"]] for cluster in clusters]
        out.print_table(f"{facts['title']}{kind}", ["cluster", "records", "what it is like"], rows, left=3, wrap=True)
    elif facts["answer"] is not None:
        rows = [[row["label"], *(f"{v:.6g}" for v in row["values"])] for row in facts["answer"]["rows"]]
        out.print_table(f"{facts['title']}{kind}", ["", *facts["answer"]["columns"]], rows)
        if facts["answer"]["note"]:
            out.say(facts["answer"]["note"])
    else:
        out.say(f"{facts['title']}{kind}: the algorithm ran elsewhere, so the page has no answer of its own.")
    if facts["choice"] is not None:
        out.say(f"How many clusters? {facts['choice']['sentence']}")
    out.say(f"Open {output}.")
