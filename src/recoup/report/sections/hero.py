"""The top of the page: title, banner where it is due, verdict, and the result at a glance."""

from __future__ import annotations

from recoup.algorithms.base import ImportedAlgorithm
from recoup.algorithms.registry import algorithm_from_json, described
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge
from recoup.queries.base import Array
from recoup.report.html import Markup, count, counted, element, folded, join, terms
from recoup.report.result import Json
from recoup.transcript.transcript import Transcript

_MOST_REASONS = 12  # more would push the result off the first screen
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
_LEADS = {
    "secure": "Found under differential privacy and read off the noisy answers alone: nothing on this page was "
    "computed from the records themselves.",
    "unverified": "Read off noisy answers{some} that were made elsewhere: nothing on this page was computed from the "
    "records themselves. That the answers are private is claimed by whoever made them, not verified by Recoup.",
    "simulated": "An experiment with simulated noise. Nothing on this page was computed from the records themselves, "
    "but the noise could be taken off again.",
}


def title(transcript: Transcript, n_clusters: int | None, *, private: bool) -> str:
    """What the page is called where nobody named it."""
    n_columns = transcript.context.domain.n_columns
    if n_clusters is not None:
        return clusters_title(n_clusters, n_columns, private=private)
    n_features = n_columns - algorithm_from_json(transcript.algorithm).has_label
    about = f"{counted(n_features, 'column')}{' and a label' * (n_features < n_columns)}"
    return f"{'Private answers' if private else 'Answers'} about {about}"


def clusters_title(n_clusters: int, n_columns: int, *, private: bool) -> str:
    """What a page about clusters is called."""
    return f"{counted(n_clusters, 'private cluster' if private else 'cluster')} in {counted(n_columns, 'column')}"


def summary(
    transcript: Transcript, inferred: InferredDataset | None, *, n_clusters: int | None, n_records: float
) -> Json:
    """The result in numbers, and how it came about in words."""
    kind = str(transcript.algorithm.get("type"))
    name = described(kind) or kind
    if n_clusters is None and isinstance(algorithm := algorithm_from_json(transcript.algorithm), ImportedAlgorithm):
        name = algorithm.name or kind
    method = "none" if inferred is None else inferred.method
    return {
        "n_clusters": n_clusters,
        "n_columns": transcript.context.domain.n_columns,
        "n_records": n_records,
        "n_rounds": len(transcript.rounds),
        "algorithm": name,
        "method": (_METHODS if n_clusters is None else _CLUSTER_METHODS).get(method, method),
    }


def verdict(transcript: Transcript, inferred: InferredDataset | None, centers: Array | None) -> Json:
    """Whether what follows can be trusted, and how many records it rests on; centres in the user's units."""
    judged = judge(transcript, inferred, centers)
    records = None if judged.records is None else judged.records.to_json()
    return judged.to_json() | {"records": records, "rests_on": judged.rests_on}


def html(content: Json) -> Markup:
    """The top of the page."""
    glance, privacy = content["summary"], content["privacy"]
    numbers = {row["name"]: row["value"] for row in privacy["numbers"]}
    tiles: list[tuple[str, object]] = [("epsilon", numbers["epsilon"])]
    if numbers["delta"] != "0":
        tiles.append(("delta", numbers["delta"]))
    for thing in ("cluster", "record", "column", "round"):
        n = glance[f"n_{thing}s"]
        if thing == "record" and n is not None:
            tiles.append(("records, about", count(n)))
        elif n is not None:
            tiles.append((thing if n == 1 else f"{thing}s", n))
    lead = _LEADS[numbers["noise"]].format(some="" if privacy["n_releases"] == 1 else ", among them some")
    made = join(element("strong", "Released by "), glance["algorithm"], ". ")
    made = join(made, element("strong", "Read by "), glance["method"], ".")
    return element(
        "header",
        _banner(privacy["warning"]),
        element("p", "Recoup report", class_="eyebrow"),
        element("h1", content["title"]),
        element("p", lead, class_="lead"),
        _verdict_html(content["verdict"]),
        terms(tiles, class_="tiles"),
        element("p", privacy["words"][0], " ", element("a", "The promise in full", href="#privacy"), class_="callout"),
        element("p", made, class_="soft"),
        class_="hero",
    )


def _banner(warning: Json | None) -> Markup | None:
    """The warning that goes with noise that is not Recoup's own; it cannot be overlooked, by eye or ear."""
    if warning is None:
        return None
    return element(
        "div", element("strong", warning["title"]), element("p", warning["text"]), class_="banner", role="alert"
    )


def _verdict_html(judged: Json | None) -> Markup | None:
    """The verdict as a callout that cannot be overlooked where it is doubtful, by eye or ear."""
    if judged is None:
        return None
    rests_on, notes = element("p", judged["rests_on"]), None
    if judged["notes"]:
        items = [element("li", note["sentence"]) for note in judged["notes"]]
        notes = folded("What else was seen", element("ul", items))
    if judged["status"] == "good":
        return element("div", element("p", judged["sentence"]), rests_on, notes, class_="callout verdict")
    sentences = [reason["sentence"] for reason in judged["reasons"]]
    if len(sentences) > _MOST_REASONS:
        sentences[_MOST_REASONS:] = [f"and {len(sentences) - _MOST_REASONS} more"]
    reasons = element("ul", [element("li", sentence) for sentence in sentences])
    strong = element("strong", "Doubtful: the released answers speak against this result")
    return element("div", strong, reasons, rests_on, notes, class_="callout verdict doubtful", role="alert")
