"""The page: what it says, gathered from its sections as JSON, and the HTML of it in one file that needs no network.

A content policy inside the page forbids every request and every script but the page's own, by its hash: even a name
that slipped through the escaping could not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from html import escape
from string import Template
from typing import Any

from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import Array
from recoup.report.html import Markup, element, join, template_file
from recoup.report.result import Json, population_of, result_of
from recoup.report.sections import answer, budget, centers, choice, clusters, fit, hero, picture, privacy, reproduce
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_SCRIPTS = ("theme.js", "draw.js", "map.js")
# Anchor, name in the menu, and the HTML of what the content has under these keys; nothing where the first has none.
_SECTIONS: tuple[tuple[str, str, Callable[..., Markup | None], tuple[str, ...]], ...] = (
    ("answer", "Answer", answer.html, ("answer",)),
    ("picture", "Picture", picture.html, ("centers", "map")),
    ("clusters", "Clusters", clusters.html, ("profiles",)),
    ("choice", "How many", choice.html, ("choice",)),
    ("privacy", "Privacy", privacy.html, ("privacy",)),
    ("budget", "Budget", budget.html, ("budget",)),
    ("fit", "Fit", fit.html, ("fit",)),
    ("chains", "Chains", fit.chains_html, ("fit",)),
    ("reproduce", "Reproduce", reproduce.html, ("reproduce",)),
)


def report_content(
    transcript: Transcript,
    fitted: Array | None,
    inferred: InferredDataset | None = None,
    *,
    level: float | None = 0.9,
    title: str | None = None,
    seed: int = 0,
    exact: bool = False,
) -> Json:
    """What the report says about a result, as JSON; the arguments are those of `write_report`.

    Without clusters the parts that speak of them are none, and "answer" is the answer as a table.

    Guarantees: reads nothing but its arguments; the same arguments give the same dictionary.
    """
    if not isinstance(transcript, Transcript):
        raise ParameterError(
            f"transcript is a {type(transcript).__name__}: a report is about one transcript. Give it with the data set "
            "that recoup.infer made of several."
        )
    clustered, n_columns = answer.has_clusters(transcript), transcript.context.domain.n_columns
    if clustered and fitted is None:
        raise ParameterError("a report about clusters needs their centres: give what recoup.refit returns.")
    if not transcript.rounds:
        raise ParameterError("the transcript has no rounds: nothing was released that a report could show.")
    if inferred is not None and inferred.points.shape[1] != n_columns:
        raise ParameterError(
            f"the inferred data has {inferred.points.shape[1]} columns and the transcript {n_columns}: they do "
            "not belong together."
        )
    spending = budget.content(transcript, inferred)
    promise = privacy.content_of(transcript, inferred, lost=spending["lost"], clusters=clustered)
    if clustered and fitted is not None:
        result = result_of(transcript, fitted, inferred, level=level, random_state=seed)
        data = result.population if inferred is None else inferred
        n_clusters, n_records = len(result.centers), float(result.sizes.sum())
        about = {
            "map": picture.content(result, random_state=seed),
            "choice": choice.content(result, level=level, random_state=seed),
            "profiles": clusters.content(result),
            "centers": centers.content(result),
        }
    else:
        data = population_of(transcript, random_state=seed) if inferred is None else inferred
        n_clusters, n_records, level = None, data.n_records, None
        about = dict.fromkeys(("map", "choice", "profiles", "centers"))
        about["answer"] = answer.content(transcript, fitted, inferred, seed=seed)
    variable = "centers" if clustered else None if fitted is None else "answer"
    return {
        "format": "recoup-report",
        "title": title or hero.title(transcript, n_clusters, private=promise["private"]),
        "private": promise["private"],
        "version": __version__,
        "verdict": hero.verdict(transcript, inferred, fitted if clustered else None),
        "summary": hero.summary(transcript, inferred, n_clusters=n_clusters, n_records=n_records),
        "privacy": promise,
        "budget": spending,
        **about,
        "fit": fit.content(transcript, data),
        "reproduce": reproduce.content(transcript, inferred, answer=variable, level=level, seed=seed, exact=exact),
    }


def model_content(
    privacy_statement: Mapping[str, Any], fitted: Array, *, algorithm: str, title: str | None = None
) -> Json:
    """What can be said where only centres were released: the keys of `report_content`, most of them none."""
    promise = privacy.content(privacy_statement)
    bounds = promise["bounds"]
    return {
        "format": "recoup-report",
        "title": title or hero.clusters_title(len(fitted), len(bounds), private=promise["private"]),
        "private": promise["private"],
        "version": __version__,
        "verdict": None,
        "summary": {
            "n_clusters": len(fitted),
            "n_columns": len(bounds),
            "n_records": None,
            "n_rounds": None,
            "algorithm": algorithm,
            "method": "none: only the centres were released, and there is no transcript to infer from",
        },
        "privacy": promise,
        "centers": centers.content_of_model(fitted, bounds),
        **dict.fromkeys(("budget", "map", "choice", "profiles", "fit", "reproduce")),
    }


def without_picture(content: Mapping[str, Any]) -> Json:
    """The content without the encoded positions that only the picture needs: for machines that read."""
    return {name: value for name, value in content.items() if name != "map"}


def render(content: Json) -> str:
    """The page as HTML in one piece: style, script and data inside it.

    Guarantees: a function of the content; every word of it is escaped; the page makes no request.
    """
    shown = [
        (anchor, name, html)
        for anchor, name, show, keys in _SECTIONS
        if content.get(keys[0]) is not None and (html := show(*(content[key] for key in keys))) is not None
    ]
    script = "\n".join(template_file(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(template_file("page.html")).substitute(
        title=escape(f"{content['title']} - Recoup report"),
        script_hash=f"sha256-{digest}",
        style=template_file("style.css"),
        links=join(*(element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in shown)),
        hero=hero.html(content),
        sections=join(*(html for _, _, html in shown)),
        version=escape(content["version"]),
        data=_embedded(content["map"]),
        script=script,
    )


def _embedded(value: object) -> str:
    """JSON that cannot end the element it stands in, whatever text it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
