"""The page: what it says, gathered from its sections as JSON, the HTML of it, and the file that holds all of it.

A content policy inside the page forbids every request and every script but the page's own, by its hash: even a name
that slipped through the escaping could not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from html import escape
from string import Template
from typing import Any

from recoup._files import write_whole
from recoup._progress import OnProgress, parts_of, told
from recoup._threads import one_blas_thread
from recoup.algorithms.base import ImportedAlgorithm
from recoup.algorithms.registry import algorithm_from_json, described
from recoup.errors import ParameterError
from recoup.inference.evidence import privacy_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge
from recoup.privacy.statement import PrivacyStatement
from recoup.queries.base import Array
from recoup.report.html import Markup, appended, counted, element, join, section, template_file, terms
from recoup.report.names import checked_names
from recoup.report.sections import Json, answer, choice, clusters, fit, overview, picture, privacy, summary
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_SCRIPTS = ("theme.js", "names.js", "draw.js", "map.js", "fold.js")
_USUAL_LEVEL = 0.9
_METHODS = {
    "maxent": "maximum entropy over all rounds",
    "mcmc": "Metropolis-Hastings over data sets",
    "none": "no inference: the algorithm's own answer",
}
_CLUSTER_METHODS = _METHODS | {
    "maxent": f"{_METHODS['maxent']}, then k-means without noise",
    "mcmc": f"{_METHODS['mcmc']}, then k-means without noise",
    "consistency": "rounds made consistent; the last round's means",
}


def write_report(
    path: str | os.PathLike[str],
    transcript: Transcript,
    centers: Array | None,
    inferred: InferredDataset | None = None,
    *,
    level: float | None = _USUAL_LEVEL,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    seed: int = 0,
    exact: bool = False,
    found: PrivacyStatement | None = None,
    on_progress: OnProgress | None = None,
) -> Json:
    """Write the report of a result as one HTML file.

    Args:
        path: where to; the file appears only when it is complete.
        transcript: what was released.
        centers: (K, d) in the user's units; of an algorithm without clusters, its answer, or none.
        inferred: the data they were refitted on; none for the algorithm's own answer.
        level: the wanted coverage of the intervals; none leaves them out, which is quicker.
        title: of the page.
        names: of clusters, by their numbers; they are public, like the title.
        seed: of the report's own randomness, which costs no privacy.
        exact: whether the centres came from the transcript by this seed too.
        found: what another release of the same records promised, which found the bounds; none if they were declared.
        on_progress: called with (done, total), in percent, as the work goes on; the last time with done = total.

    Returns:
        What the page says, as `recoup report --json` prints it, and its picture's data.

    Guarantees: reads nothing but its arguments, so it costs no privacy; the same arguments write the same bytes.

    >>> import tempfile
    >>> import numpy as np
    >>> from recoup import Box, KMeans, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=2, n_rounds=2), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     content = write_report(f"{folder}/report.html", transcript, refit(transcript))
    >>> content["title"]
    '2 private clusters in 2 columns'
    """
    check_title(title)
    given: dict[str, Any] = {"level": level, "title": title, "names": names, "seed": seed, "exact": exact}
    content_told, end_told = parts_of(on_progress, 99, 1)
    with one_blas_thread():
        content = report_content(transcript, centers, inferred, found=found, **given, on_progress=content_told)
    write_page(path, content)
    told(end_told, 1, 1)
    return content


def check_title(title: str | None) -> None:
    """Refuse a title that no file can hold, such as bytes of a command line that are not text."""
    try:
        (title or "").encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("the title holds bytes that are not text: give another one.") from None


def write_page(path: str | os.PathLike[str], content: Json) -> None:
    """Write the content of a report as one HTML file."""
    check_title(content["title"])
    try:
        write_whole(path, render(content))
    except OSError as error:
        raise ParameterError(f"the report cannot be written to {os.fspath(path)!r}: {error.strerror}.") from None


def report_content(
    transcript: Transcript,
    fitted: Array | None,
    inferred: InferredDataset | None = None,
    *,
    level: float | None = _USUAL_LEVEL,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    seed: int = 0,
    exact: bool = False,
    found: PrivacyStatement | None = None,
    on_progress: OnProgress | None = None,
) -> Json:
    """What the report says about a result, as JSON; the arguments are those of `write_report`.

    Without clusters the parts that speak of them are none, and "answer" is the answer as a table.
    """
    if not isinstance(transcript, Transcript):
        raise ParameterError(
            f"transcript is a {type(transcript).__name__}: a report is about one transcript. Give it with the data set "
            "that recoup.infer made of several."
        )
    clustered, n_columns = answer.has_clusters(transcript), transcript.context.domain.n_columns
    if clustered and fitted is None:
        raise ParameterError("a report about clusters needs their centres: give what recoup.refit returns.")
    named = checked_names(names, len(fitted) if clustered and fitted is not None else None)
    if not transcript.rounds:
        raise ParameterError("the transcript has no rounds: nothing was released that a report could show.")
    if inferred is not None and inferred.points.shape[1] != n_columns:
        raise ParameterError(
            f"the inferred data has {inferred.points.shape[1]} columns and the transcript {n_columns}: they do "
            "not belong together."
        )
    spending = privacy.budget_content(transcript, inferred, found)
    statement, n_records = privacy_of(transcript, inferred), transcript.context.n_records
    statement = statement if found is None else PrivacyStatement.together([statement, found])
    promise = privacy.content(statement, n_records=n_records, budget=spending, clusters=clustered, found=found)
    kind, method = str(transcript.algorithm.get("type")), "none" if inferred is None else inferred.method
    glance: Json = {
        "n_clusters": None,
        "n_columns": transcript.context.domain.n_declared,
        "n_records": None,
        "n_rounds": len(transcript.rounds),
        "counted": "persons" if transcript.context.per_person == "mean" else "records",
    }
    glance |= {"algorithm": described(kind) or kind, "method": _METHODS.get(method, method)}
    intervals_told, choice_told = parts_of(on_progress, 1, 1)
    about: dict[str, Json | None] = dict.fromkeys(("map", "choice", "profiles", "centers"))
    variable, has_label = None if fitted is None else "answer", False
    if clustered and fitted is not None:
        asked: dict[str, Any] = {"level": level, "seed": seed, "on_progress": intervals_told}
        result, variable = answer.result_of(transcript, fitted, inferred, **asked), "centers"
        data = result.population if inferred is None else inferred
        glance |= {"n_clusters": len(result.centers), "n_records": float(result.sizes.sum())}
        glance["method"] = _CLUSTER_METHODS.get(method, method)
        about["map"] = picture.content(result, random_state=seed)
        about["choice"] = choice.content(result, level=level, random_state=seed, on_progress=choice_told)
        about["profiles"] = clusters.content(result)
        about["centers"] = clusters.centers_content(result)
    else:
        data = answer.population_of(transcript, seed) if inferred is None else inferred
        algorithm = algorithm_from_json(transcript.algorithm)
        glance["n_records"], has_label, level = data.n_records, algorithm.has_label, None
        if isinstance(algorithm, ImportedAlgorithm):
            glance["algorithm"] = algorithm.name
        about["answer"] = answer.content(transcript, fitted, inferred, seed=seed)
    judged = judge(transcript, inferred, fitted if clustered else None)
    records = None if judged.records is None else judged.records.to_json()
    about["fit"] = fit.content(transcript, data)
    again: Json = {"joint": spending["n_others"] > 0, "answer": variable, "level": level, "seed": seed, "exact": exact}
    about["reproduce"] = _reproduce(transcript, method, **again, found=found is not None)
    verdict = judged.to_json() | {"records": records, "rests_on": judged.rests_on}
    return _page(title, named, promise, glance, has_label, verdict=verdict, budget=spending, **about)


def model_content(
    statement: Mapping[str, Any],
    fitted: Array,
    *,
    algorithm: str,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    found: PrivacyStatement | None = None,
) -> Json:
    """What can be said where only centres were released: the keys of `report_content`, most of them none.

    The statement is that of all releases, the one that found the bounds among them.
    """
    promise, named = privacy.content(statement, found=found), checked_names(names, len(fitted))
    bounds = promise["bounds"]
    glance: Json = dict.fromkeys(("n_records", "n_rounds"))
    glance |= {"n_clusters": len(fitted), "n_columns": len(bounds), "counted": "records"}
    method = "none: only the centres were released, and there is no transcript to infer from"
    glance |= {"algorithm": algorithm, "method": method}
    parts: Json = dict.fromkeys(("verdict", "budget", "map", "choice", "profiles", "fit", "reproduce"))
    return _page(title, named, promise, glance, False, **parts, centers=clusters.model_centers(fitted, bounds))


def _page(title: str | None, names: Json, promise: Json, glance: Json, has_label: bool, **parts: Json | None) -> Json:
    """The content of any page; what it is about is its title where nobody gave it one."""
    private, n_clusters, n_columns = promise["private"], glance["n_clusters"], glance["n_columns"]
    if not title and n_clusters is not None:
        title = f"{counted(n_clusters, 'private cluster' if private else 'cluster')} in {counted(n_columns, 'column')}"
    elif not title:
        about = f"{counted(n_columns - has_label, 'column')}{' and a label' * has_label}"
        title = f"{'Private answers' if private else 'Answers'} about {about}"
    verdict = parts.pop("verdict")
    in_short = summary.content(glance, verdict, promise, parts["profiles"], parts.get("answer"))
    head = {"format": "recoup-report", "title": title, "private": private, "version": __version__, "names": names}
    return head | {"in_short": in_short, "verdict": verdict, "summary": glance, "privacy": promise} | parts


def without_picture(content: Mapping[str, Any]) -> Json:
    """The content without the encoded positions that only the picture needs: for machines that read."""
    return {name: value for name, value in content.items() if name != "map"}


def _reproduce(
    transcript: Transcript,
    method: str,
    *,
    joint: bool,
    answer: str | None,
    level: float | None,
    seed: int,
    exact: bool,
    found: bool,
) -> Json:
    """Versions, the transcript's checksum, and the lines that make the page again; `answer` is a variable in them."""
    seeded = "" if method == "consistency" else f", random_state={seed}"
    read, option = f'inferred = recoup.infer(transcript, "{method}"{seeded})', f"--method {method}"
    if method == "none":
        read = "inferred = None  # the algorithm's own answer"
    note = "Inference had a seed of its own; these lines give its result again up to its harmless randomness."
    if answer == "centers":
        note = "The centres were fitted with a seed of their own; these lines give them again up to the harmless "
        note += "randomness of inference."
    if exact:
        note = "These lines give the same numbers again."
    if joint:
        # Which files the others are in is not known here.
        read, option = 'inferred = recoup.InferredDataset.load("inferred.parquet")', "--inferred inferred.parquet"
        note = "The inferred data was made from several transcripts: these lines read it from the file that it was "
        note += "saved to."
    if found:
        note += " They tell of this release alone, and not of the one that found its bounds."
    lines = ["import recoup", "", 'transcript = recoup.Transcript.load("transcript.json")', read]
    if answer is not None:
        lines.append(f"{answer} = recoup.refit(transcript, inferred, random_state={seed})")
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


