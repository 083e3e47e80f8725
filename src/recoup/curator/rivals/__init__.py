"""Private algorithms that release only a model, and their closed registry by the name that `PrivateKMeans` takes."""

from __future__ import annotations

from recoup.curator.rivals.base import Rival
from recoup.curator.rivals.gupt import Gupt
from recoup.curator.rivals.privgene import PrivGene
from recoup.errors import Argument, ParameterError

RIVALS: tuple[str, ...] = (Gupt.type_name, PrivGene.type_name)


def rival_of(name: str, n_clusters: int, n_rounds: int | None = None) -> Rival:
    """A rival by its name, with its published constants; only PrivGene has rounds.

    >>> rival_of("gupt", 3)
    Gupt(n_clusters=3, n_blocks=None)
    """
    if name == PrivGene.type_name:
        return PrivGene(n_clusters=n_clusters, n_rounds=n_rounds)
    if name != Gupt.type_name:
        raise ParameterError(f"{name!r}: choose one of {', '.join(RIVALS)}.")
    if n_rounds is not None:
        raise ParameterError("gupt has no rounds: leave out ", Argument("n_rounds"), ".")
    return Gupt(n_clusters=n_clusters)
