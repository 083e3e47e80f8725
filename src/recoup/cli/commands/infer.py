"""`recoup infer`: from a transcript to an inferred data set and refitted centres, where the records have never been."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from recoup._files import write_whole
from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile
from recoup.errors import ParameterError, TranscriptError

if TYPE_CHECKING:
    from recoup.transcript.transcript import Transcript

_FILES = ("centers.csv", "answers.json", "inferred.parquet", "diagnostics.json")


def infer(
    transcript: Annotated[
        list[Path],
        typer.Argument(
            help="A transcript, as `recoup cluster -o` or `recoup release` writes it; or several of one data set, "
            "which are read together.",
            metavar="TRANSCRIPT",
        ),
    ],
    output: Annotated[
        Path | None,
        options.output(
            help="Write centers.csv (answers.json), inferred.parquet and diagnostics.json into this folder."
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
        str,
        options.choice("METHOD", "maxent; mcmc, the paper's sampler; consistency, the last round's consistent means."),
    ] = "maxent",
    steps: Annotated[int, options.in_run(min=1, help="Steps of a chain (mcmc).")] = 30_000,
    chains: Annotated[int, options.in_run(min=1, help="Independent chains (mcmc).")] = 1,
    proposal_variance: Annotated[float, options.in_run(help="The paper's delta (mcmc).", metavar="NUMBER")] = 0.001,
    target_scale: Annotated[
        options.TargetScaleName,
        options.in_run(
            help="What misfits are divided by (mcmc): one, as the paper prints its acceptance, or the noise scale; "
            "auto is the sharper one for DP-KMEANS."
        ),
    ] = options.TargetScaleName.auto,
    correction: Annotated[
        options.CorrectionName,
        options.in_run(
            help="The density to correct by (mcmc): of the component that a record was drawn from, or of the mixture."
        ),
    ] = options.CorrectionName.component,
    raw: Annotated[
        bool, options.in_run("--raw", help="Use noisy values as released, not consistent ones (mcmc).")
    ] = False,
    seed: options.InferenceSeed = 0,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Infer the data set behind a transcript and refit its answer; costs no privacy and needs no records.

    The same transcript and seed give the same answer. Several transcripts of one data set give one inferred data set,
    with the centres of the first clustering; the answers of all are in the JSON. Example:

        recoup infer transcript.json -o inferred/
    """
    import numpy as np

    from recoup._random import seed_for
    from recoup.algorithms.base import column_names
    from recoup.inference.evidence import joint_privacy
    from recoup.inference.infer import infer as read
    from recoup.inference.judge import doubts_of, judge
    from recoup.report.sections.answer import answer_of, has_clusters, inferred_in_short, named_answer, warnings_of
    from recoup.transcript.transcript import Transcript

    released = [Transcript.load(path) for path in transcript]
    folder = None if output is None else _own_folder(output, *transcript, config_file)
    seed = seed_for(seed)
    with Progress(n_rounds=100, unit="percent") as progress:
        asked: dict[str, Any] = {
            "method": method,
            "n_steps": steps,
            "n_chains": chains,
            "proposal_variance": proposal_variance,
            "target_scale": target_scale.value,
            "correction": correction.value,
            "raw": raw,
        }
        inferred = read(
            released,
            **asked,
            random_state=seed,
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
    answers: list[_Answer] = []
    for path, item in zip(transcript, released, strict=True):
        wanted = clusters if has_clusters(item) else None
        values = answer_of(item, inferred, n_clusters=wanted, random_state=seed)
        named = None if values is None else named_answer(item, values, inferred)
        answers.append(_Answer(path, item, values, named))
    centers = None if first is None else np.array(answers[released.index(first)].values)
    columns = column_names(released[0].context.domain)
    doubts = doubts_of(released, centers, inferred).noise
    diagnostics = {} if inferred.diagnostics is None else inferred.diagnostics.to_json()
    privacy = joint_privacy(released)
    files: list[Path] = []
    if folder is not None:
        # First: by it a folder is known as ours, also after an interruption.
        inferred.save(folder / "inferred.parquet")
        if centers is not None:
            files.append(folder / "centers.csv")
            write_whole(files[-1], out.csv_text(columns, centers.tolist(), comment=out.mark(privacy)))
        if centers is None or len(released) > 1:
            files.append(folder / "answers.json")
            listed = [answer.to_json() for answer in answers]
            write_whole(files[-1], out.json_text({"privacy": privacy["statement"], "answers": listed}))
        files += [folder / "inferred.parquet", folder / "diagnostics.json"]
        write_whole(files[-1], out.json_text({"privacy": privacy["statement"], **diagnostics}))
        *others, last = (path.name for path in files)
        out.say(f"Wrote {', '.join(others)} and {last} to {folder}.")
    out.say(out.privacy_sentence(privacy))
    verdict = judge(released, inferred, centers)
    out.say_verdict(verdict)
    for reason in warnings_of(released):
        out.say(reason)
    by = f"by {method}, {out.mark(privacy)}".removesuffix(", ")
    if as_json:
        out.print_json(
            {
                "method": method,
                "columns": columns,
                "centers": [] if centers is None else centers.tolist(),
                "doubtful": doubts,
                **out.verdict_json(verdict),
                "answers": [answer.to_json() for answer in answers],
                "privacy": privacy,
                "diagnostics": diagnostics,
                "files": [str(path) for path in files],
            }
        )
    else:
        if centers is not None:
            out.print_centers(f"{out.counted(len(centers), 'centre')} {by}", columns, centers)
        for answer in answers:
            if answer.transcript is not first and answer.named is not None:
                rows, header = answer.named.labels
                title = f"Answer of {answer.transcript.algorithm['type']} ({answer.path}) {by}"
                corner = "cluster" if has_clusters(answer.transcript) else ""
                out.print_named(title, corner, rows, header, answer.named.values, note=answer.named.note)
        if not any(answer.named for answer in answers):
            header, rows = inferred_in_short(inferred, columns)
            out.print_table(f"About {inferred.n_records:,.0f} records {by}", header, rows)
            if folder is None:
                out.say("These answers were made elsewhere, so none is refitted; -o FOLDER writes the inferred data.")
    out.stop_if_interrupted(inferred)


class _Answer(NamedTuple):
    """A transcript's own answer on the inferred data, plain and with names; none if it was made elsewhere."""

    path: Path
    transcript: Transcript
    values: Any
    named: Any

    def to_json(self) -> dict[str, Any]:
        where = {"transcript": str(self.path), "algorithm": str(self.transcript.algorithm.get("type"))}
        if self.values is None:
            return where | {"answer": None}
        return where | {"answer": self.values.tolist(), **self.named.to_json()}


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
