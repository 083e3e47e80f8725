"""How to get the same page again, from the transcript alone."""

from __future__ import annotations

from typing import Any

from recoup.inference.evidence import releases_behind
from recoup.inference.inferred import InferredDataset
from recoup.report.result import Result
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_USUAL_LEVEL = 0.9
_READ = {
    "maxent": 'inferred = recoup.infer(transcript, "maxent", random_state={seed})',
    "mcmc": 'inferred = recoup.infer(transcript, "mcmc", random_state={seed})',
    "consistency": 'inferred = recoup.infer(transcript, "consistency")',
    "none": "inferred = None  # the algorithm's own answer",
}


def reproduce_facts(result: Result, *, level: float | None, seed: int, exact: bool) -> dict[str, Any]:
    """Versions, the transcript's checksum, and the lines that make the page again.

    Args:
        result: what the report is about.
        level: the coverage of its intervals; none if it has none.
        seed: of the report's own harmless randomness.
        exact: whether inference and refit used this seed too, so that the lines give the very same numbers.

    Returns:
        JSON; no path of a file is in it.
    """
    return lines_for(result.transcript, result.inferred, answer="centers", level=level, seed=seed, exact=exact)


def lines_for(
    transcript: Transcript,
    inferred: InferredDataset | None,
    *,
    answer: str | None,
    level: float | None,
    seed: int,
    exact: bool,
) -> dict[str, Any]:
    """What `reproduce_facts` says, of any transcript; the answer by the name of a variable, none if there is none."""
    method = "none" if inferred is None else inferred.method
    read, option = _READ.get(method, _READ["maxent"]).format(seed=seed), f"--method {method}"
    joint = releases_behind(transcript, inferred) > 1
    if joint:
        # Which files the others are in is not known here.
        read, option = 'inferred = recoup.InferredDataset.load("inferred.parquet")', "--inferred inferred.parquet"
    lines = [
        "import recoup",
        "",
        'transcript = recoup.Transcript.load("transcript.json")',
        read,
    ]
    if answer is not None:
        lines.append(f"{answer} = recoup.refit(transcript, inferred, random_state={seed})")
    note = (
        "The inferred data was made from several transcripts: these lines read it from the file that it was saved to."
        if joint
        else "These lines give the same numbers again."
        if exact
        else "The centres were fitted with a seed of their own; these lines give them again up to the harmless "
        "randomness of inference."
        if answer == "centers"
        else "Inference had a seed of its own; these lines give its result again up to its harmless randomness."
    )
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