def _reproduce_html(again: Json) -> Markup:
    """The lines that make the page again."""
    rows = [
        ("transcript", element("code", again["checksum"])),
        ("released with", f"Recoup {again['transcript_version']}"),
        ("this page", f"Recoup {again['report_version']}, seed {again['seed']}"),
    ]
    lines = [
        (element("h4", where), element("pre", element("code", again[key]), tabindex="0"))
        for where, key in (("On the command line", "command"), ("In Python", "python"))
    ]
    lead = f"The page needs the transcript and no records. {again['note']}"
    return appended("reproduce", "How to reproduce", lead, lines, terms(rows, class_="numbers wide"))


def _appendix_html(page: Json) -> Markup:
    """What only some readers want: how the result was made, at what price, how well it fits, and how to repeat it."""
    glance, parts = page["summary"], []
    for key, show in _APPENDIX:
        parts.append(None if page[key] is None else show(page[key]))
    made = f"Released by {glance['algorithm']}. Read by {glance['method']}."
    return section("appendix", "Appendix", made, *parts)


_APPENDIX: tuple[tuple[str, Callable[[Json], Markup | None]], ...] = (
    ("budget", privacy.budget_html),
    ("fit", fit.html),
    ("fit", fit.chains_html),
    ("reproduce", _reproduce_html),
)
# Anchor, name in the menu, and the HTML of what the content has under these keys; nothing where the first has none.
_SECTIONS: tuple[tuple[str, str, Callable[..., Markup | None], tuple[str, ...]], ...] = (
    ("overview", "Overview", overview.html, ("profiles", "centers", "names")),
    ("answer", "Answer", answer.html, ("answer",)),
    ("clusters", "Clusters", clusters.html, ("profiles", "names")),
    ("sure", "How sure", picture.html, ("centers", "map", "names")),
    ("choice", "How many", choice.html, ("choice",)),
    ("privacy", "Privacy", privacy.html, ("privacy",)),
)


def render(content: Json) -> str:
    """The page as HTML in one piece: style, script and data inside it.

    Guarantees: a function of the content; every word of it is escaped; the page makes no request.
    """
    shown = [
        (anchor, name, html)
        for anchor, name, show, keys in _SECTIONS
        if content.get(keys[0]) is not None and (html := show(*(content[key] for key in keys))) is not None
    ]
    shown.append(("appendix", "Appendix", _appendix_html(content)))
    script = "\n".join(template_file(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(content["map"], allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    for sign in "<>&":  # so that it cannot end the element it stands in, whatever text it holds
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return Template(template_file("page.html")).substitute(
        title=escape(f"{content['title']} - Recoup report"),
        script_hash=f"sha256-{digest}",
        style=template_file("style.css"),
        links=join(*(element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in shown)),
        hero=summary.html(content),
        sections=join(*(html for _, _, html in shown)),
        version=escape(content["version"]),
        data=data,
        script=script,
    )
