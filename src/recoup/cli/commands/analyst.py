"""`recoup infer`, `report` and `import`: from a transcript alone, at no cost; the records may be anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recoup._files import write_whole
from recoup._progress import parts_of
from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile
from recoup.errors import ParameterError, TranscriptError
from recoup.report.html import listed, share

if TYPE_CHECKING:
    from recoup.domain import Array
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.intervals import Intervals
    from recoup.inference.verdict import Verdict
    from recoup.report.sections.answer import NamedAnswer
    from recoup.transcript.transcript import Transcript

_FILES = ("centers.csv", "answers.json", "inferred.parquet", "diagnostics.json")
# Help of the options.
_TRANSCRIPT = "A transcript, as `recoup cluster -o` or `recoup release` writes it"
_SEVERAL = "; or several of one data set, which are read together."
_FOLDER = "Write centers.csv (answers.json), inferred.parquet and diagnostics.json into this folder."
_CLUSTERS = "Another number of clusters, at no cost, for every clustering."
_METHOD = "maxent; mcmc, the paper's sampler; consistency, the last round's consistent means."
_TARGET_SCALE = "What misfits are divided by (mcmc): one, as the paper prints its acceptance, or the noise scale; auto "
_TARGET_SCALE += "is the sharper one for DP-KMEANS."
_CORRECTION = "The density to correct by (mcmc): of the component that a record was drawn from, or of the mixture."
_RAW = "Use noisy values as released, not consistent ones (mcmc)."
_REPORTED = "maxent (the default); mcmc; consistency for a transcript of lloyd; none keeps the last iterate."
_NAMES = "Of clusters, by their numbers: [b]1=Commuters,2=Families[/b], or JSON; they are public."
_INFERRED = "An inferred data set, as `recoup infer -o` writes it, to report on instead of inferring again."
_LEVEL = "The coverage of the intervals."
_INTERVALS = "Print how far off each number may be, too: some seconds of simulation (clusters of one transcript)."
_SOURCE = "A JSON file with the queries, the noisy answers and the noise scales."


def infer(
    transcript: Annotated[list[Path], typer.Argument(help=f"{_TRANSCRIPT}{_SEVERAL}", metavar="TRANSCRIPT")],
    output: Annotated[Path | None, options.output(help=_FOLDER)] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help=_CLUSTERS, show_default="as released")
    ] = None,
    method: Annotated[str, options.choice("METHOD", _METHOD)] = "maxent",
    steps: Annotated[int, options.in_run(min=1, help="Steps of a chain (mcmc).")] = 30_000,
    chains: Annotated[int, options.in_run(min=1, help="Independent chains (mcmc).")] = 1,
    proposal_variance: Annotated[float, options.in_run(help="The paper's delta (mcmc).", metavar="NUMBER")] = 0.001,
    target_scale: Annotated[options.TargetScaleName, options.in_run(help=_TARGET_SCALE)] = options.TargetScaleName.auto,
    correction: Annotated[options.CorrectionName, options.in_run(help=_CORRECTION)] = options.CorrectionName.component,
    raw: Annotated[bool, options.in_run("--raw", help=_RAW)] = False,
    intervals: Annotated[bool, options.in_run("--intervals", help=_INTERVALS)] = False,
    level: Annotated[float, options.in_run(help=_LEVEL)] = 0.9,
    seed: options.InferenceSeed = 0,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Infer the data set behind a transcript and refit its answer; costs no privacy and needs no records.

    The same transcript and seed give the same answer. Several transcripts of one data set give one inferred data set,
    with the centres of the first clustering; the answers of all are in the JSON. Example:

        recoup infer transcript.json -o inferred/
    """
    from recoup._random import seed_for
    from recoup.algorithms.base import column_names
    from recoup.inference.evidence import joint_privacy
    from recoup.inference.infer import infer as read
    from recoup.inference.intervals import draws_for
    from recoup.inference.intervals import intervals as around
    from recoup.inference.judge import doubts_of, judge
    from recoup.report.sections.answer import answer_of, has_clusters, named_answer, warnings_of
    from recoup.transcript.transcript import Transcript

    released = [Transcript.load(path) for path in transcript]
    folder = None if output is None else _own_folder(output, *transcript, config_file)
    seed = seed_for(seed)
    if intervals:
        draws_for(level, None)
        if len(released) > 1 or not has_clusters(released[0]):
            raise ParameterError("--intervals are of the clusters of one transcript: leave them out.")
    with Progress() as progress:
        inferring, simulating = parts_of(progress.reached, 1, intervals)
        inferred = read(
            released,
            cast(Any, method),
            n_steps=steps,
            n_chains=chains,
            proposal_variance=proposal_variance,
            target_scale=cast(Any, target_scale.value),
            correction=cast(Any, correction.value),
            raw=raw,
            random_state=seed,
            on_progress=inferring,
            warn=False,
        )
        sure = None
        if intervals:
            found = answer_of(released[0], inferred, n_clusters=clusters, random_state=seed)
            given: Any = {"level": level, "random_state": seed, "on_progress": simulating}
            sure = around(released[0], inferred, cast(Any, found), **given)
    # The centres are those of the first transcript that has clusters; every transcript's own answer goes beside them.
    first = next((t for t, item in enumerate(released) if has_clusters(item)), None)
    if first is None and clusters is not None:
        raise ParameterError(
            "--clusters is for clusterings, and none of these transcripts is of one. Answers that were made elsewhere "
            'become one when they are imported with an "algorithm", such as '
            '{"type": "kmeans-adaptive", "n_clusters": 3}.'
        )
    values, named, answers = [], [], list[dict[str, Any]]()
    for path, item in zip(transcript, released, strict=True):
        wanted = clusters if has_clusters(item) else None
        values.append(answer_of(item, inferred, n_clusters=wanted, random_state=seed))
        named.append(None if values[-1] is None else named_answer(item, values[-1], inferred))
        answers.append({"transcript": str(path), "algorithm": str(item.algorithm.get("type")), "answer": None})
        if values[-1] is not None and named[-1] is not None:
            rows, heads, _, note = named[-1]
            answers[-1] |= {"answer": values[-1].tolist(), "rows": rows, "columns": heads, "note": note}
    centers = None if first is None else values[first]
    columns = column_names(released[0].context.domain)
    sizes = None if centers is None else tables.sizes_of(released[0].context.domain, centers, inferred)
    diagnostics = {} if inferred.diagnostics is None else inferred.diagnostics.to_json()
    privacy = joint_privacy(released)
    verdict = judge(released, inferred, centers)
    if not as_json:
        _show_answers(transcript, released, named, first, inferred, verdict, sizes, sure, privacy, method)
    files: list[Path] = []
    if folder is not None:
        # First: by it a folder is known as ours, also after an interruption.
        inferred.save(folder / "inferred.parquet")
        if centers is not None:
            files.append(folder / "centers.csv")
            write_whole(files[-1], out.csv_text(columns, centers.tolist(), comment=out.mark(privacy)))
        if centers is None or len(released) > 1:
            files.append(folder / "answers.json")
            write_whole(files[-1], out.json_text({"privacy": privacy["statement"], "answers": answers}))
        files += [folder / "inferred.parquet", folder / "diagnostics.json"]
        write_whole(files[-1], out.json_text({"privacy": privacy["statement"], **diagnostics}))
        out.say(f"Wrote {listed([path.name for path in files])} to {folder}.")
    out.say(out.privacy_sentence(privacy))
    out.say(verdict.in_words)
    for reason in warnings_of(released):
        out.say(reason)
    if as_json:
        out.print_json(
            method=method,
            columns=columns,
            centers=[] if centers is None else centers.tolist(),
            sizes=None if sizes is None else sizes.tolist(),
            intervals=None if sure is None else _intervals_json(sure),
            doubtful=doubts_of(released, centers, inferred).noise,
            **out.verdict_json(verdict),
            answers=answers,
            privacy=privacy,
            diagnostics=diagnostics,
            files=[str(path) for path in files],
        )
    elif not any(named):
        if folder is None:
            out.say("These answers were made elsewhere, so none is refitted; -o FOLDER writes the inferred data.")
    elif len(released) == 1:
        more = ["recoup", "infer", *transcript, "--intervals"] if centers is not None and sure is None else None
        page = ["recoup", "report", *transcript, "-o", "report.html"]
        out.say_next(more or page, "how sure each number is" if more else "a page about it")
    out.stop_if_interrupted(inferred)


