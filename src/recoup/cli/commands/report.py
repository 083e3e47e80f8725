"""`recoup report`: one page about a result, from the transcript alone; the records may be anywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile
from recoup.errors import ParameterError


def report(
    transcript: Annotated[
        list[Path],
        typer.Argument(
            help="A transcript, as `recoup cluster -o` or `recoup release` writes it.", metavar="TRANSCRIPT"
        ),
    ],
    output: Annotated[Path, options.output(help="The page to write.")] = Path("report.html"),
    method: Annotated[
        str | None,
        options.choice(
            "METHOD-OR-NONE",
            "maxent (the default); mcmc; consistency for a transcript of lloyd; none keeps the last iterate.",
        ),
    ] = None,
    inferred: Annotated[
        Path | None,
        options.in_run(
            help="An inferred data set, as `recoup infer -o` writes it, to report on instead of inferring again."
        ),
    ] = None,
    level: Annotated[float, options.in_run(help="The coverage of the intervals.")] = 0.9,
    intervals: Annotated[bool, options.in_run("--intervals/--no-intervals", help="Without them it is quicker.")] = True,
    seed: options.InferenceSeed = 0,
    title: Annotated[str | None, options.in_output(help="Of the page; it is public.")] = None,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Write one page about a result: what was promised, what was found, how sure it is. Costs no privacy.

    The page is a single file that needs no network. Example:

        recoup report out/transcript.json -o report.html
    """
    from recoup._random import seed_for
    from recoup.inference.evidence import privacy_of
    from recoup.inference.infer import infer as read
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.intervals import draws_for
    from recoup.report.page import without_picture
    from recoup.report.sections.answer import answer_of, warnings_of
    from recoup.report.sections.clusters import size_words
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
    options.output_file(output, "page")
    options.free_output(output, *transcript, inferred, config_file)
    with Progress():
        data = None if inferred is None else InferredDataset.load(inferred)
        if data is None and method != "none":
            chosen: Any = "maxent" if method is None else method
            data = read(released, chosen, random_state=seed_for(seed), warn=False)
        answer = answer_of(released, data, random_state=seed_for(seed))
        content = write_report(
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
    out.say(f"{content['verdict']['sentence']} {content['verdict']['rests_on']}")
    for reason in warnings_of(released) if data is not None else ():
        out.say(reason)
    if as_json:
        out.print_json({"report": str(output), "files": [str(output)]} | without_picture(content))
        return
    marked = content["title"] if content["private"] else f"{content['title']}, {content['privacy']['statement']}"
    if content["profiles"] is not None:
        clusters = content["profiles"]["clusters"]
        rows = [[str(cluster["label"]), size_words(cluster), cluster["sentence"]] for cluster in clusters]
        out.print_table(marked, ["cluster", "records", "what it is like"], rows, left=3, wrap=True)
    elif content["answer"] is not None:
        answer_rows = content["answer"]["rows"]
        names, values = [row["label"] for row in answer_rows], [row["values"] for row in answer_rows]
        out.print_named(marked, "", names, content["answer"]["columns"], values, note=content["answer"]["note"])
    else:
        out.say(f"{marked}: the algorithm ran elsewhere, so the page has no answer of its own.")
    if content["choice"] is not None:
        out.say(f"How many clusters? {content['choice']['sentence']}")
    out.say(f"Open {output}.")
