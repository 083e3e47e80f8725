"""Every algorithm once: by which name transcripts and users know it, and what people are told it is.

A transcript can name only what is listed here, or what the reading program has registered itself. One more algorithm is
its own file, one entry here, and its test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_type_hints

from recoup._validate import whole_number
from recoup.algorithms.base import REQUIRED, Algorithm, ImportedAlgorithm
from recoup.algorithms.bounds import FindBounds
from recoup.algorithms.components import CovariancePCA, PowerPCA
from recoup.algorithms.incomplete import CountIncomplete
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.algorithms.kmeans.grid import GridKMeans, HybridKMeans
from recoup.algorithms.kmeans.lloyd import ClusteringAlgorithm, KMeans
from recoup.algorithms.logistic import LogisticRegression
from recoup.algorithms.mixture import GaussianMixture
from recoup.errors import Argument, ParameterError, TranscriptFormatError
from recoup.planner import Plan, plan_adaptive, plan_grid, plan_hybrid, plan_lloyd
from recoup.queries import QUERIES, unknown


class Entry(NamedTuple):
    """One algorithm of Recoup; `kind.type_name` is its name in transcripts."""

    kind: type[Algorithm]
    family: Literal["kmeans", "mixture", "logistic", "components", "counts", "imported"]  # which estimator runs it
    name: str | None  # what users pick it by within the family; none where there is nothing to pick
    description: str  # for people
    plans_rounds: bool = False  # whether it decides itself how many rounds there are
    plan: Callable[..., Plan] | None = None  # from terms, n_clusters and, if it plans no rounds, n_rounds to the cost


ENTRIES = [
    Entry(FindBounds, "counts", None, "noisy counts in a fixed list of bins, to find bounds (recoup.find_bounds)"),
    Entry(CovariancePCA, "components", "covariance", "principal components of a noisy covariance", plans_rounds=True),
    Entry(PowerPCA, "components", "power", "principal components by noisy power iteration"),
    Entry(AdaptiveKMeans, "kmeans", "adaptive", "adaptive cells (Recoup's default)", True, plan_adaptive),
    Entry(KMeans, "kmeans", "lloyd", "DP-KMEANS (Lloyd's algorithm with noise)", False, plan_lloyd),
    Entry(GridKMeans, "kmeans", "grid", "noisy counts on a grid (EUGkM)", True, plan_grid),
    Entry(HybridKMeans, "kmeans", "hybrid", "a grid, then a round of DP-KMEANS where it helps", True, plan_hybrid),
    Entry(CountIncomplete, "counts", None, "noisy counts of incomplete records (recoup.count_incomplete)"),
    Entry(ImportedAlgorithm, "imported", None, "an algorithm that ran elsewhere"),
    Entry(LogisticRegression, "logistic", None, "logistic regression by private gradient descent"),
    Entry(GaussianMixture, "mixture", None, "a Gaussian mixture by private EM"),
]
OWN = frozenset(entry.kind for entry in ENTRIES)  # those of Recoup, whatever is registered later
ALGORITHMS: dict[str, type[Algorithm]] = {entry.kind.type_name: entry.kind for entry in ENTRIES}

_QUERY = ("sensitivity", "contribution", "integer_total", "to_json", "from_json")


def choices(family: str) -> dict[str, Entry]:
    """The algorithms of a family, by what users pick them by."""
    return {entry.name: entry for entry in ENTRIES if entry.family == family and entry.name is not None}


def clustering_named(name: str, n_rounds: object = None) -> tuple[Entry, dict[str, Any]]:
    """The k-means algorithm that is asked for, and how many rounds it is told to make, if any.

    "auto" is "adaptive", or "lloyd" where rounds are asked for.
    """
    name = ("adaptive" if n_rounds is None else "lloyd") if name == "auto" else name
    entry = choices("kmeans").get(name)
    if entry is None:
        raise ParameterError(f"{name} is not an algorithm of rounds.", parameter="algorithm")
    if n_rounds is None:
        return entry, {}
    if entry.plans_rounds:
        raise ParameterError(f"the {name} algorithm plans its own rounds: leave out ", Argument("n_rounds"), ".")
    return entry, {"n_rounds": whole_number(n_rounds, "n_rounds")}


def described(type_name: str) -> str | None:
    """What an algorithm is, by its name in transcripts; none for one that is not Recoup's."""
    return next((entry.description for entry in ENTRIES if entry.kind.type_name == type_name), None)