def _show_answers(
    paths: list[Path],
    released: list[Transcript],
    named: list[NamedAnswer | None],
    first: int | None,
    inferred: InferredDataset,
    verdict: Verdict,
    sizes: Array | None,
    sure: Intervals | None,
    privacy: Mapping[str, Any],
    method: str,
) -> None:
    """Print the centres of the first clustering, the answers of all others, and where there is none the data."""
    from recoup.algorithms.base import column_names
    from recoup.report.sections.answer import has_clusters, inferred_in_short

    by = f"by {method}, {out.mark(privacy)}".removesuffix(", ")
    for t, (item, names) in enumerate(zip(released, named, strict=True)):
        if names is None:
            continue
        if t == first:
            title = f"{out.counted(len(names.values), 'centre')} {by}{out.doubt(verdict)}"
            title += "" if sure is None else f", with {share(sure.level)} intervals"
            shown: Any = {"sizes": sizes, "verdict": verdict, "intervals": sure}
            tables.print_centers(title, item.context.domain, names.values, **shown)
            continue
        corner, kind = "cluster" if has_clusters(item) else "", str(item.algorithm.get("type"))
        tables.print_named(f"Answer of {kind} ({paths[t]}) {by}", corner, names.rows, names.columns, names.values)
        if names.note:
            out.say(names.note)
    if not any(named):
        columns = column_names(released[0].context.domain)
        tables.print_table(f"About {inferred.n_records:,.0f} records {by}", *inferred_in_short(inferred, columns))


