"""How to get the same page again, from the transcript alone; no path of a file is in it."""

from __future__ import annotations

from recoup.inference.evidence import releases_behind
from recoup.inference.inferred import InferredDataset
from recoup.report.html import Markup, element, join, section, terms
from recoup.report.result import Json
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_USUAL_LEVEL = 0.9
_READ = {
    "maxent": 'inferred = recoup.infer(transcript, "maxent", random_state={seed})',
    "mcmc": 'inferred = recoup.infer(transcript, "mcmc", random_state={seed})',
    "consistency": 'inferred = recoup.infer(transcript, "consistency")',
    "none": "inferred = None  # the algorithm's own answer",
}


def content(
    transcript: Transcript,
    inferred: InferredDataset | None,
    *,
    answer: str | None,
    level: float | None,
    seed: int,
    exact: bool,
) -> Json:
    """Versions, the transcript's checksum, and the lines that make the page again.

    `answer` is the variable that holds the answer in these lines; `exact` says whether inference and refit used the
    report's seed too, so that the lines give the very same numbers.
    """
    method = "none" if inferred is None else inferred.method
    read, option = _READ.get(method, _READ["maxent"]).format(seed=seed), f"--method {method}"
    joint = releases_behind(transcript, inferred) > 1
    if joint:
        # Which files the others are in is not known here.
        read, option = 'inferred = recoup.InferredDataset.load("inferred.parquet")', "--inferred inferred.parquet"
    lines = ["import recoup", "", 'transcript = recoup.Transcript.load("transcript.json")', read]
    if answer is not None:
        lines.append(f"{answer} = recoup.refit(transcript, inferred, random_state={seed})")
    if joint:
        note = (
            "The inferred data was made from several transcripts: these lines read it from the file that it was "
            "saved to."
        )
    elif exact:
        note = "These lines give the same numbers again."
    elif answer == "centers":
        note = (
            "The centres were fitted with a seed of their own; these lines give them again up to the harmless "
            "randomness of inference."
        )
    else:
        note = "Inference had a seed of its own; these lines give its result again up to its harmless randomness."
    intervals = " --no-intervals" if level is None else "" if level == _USUAL_LEVEL else f" --level {level:g}"
    return {
        "report_version": __version__,
        "transcript_version": transcript.library_version,
        "checksum": str(transcript.to_json()["checksum"]),
        "algorithm": dict(transcript.algorithm),
        "method": method,
        "seed": seed,
        "python": "\n".join(lines),
        "command": f"recoup report transcript.json {option} --seed {seed}{intervals} -o report.html",
        "note": note,
    }


def html(again: Json) -> Markup:
    """The lines that make the page again."""
    rows = [
        ("transcript", element("code", again["checksum"])),
        ("released with", f"Recoup {again['transcript_version']}"),
        ("this page", f"Recoup {again['report_version']}, seed {again['seed']}"),
    ]
    return section(
        "reproduce",
        "How to reproduce",
        join("The page needs the transcript and no records. ", again["note"]),
        element("h3", "On the command line"),
        element("pre", element("code", again["command"]), tabindex="0"),
        element("h3", "In Python"),
        element("pre", element("code", again["python"]), tabindex="0"),
        terms(rows, class_="numbers wide"),
    )