def algorithm_from_json(value: Mapping[str, Any]) -> Algorithm:
    """Read an algorithm back from the description in a transcript."""
    if not isinstance(value.get("type"), str):
        raise TranscriptFormatError(f"unknown algorithm; known are {', '.join(ALGORITHMS)}.")
    if value["type"] not in ALGORITHMS:
        raise unknown("algorithm", value["type"])
    try:
        return completed(ALGORITHMS[value["type"]]).from_json(value)
    except (KeyError, TypeError, ParameterError) as error:
        raise TranscriptFormatError(f"the transcript's algorithm cannot be used: {error}") from None


def completed(kind: type[Algorithm]) -> type[Algorithm]:
    """A class that derives from no base of Recoup, with its defaults: those of a clustering, if it has clusters."""
    if Algorithm in kind.__mro__:
        return kind
    has_clusters = hasattr(kind, "n_clusters") or "n_clusters" in get_type_hints(kind)
    clusters = has_clusters and not hasattr(kind, "refit")
    for base in (ClusteringAlgorithm, Algorithm) if clusters else (Algorithm,):
        for name, default in vars(base).items():
            if not name.startswith("_") and not hasattr(kind, name):
                setattr(kind, name, default)
    return kind


# Estimators read these as a plan of their own, and as algorithms without rounds.
_RESERVED = ("auto", "gupt", "privgene")


def register(*kinds: type | Entry) -> None:
    """Let transcripts name these classes of queries and algorithms, in this process.

    Args:
        kinds: classes of queries or algorithms, each with its own `type_name`; or an `Entry` of an algorithm, whose
            name users can then choose wherever they choose one of Recoup's.

    Guarantees: a name that another class already has is refused; registering a class twice changes nothing.

    >>> from recoup import KMeans
    >>> register(KMeans)
    """
    entries = [kind for kind in kinds if isinstance(kind, Entry)]
    for entry in entries:
        if entry.name in _RESERVED:
            raise ParameterError(f"the name {entry.name!r} is taken by estimators: choose another.")
        same_name = choices(entry.family).get(entry.name or "")
        if same_name is not None and same_name.kind.type_name != entry.kind.type_name:
            raise ParameterError(f"the name {entry.name!r} is taken by {same_name.kind.__qualname__}: choose another.")
    checked: list[tuple[dict[str, Any], str, type]] = []
    for kind in (kind.kind if isinstance(kind, Entry) else kind for kind in kinds):
        is_algorithm, name = hasattr(kind, "next_request"), getattr(kind, "type_name", None)
        known: dict[str, Any] = ALGORITHMS if is_algorithm else QUERIES
        if not isinstance(kind, type) or not (is_algorithm or hasattr(kind, "contribution")):
            raise ParameterError(f"{kind!r} is neither a class of queries nor one of algorithms.")
        if not isinstance(name, str) or not name:
            raise ParameterError(f"{kind.__name__} has no type_name: give it one, for example 'my-median'.")
        same = known.get(name, kind)
        # A notebook's cell that runs twice is no other class; those that a function makes share their name by chance.
        again = (same.__module__, same.__qualname__) == (kind.__module__, kind.__qualname__)
        if same is not kind and (not again or "<locals>" in kind.__qualname__):
            raise ParameterError(f"the name {name!r} is taken by {same.__qualname__}: choose another.")
        missing = [part for part in (REQUIRED if is_algorithm else _QUERY) if not hasattr(kind, part)]
        if missing:
            raise ParameterError(f"{kind.__name__} has no {' and no '.join(missing)}: it could not be read back.")
        checked.append((known, name, kind))
    for known, name, kind in checked:
        known[name] = kind
    for entry in entries:
        ENTRIES[:] = [one for one in ENTRIES if one.kind.type_name != entry.kind.type_name]
        ENTRIES.append(entry._replace(kind=completed(entry.kind)))
