"""`recoup infer`: from a transcript to an inferred data set and refitted centres, where the records have never been."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recoup.cli import config, options
from recoup.cli.exits import ExitCode
from recoup.errors import ParameterError, TranscriptError

_FILES = ("centers.csv", "answers.json", "inferred.parquet", "diagnostics.json")


def infer(
    transcript: Annotated[
        list[Path],
        typer.Argument(
            help="A transcript, as `recoup cluster -o` or `recoup release` writes it; or several of one data set, "
            "which are read together.",
            metavar="TRANSCRIPT",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write centers.csv (answers.json), inferred.parquet and diagnostics.json into this folder.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
            "-k",
            help="Another number of clusters, at no cost, for every clustering.",
            show_default="as released",
        ),
    ] = None,
    method: Annotated[
        options.MethodName,
        typer.Option(
            help="maxent; mcmc, the paper's sampler; consistency, the last round's consistent means.",
            rich_help_panel="Algorithm",
        ),
    ] = options.MethodName.maxent,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a chain (mcmc).", rich_help_panel="Algorithm")] = 30_000,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains (mcmc).", rich_help_panel="Algorithm")] = 1,
    proposal_variance: Annotated[
        float, typer.Option(help="The paper's delta (mcmc).", metavar="NUMBER", rich_help_panel="Algorithm")
    ] = 0.001,
    target_scale: Annotated[
        options.TargetScaleName,
        typer.Option(
            help="What misfits are divided by (mcmc): one, as the paper prints its acceptance, or the noise scale; "
            "auto is the sharper one for DP-KMEANS.",
            rich_help_panel="Algorithm",
        ),
    ] = options.TargetScaleName.auto,
    correction: Annotated[
        options.CorrectionName,
        typer.Option(
            help="The density to correct by (mcmc): of the component that a record was drawn from, or of the mixture.",
            rich_help_panel="Algorithm",
        ),
    ] = options.CorrectionName.component,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Use noisy values as released, not consistent ones (mcmc).", rich_help_panel="Algorithm"
        ),
    ] = False,
    # Fixed by default: the same transcript then prints the same centres every time.
    seed: Annotated[int, typer.Option(min=0, help="Of inference and refit.", rich_help_panel="Algorithm")] = 0,
    as_json: options.AsJson = False,
    config_file: config.ConfigFile = None,
) -> None:
    """Infer the data set behind a transcript and refit its answer; costs no privacy and needs no records.

    The same transcript and seed give the same answer. Several transcripts of one data set give one inferred data set,
    with the centres of the first clustering; the answers of all are in the JSON. Example:

        recoup infer transcript.json -o inferred/
    """
    import numpy as np

    from recoup._files import write_whole
    from recoup._random import seed_for
    from recoup.algorithms.answers import column_names
    from recoup.cli import output as out
    from recoup.cli.progress import Progress
    from recoup.inference.doubt import doubtful
    from recoup.inference.evidence import evidence_of, joint_privacy
    from recoup.inference.guard import reasons_against
    from recoup.inference.infer import infer as read
    from recoup.inference.judge import judge
    from recoup.report.answer import inferred_in_short, named_answer
    from recoup.report.plain import answer_of, has_clusters
    from recoup.transcript.transcript import Transcript

    released = [Transcript.load(path) for path in transcript]
    folder = None if output is None else _own_folder(output, *transcript, config_file)
    seed = seed_for(seed)
    with Progress(n_rounds=100, unit="percent") as progress:
        inferred = read(
            released,
            method.value,
            random_state=seed,
            n_steps=steps,
            n_chains=chains,
            proposal_variance=proposal_variance,
            target_scale=target_scale.value,
            correction=correction.value,
            raw=raw,
            on_progress=lambda done, total: progress.finished(100 * done // max(1, total)),
            warn=False,
        )
    # The centres are those of the first transcript that has clusters; every transcript's own answer goes beside them.
    first = next((item for item in released if has_clusters(item)), None)
    if first is None and clusters is not None:
        raise ParameterError(
            "--clusters is for clusterings, and none of these transcripts is of one. Answers that were made elsewhere "
            'become one when they are imported with an "algorithm", such as '
            '{"type": "kmeans-adaptive", "n_clusters": 3}.'
        )
    answers, tables = [], []
    for path, item in zip(transcript, released, strict=True):
        wanted = clusters if has_clusters(item) else None
        answer = answer_of(item, inferred, n_clusters=wanted, random_state=seed)
        tables.append(None if answer is None else named_answer(item, answer, inferred))
        answers.append(_described(path, item, answer, tables[-1]))
    centers = None if first is None else np.array(answers[released.index(first)]["answer"])
    columns = column_names(released[0].context.domain)
    doubts = doubtful(released, centers, inferred)
    reasons = reasons_against(evidence_of(released))
    diagnostics = {} if inferred.diagnostics is None else inferred.diagnostics.to_json()
    privacy = joint_privacy(released)
    private = privacy["noise"] == "secure"
    files: list[Path] = []
    if folder is not None:
        # First: by it a folder is known as ours, also after an interruption.
        inferred.save(folder / "inferred.parquet")
        if centers is not None:
            files.append(folder / "centers.csv")
            comment = None if private else str(privacy["statement"])
            write_whole(files[-1], out.csv_text(columns, centers.tolist(), comment=comment))
        if centers is None or len(released) > 1:
            files.append(folder / "answers.json")
            write_whole(files[-1], out.json_text({"privacy": privacy["statement"], "answers": answers}))
        files += [folder / "inferred.parquet", folder / "diagnostics.json"]
        write_whole(files[-1], out.json_text({"privacy": privacy["statement"], **diagnostics}))
        *others, last = (path.name for path in files)
        out.say(f"Wrote {', '.join(others)} and {last} to {folder}.")
    out.say(out.privacy_sentence(privacy))
    verdict = judge(released, inferred, centers)
    out.say_verdict(verdict)
    for reason in reasons:
        out.say(f"{reason[0].upper()}{reason[1:]}")
    if as_json:
        out.print_json(
            {
                "method": method.value,
                "columns": columns,
                "centers": [] if centers is None else centers.tolist(),
                "doubtful": doubts,
                **out.verdict_json(verdict),
                "answers": answers,
                "privacy": privacy,
                "diagnostics": diagnostics,
                "files": [str(path) for path in files],
            }
        )
    else:
        kind = "" if private else f", {privacy['statement']}"
        if centers is not None:
            rows = [[str(k), *(f"{v:.6g}" for v in center)] for k, center in enumerate(centers)]
            title = f"{out.counted(len(centers), 'centre')} by {method.value}{kind}"
            out.print_table(title, ["cluster", *columns], rows)
        for path, item, table in zip(transcript, released, tables, strict=True):
            if item is first or table is None:
                continue
            (names, header), values = table.labels, table.values
            rows = [[name, *(f"{v:.6g}" for v in row)] for name, row in zip(names, values, strict=True)]
            title = f"Answer of {item.algorithm['type']} ({path}) by {method.value}{kind}"
            out.print_table(title, ["cluster" if has_clusters(item) else "", *header], rows)
            if table.note:
                out.say(table.note)
        if not any(tables):
            header, rows = inferred_in_short(inferred, columns)
            out.print_table(f"About {inferred.n_records:,.0f} records by {method.value}{kind}", header, rows)
            if folder is None:
                out.say("These answers were made elsewhere, so none is refitted; -o FOLDER writes the inferred data.")
    if inferred.diagnostics is not None and inferred.diagnostics.interrupted:
        out.say("Interrupted: the centres are of the best data set so far.")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _own_folder(output: Path, *inputs: Path | None) -> Path:
    """The folder to write into; what another command wrote there, and was paid for, is left alone."""
    folder = options.writable_folder(output)
    if (folder / _FILES[0]).exists() and not any((folder / name).exists() for name in _FILES[-2:]):
        raise TranscriptError(
            f"{str(folder / _FILES[0])!r} exists and is not of `recoup infer`: choose another folder with -o."
        )
    for name in _FILES:
        options.free_output(folder / name, *inputs)
    return folder


def _described(path: Path, transcript: Any, answer: Any, table: Any) -> dict[str, Any]:
    """One transcript's answer as JSON, with the names of its rows and columns."""
    found: dict[str, Any] = {"transcript": str(path), "algorithm": str(transcript.algorithm.get("type"))}
    if answer is None:
        return found | {"answer": None}
    return found | {"answer": answer.tolist(), **table.to_json()}