def _intervals_json(sure: Intervals) -> dict[str, Any]:
    ends = ("center_low", "center_high", "size_low", "size_high")
    return {"level": sure.level} | {name: getattr(sure, name).tolist() for name in ends}


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


def report(
    transcript: Annotated[list[Path], typer.Argument(help=f"{_TRANSCRIPT}.", metavar="TRANSCRIPT")],
    output: Annotated[Path, options.output(help="The page to write.")] = Path("report.html"),
    method: Annotated[str | None, options.choice("METHOD-OR-NONE", _REPORTED)] = None,
    inferred: Annotated[Path | None, options.in_run(help=_INFERRED)] = None,
    level: Annotated[float, options.in_run(help=_LEVEL)] = 0.9,
    intervals: Annotated[bool, options.in_run("--intervals/--no-intervals", help="Without them it is quicker.")] = True,
    seed: options.InferenceSeed = 0,
    title: Annotated[str | None, options.in_output(help="Of the page; it is public.")] = None,
    names: Annotated[str | None, options.in_output(help=_NAMES)] = None,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Write one page about a result: what was promised, what was found, how sure it is. Costs no privacy.

    The page is a single file that needs no network. Example:

        recoup report out/transcript.json -o report.html
    """
    # It takes seconds, of which imports are the first: something shows at once that it works.
    with Progress(at_once=True) as progress:
        from recoup._random import seed_for
        from recoup.inference.evidence import privacy_of
        from recoup.inference.infer import infer as read
        from recoup.inference.inferred import InferredDataset
        from recoup.inference.intervals import draws_for
        from recoup.inference.verdict import spoken
        from recoup.report.names import names_of_text
        from recoup.report.sections.answer import answer_of, warnings_of
        from recoup.report.write import check_title, without_picture, write_report
        from recoup.transcript.transcript import Transcript

        check_title(title)
        told: dict[str, Any] = {"title": title, "names": names_of_text(names)}
        if inferred is not None and method is not None:
            raise ParameterError(
                "--inferred and --method exclude each other: the data set was inferred by its own method."
            )
        if len(transcript) > 1:
            raise ParameterError(
                "a report is about one transcript: read several with `recoup infer A B -o together`, then report on "
                "either with --inferred together/inferred.parquet."
            )
        if intervals:
            draws_for(level, None)
        released = Transcript.load(transcript[0])
        options.output_file(output, "page")
        options.free_output(output, *transcript, inferred, config_file)
        inferring, writing = parts_of(progress.reached, 2, 5)
        data = None if inferred is None else InferredDataset.load(inferred)
        if data is None and method != "none":
            chosen: Any = method or "maxent"
            data = read(released, chosen, random_state=seed_for(seed), on_progress=inferring, warn=False)
        answer = answer_of(released, data, random_state=seed_for(seed))
        asked: Any = {"level": level if intervals else None, "seed": seed, "exact": inferred is None}
        content = write_report(output, released, answer, data, **asked, **told, on_progress=writing)
    if not as_json:
        _show_report(content)
    out.say(out.privacy_sentence(privacy_of(released, data)))
    out.say(spoken(content["verdict"]["sentence"], content["verdict"]["rests_on"]))
    for reason in warnings_of(released) if data is not None else ():
        out.say(reason)
    if as_json:
        return out.print_json(**({"report": str(output), "files": [str(output)]} | without_picture(content)))
    if content["choice"] is not None:
        out.say(f"How many clusters? {content['choice']['sentence']}")
    out.say(f"Open {output}.")


def _show_report(content: Mapping[str, Any]) -> None:
    """Print what the page says of clusters, or its answer."""
    from recoup.report.sections.clusters import size_words

    marked = content["title"] if content["private"] else f"{content['title']}, {content['privacy']['statement']}"
    if content["profiles"] is not None:
        clusters, counted = content["profiles"]["clusters"], content["summary"]["counted"]
        given = {cluster["label"]: content["names"].get(str(cluster["label"])) for cluster in clusters}
        labels = [f"{label}: {name}" if name else str(label) for label, name in given.items()]
        rows = [[label, size_words(c), c["sentence"]] for label, c in zip(labels, clusters, strict=True)]
        tables.print_table(marked, ["cluster", counted, "what it is like"], rows, left=3, wrap=True)
    elif content["answer"] is not None:
        shown = content["answer"]
        names, values = ([row[key] for row in shown["rows"]] for key in ("label", "values"))
        tables.print_named(marked, "", names, shown["columns"], values)
        if shown["note"]:
            out.say(shown["note"])
    else:
        out.say(f"{marked}: the algorithm ran elsewhere, so the page has no answer of its own.")


def imported(
    source: Annotated[Path, typer.Argument(help=_SOURCE, metavar="FILE")],
    output: options.TranscriptOutput = Path("transcript.json"),
    as_json: options.AsJson = False,
) -> None:
    """Read noisy answers of a private algorithm that ran elsewhere, for `infer` and `report`.

    Their privacy is whatever their maker claims: it is not verified. docs/imported.md describes the file. Example:

        recoup import imported.json -o transcript.json
    """
    from recoup.imported import load_foreign
    from recoup.transcript.transcript import Transcript

    transcript = load_foreign(source)
    options.output_file(output, "transcript")
    if output.exists():
        try:
            free = Transcript.load(output).imported
        except TranscriptError:
            free = False
        if not free:
            raise TranscriptError(f"{str(output)!r} exists and was not imported: choose another path with -o.")
    transcript.save(output)
    names = ("query", "n_values", "smallest_scale", "largest_scale")
    rounds = [
        (answered.query.type_name, answered.query.size, float(answered.scales.min()), float(answered.scales.max()))
        for answered in transcript.rounds
    ]
    if not as_json:
        rows = [
            [str(t), query, str(size), *tables.numbers(scales)] for t, (query, size, *scales) in enumerate(rounds, 1)
        ]
        title = f"{out.counted(len(rounds), 'round')} of {transcript.algorithm['type']}, {transcript.statement}"
        tables.print_table(title, ["round", "query", "values", "smallest scale", "largest scale"], rows, left=2)
    out.say(f"Wrote {output}.")
    out.say(out.privacy_sentence(transcript.privacy))
    implied = sum(answered.price.amount for answered in transcript.rounds)
    claimed = float(transcript.context.budget.amount)
    if implied > 1.01 * claimed:
        unit = "epsilon" if transcript.context.budget_measure == "pure" else "rho"
        out.say(
            f"Noise of these scales would cost {unit} {float(implied):.3g} here, more than the {claimed:.3g} that is "
            "claimed: check the scales, the units and the bounds."
        )
    if as_json:
        return out.print_json(
            transcript=str(output),
            algorithm=dict(transcript.algorithm),
            rounds=[dict(zip(names, values, strict=True)) for values in rounds],
            privacy=transcript.privacy,
            files=[str(output)],
        )
    out.say_next(["recoup", "infer", output, "-o", "inferred"], "the data behind these answers")
