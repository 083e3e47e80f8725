"""Answers of a private algorithm that ran elsewhere, as a transcript that inference and reports can read.

Nothing about their privacy can be checked from here: what whoever made them claims is carried along as a claim, in the
file, on the page and on the command line. `docs/imported.md` describes the file that people write by hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recoup._files import TwiceError, no_constants, unique_names
from recoup._validate import choice
from recoup.algorithms.base import Algorithm, ImportedAlgorithm
from recoup.algorithms.components import CovariancePCA, PowerPCA
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.algorithms.mixture import GaussianMixture
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import DOMAINS, Domain, declared_bounds
from recoup.errors import ParameterError, RecoupError, TranscriptFormatError
from recoup.privacy.statement import IMPORTED_NEIGHBOURS, NEIGHBOURS
from recoup.queries import query_from_json
from recoup.queries.base import Array, Block, Query
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import counts_in_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

FORMAT = "recoup-foreign"
_TERMS = {
    *("epsilon", "delta", "mechanism", "neighbours", "records_per_person"),
    *("n_records", "simulated", "algorithm", "units"),
}
_FIELDS = {*_TERMS, "format", "bounds", "domain", "radius", "rounds"}
_NEEDED = ("bounds", "epsilon", "mechanism", "rounds")
_BEYOND_NOISE = 30.0  # scales: Laplace noise is larger once in 10^13 values, Gaussian noise never

Units = Literal["unit", "user"]


def transcript_from(
    *,
    domain: Domain,
    epsilon: Any,
    rounds: Sequence[tuple[Any, Any, Any]],
    delta: Any = 0,
    mechanism: Literal["laplace", "gaussian"] = "laplace",
    algorithm: Algorithm | Mapping[str, Any] | str | None = None,
    n_records: int | None = None,
    records_per_person: int = 1,
    neighbours: str = NEIGHBOURS,
    units: Units = "unit",
    simulated: bool = False,
) -> Transcript:
    """Make a transcript of noisy answers that were made elsewhere, to be read by `infer`, `refit` and the report.

    Args:
        domain: public bounds of the records, and what they were clipped to.
        epsilon: what is claimed for all rounds together.
        rounds: for each round a query (or its JSON), its noisy answer, and the noise scales: one number, one per block,
            or one per value. You may also give answer and scales by the names of blocks.
        delta: as claimed; above 0 for Gaussian noise.
        mechanism: the law of the noise: "laplace" (scale b) or "gaussian" (scale: the standard deviation).
        algorithm: the algorithm that refits the answer, such as `recoup.KMeans(n_clusters=3)`, or the name of another
            in words. By default k-means, where every round has counts and sums of the same number of cells, else only
            the rounds.
        n_records: a public number of records, if there is one.
        records_per_person: how many records one person may have, as claimed.
        neighbours: "add-remove-one-record" or "replace-one-record", as claimed.
        units: "unit": centres and sums are of columns scaled to -1 to 1; "user": they are in the columns' own units.
        simulated: whether the noise came from a seed, so that the result is NOT PRIVATE.

    Returns:
        A transcript; its privacy statement says that it is claimed by whoever made it, and not verified.

    Guarantees: checks sizes, positive noise scales and finite numbers, that records inside the bounds can have given
    the answers, and that the algorithm can read the rounds. Does not check privacy. The transcript cannot be continued.

    >>> from recoup import Box
    >>> query = {"type": "voronoi", "centers": [[20.0], [60.0]], "sums": "absolute"}
    >>> answer = {"count": [412.3, 580.9], "sum": [[10_204.5], [36_780.0]]}
    >>> transcript = transcript_from(domain=Box([0], [100]), epsilon=1, units="user",
    ...                              rounds=[(query, answer, {"count": 2, "sum": 200})])
    >>> transcript.statement
    'differential privacy is claimed by whoever made it, not verified by Recoup'
    >>> transcript.algorithm["n_clusters"], transcript.rounds[0].noisy[:2]
    (2, array([412.3, 580.9]))
    """
    choice(neighbours, "neighbours", IMPORTED_NEIGHBOURS)
    choice(units, "units", ("unit", "user"))
    if not isinstance(simulated, bool):
        raise ParameterError("simulated must be true or false.")
    context = Context(
        domain=domain,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        n_records=n_records,
        records_per_person=records_per_person,
    )
    if isinstance(rounds, str | bytes | Mapping) or not isinstance(rounds, Sequence) or not rounds:
        raise ParameterError("rounds must be a list of at least one (query, noisy answer, noise scales).")
    read = tuple(_round(context, item, t, units) for t, item in enumerate(rounds, start=1))
    described = _algorithm(context, algorithm, read).to_json()
    return Transcript(context=context, algorithm=described, rounds=read, simulated=simulated, neighbours=neighbours)


def load_foreign(path: str | os.PathLike[str]) -> Transcript:
    """Read a JSON file that somebody wrote by hand about answers that were made elsewhere.

    Args:
        path: the file; `docs/imported.md` describes its fields.

    Returns:
        A transcript; `save` writes it for `Transcript.load`.

    Raises:
        TranscriptFormatError: the file is not there, is not JSON, or a field is unknown, missing or unusable.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        value = json.loads(text, object_pairs_hook=unique_names, parse_constant=no_constants)
    except UnicodeDecodeError:
        raise TranscriptFormatError(f"{path} is not a text file.") from None
    except OSError as error:
        raise TranscriptFormatError(f"{path} cannot be read: {error.strerror}.") from None
    except TwiceError as twice:
        raise TranscriptFormatError(f"{path} names {str(twice)!r:.60} twice in one place.") from None
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise TranscriptFormatError(f"{path} is not JSON{where}.") from None
    return imported_from_json(value)


def imported_from_json(value: object) -> Transcript:
    """Read what `load_foreign` reads from a JSON value.

    >>> imported_from_json({"format": "recoup-foreign", "bounds": {"age": [0, 100]}, "mechanism": "laplace",
    ...     "epsilon": 0.5, "rounds": [{"query": {"type": "grid", "sides": [4]}, "noisy": [3, 9, 8, 1], "scale": 2}]})
    <Transcript of elsewhere; ...>
    """
    if not isinstance(value, Mapping) or value.get("format") != FORMAT:
        raise TranscriptFormatError(f'this is not a file about answers made elsewhere: its "format" is not "{FORMAT}".')
    if unknown := sorted(set(value) - _FIELDS):
        raise TranscriptFormatError(f"unknown field {unknown[0]!r:.60}; known are {', '.join(sorted(_FIELDS))}.")
    if missing := [name for name in _NEEDED if name not in value]:
        raise TranscriptFormatError(f"the field {missing[0]!r} is missing.")
    rounds = value["rounds"]
    if not isinstance(rounds, list) or not rounds:
        raise TranscriptFormatError("rounds must be a list of at least one round.")
    for t, item in enumerate(rounds, start=1):
        if not isinstance(item, Mapping) or set(item) != {"query", "noisy", "scale"}:
            raise TranscriptFormatError(f"round {t} must hold query, noisy and scale, and nothing else.")
    given = {name: value[name] for name in _TERMS if name in value}
    answers = [(item["query"], item["noisy"], item["scale"]) for item in rounds]
    try:
        return transcript_from(domain=_domain(value), rounds=answers, **given)
    except RecoupError as error:
        raise TranscriptFormatError(str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise TranscriptFormatError("a field has the wrong type.") from None


def _domain(value: Mapping[str, Any]) -> Domain:
    kind, bounds = value.get("domain", "box"), value["bounds"]
    if not isinstance(kind, str) or kind not in DOMAINS:
        raise TranscriptFormatError(f"domain must be one of {', '.join(DOMAINS)}.")
    pairs = list(bounds.values()) if isinstance(bounds, Mapping) else bounds
    if not pairs or not _are_rows(pairs, 2):
        raise TranscriptFormatError('bounds must be {"column": [low, high], ...}, or a list of [low, high].')
    named = bounds if isinstance(bounds, Mapping) else {str(j): pair for j, pair in enumerate(pairs)}
    low, high, columns = declared_bounds(named)
    more = {} if "radius" not in value else {"radius": value["radius"]}
    if more and (kind == "box" or not _is_number(more["radius"])):
        raise TranscriptFormatError("radius must be a number, and only the balls l1 and l2 have one.")
    return DOMAINS[kind](tuple(low), tuple(high), columns if isinstance(bounds, Mapping) else None, **more)


def _are_rows(value: object, n: int) -> bool:
    """Whether this is a list of lists of n numbers."""
    rows = value if isinstance(value, list) else [None]
    return all(isinstance(row, list) and len(row) == n and all(map(_is_number, row)) for row in rows)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _round(context: Context, item: Any, t: int, units: Units) -> Round:
    if isinstance(item, str | bytes | Mapping) or not isinstance(item, Sequence) or len(item) != 3:
        raise ParameterError(f"round {t} must be (query, noisy answer, noise scales).")
    query, noisy, scales = item
    try:
        if not isinstance(query, Query):
            query = _query_from_json(query, context.domain, units)
        elif units == "user":
            raise ParameterError('a query object is in the unit domain: leave units="unit", or give the query as JSON.')
        blocks = query.sensitivity(context.domain).blocks
        given = {"noisy": _by_block(noisy, blocks, "noisy"), "scales": _by_block(scales, blocks, "scale")}
        answered = Round.of_imported(context, query=query, **given)
        answered = answered if units == "unit" else _sums_in_unit(context, answered)
        _check_possible(context, answered, units)
        return answered
    except (ParameterError, TranscriptFormatError) as error:
        raise ParameterError(f"round {t}: {error}") from None


def _query_from_json(value: object, domain: Domain, units: Units) -> Query:
    """Read a query; centres in the columns' own units are mapped to the unit domain without clipping to it."""
    if units == "user" and isinstance(value, Mapping) and value.get("type") == VoronoiQuery.type_name:
        centers, low, high = value.get("centers"), np.array(domain.low), np.array(domain.high)
        if value.get("sums") == "relative":
            raise ParameterError('relative sums are read in the unit domain only: give them with units="unit".')
        if not _are_rows(centers, domain.n_columns):
            raise ParameterError(f"centers must be a list of centres of {domain.n_columns} numbers.")
        with np.errstate(all="ignore"):  # what overflows is refused by the query
            unit = np.asarray(2.0 * (np.array(centers, dtype=np.float64) - low) / (high - low) - 1.0)
        return query_from_json({**value, "centers": unit.tolist()})
    query = query_from_json(value)
    if units == "user" and not counts_in_cells(query):
        raise ParameterError(f'{query.type_name} is read in the unit domain only: give it with units="unit".')
    return query


def _by_block(values: Any, blocks: Sequence[Block], what: Literal["noisy", "scale"]) -> Any:
    """Values that may be given by the names of blocks, each a number or a list, in the order of the answer."""
    if not isinstance(values, Mapping):
        return values
    if set(values) != {block.name for block in blocks}:
        raise ParameterError(f"{what} must name the blocks {', '.join(block.name for block in blocks)}, each once.")
    items: list[Any] = []
    for block in blocks:
        given = values[block.name]
        part = list(given.ravel()) if isinstance(given, np.ndarray) else given
        if isinstance(part, list | tuple) and part and all(isinstance(row, list | tuple) for row in part):
            part = [item for row in part for item in row]
        if what == "scale":
            part = part if isinstance(part, list | tuple) else [part]
            if len(part) > 1:
                raise ParameterError("by block, a scale is one number: give a list of all scales instead.")
        elif not isinstance(part, list | tuple) or len(part) != block.size:
            raise ParameterError(f"block {block.name!r} of {what} must be a list of {block.size} numbers.")
        items += part
    return items


def _sums_in_unit(context: Context, answered: Round) -> Round:
    """Sums in the columns' own units, moved to the unit domain.

    A record x of a column is m + h u there, so a sum is m times a count plus h times the sum of u. The count that is
    taken off is noisy: its noise joins that of the sum, treated as one noise of the same kind and variance.
    """
    query = as_cells(answered.query, "absolute", "relative")
    if query is None:
        return answered
    k, shape = query.n_cells, query.centers.shape
    low, high = np.array(context.domain.low), np.array(context.domain.high)
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    counts, sums = answered.noisy[:k], answered.noisy[k:].reshape(shape)
    count_scales, sum_scales = answered.scales[:k], answered.scales[k:].reshape(shape)
    with np.errstate(all="ignore"):  # what overflows is refused below
        moved = (sums - middle * counts[:, None]) / half
        joined = np.hypot(sum_scales, middle * count_scales[:, None]) / half
    noisy, scales = np.concatenate([counts, moved.ravel()]), np.concatenate([count_scales, joined.ravel()])
    return Round.of_imported(context, query=query, noisy=noisy, scales=scales)


def _check_possible(context: Context, answered: Round, units: Units) -> None:
    """Refuse answers that no records inside the bounds can have given: their units are others than was said.

    Refused is only what contradicts the stated noise by 30 of its scales: sums that are larger than as many records
    allow, and a count in a cell whose centre is so far outside that another is nearer to every point of the domain.
    Such a centre alone is nothing wrong: noise puts the unclipped means of almost empty cells anywhere. A count below
    zero by as many scales is wrong in another way and says nothing here.
    """
    if query := as_cells(answered.query):
        _check_cells(context, answered, query, units)
        return
    blocks, room = answered.query.sensitivity(context.domain).blocks, _BEYOND_NOISE * answered.scales
    name, total = next(((block.name, block.total) for block in blocks if block.total), ("", None))
    if total is None:
        return
    where = answered.block(name, context)
    n_records = float(answered.noisy[where].sum()) / total
    unsure = float(np.sqrt((room[where] ** 2).sum())) / abs(total)
    for block in blocks:
        values = answered.block(block.name, context)
        most = np.minimum(block.l1, block.l2) * (max(n_records, 0.0) + unsure) + room[values]
        if block.total is None and n_records >= -unsure and (np.abs(answered.noisy[values]) > most).any():
            hint = f"{answered.query.type_name} is read as of columns scaled to -1 to 1 only."
            raise ParameterError(f"block {block.name!r} has more than so many records inside the bounds give: {hint}")


def _check_cells(context: Context, answered: Round, query: VoronoiQuery, units: Units) -> None:
    k, d, room = query.n_cells, query.n_columns, _BEYOND_NOISE * answered.scales
    counts, sums = answered.noisy[:k], answered.noisy[k:]
    hint = "check the centres, the sums, the bounds and the scales."
    if units == "unit":
        hint = 'it is read as of columns scaled to -1 to 1. If it is in the columns\' own units, say units="user".'
    hidden = _out_of_reach(query.centers, np.ones(d))
    if units == "user":
        # Whoever works in the columns' own units may have taken the nearest centre there.
        hidden &= _out_of_reach(query.centers, np.array(context.domain.high) - np.array(context.domain.low))
    if (hidden & (counts > room[:k])).any():
        raise ParameterError(f"it counts records at a centre that is nearest to none inside the bounds: {hint}")
    reach = np.full(k, min(1.0, context.domain.shape()[1])) if query.radii is None else query.radii
    most = np.repeat(reach * (np.maximum(counts, 0.0) + room[:k]), d)
    possible = np.repeat(counts >= -room[:k], d)
    if query.sums != "none" and (possible & (np.abs(sums) > most + room[k:])).any():
        raise ParameterError(f"its sums are larger than so many records inside the bounds have: {hint}")


def _out_of_reach(centers: Array, widths: Array) -> NDArray[np.bool_]:
    """Which centres are farther than a certain other from every point of the box -1 to 1, columns stretched by widths.

    A point x is nearer to the other, o, by |c|^2 - |o|^2 - 2 x.(c - o); as o that centre is taken which rules out most.
    """
    stretch = (widths / widths.max()) ** 2
    squares = centers**2 @ stretch
    other = int(np.argmin(squares + 2.0 * np.abs(centers) @ stretch))
    return np.asarray(squares - squares[other] > 2.0 * np.abs(centers - centers[other]) @ stretch)


def _algorithm(
    context: Context, given: Algorithm | Mapping[str, Any] | str | None, rounds: tuple[Round, ...]
) -> Algorithm:
    if given is None:
        cells = {query.n_cells for r in rounds if (query := as_cells(r.query, "absolute"))}
        same = len(cells) == 1 and all(as_cells(r.query) for r in rounds)
        means = as_cells(rounds[-1].query, "absolute")
        return KMeans(n_clusters=cells.pop(), n_rounds=len(rounds)) if same and means else ImportedAlgorithm()
    if isinstance(given, str):
        return ImportedAlgorithm(name=given)
    algorithm = algorithm_from_json(given) if isinstance(given, Mapping) else given
    if not isinstance(algorithm, Algorithm):
        kind = type(algorithm).__name__
        raise ParameterError(f"algorithm is a {kind}: give one such as recoup.KMeans(n_clusters=3).")
    if isinstance(algorithm, ImportedAlgorithm):
        return algorithm
    try:
        answer = algorithm.estimate(context, rounds)
    except (ParameterError, ValueError, TypeError, IndexError, KeyError, AssertionError) as error:
        reason = f" {error}" if isinstance(error, ParameterError) else ""
        raise ParameterError(f"the rounds are not those of {algorithm.type_name}.{reason}") from None
    n, said, what = len(answer), getattr(algorithm, "n_clusters", len(answer)), "clusters"
    if isinstance(algorithm, GaussianMixture | CovariancePCA | PowerPCA):
        n -= not isinstance(algorithm, GaussianMixture)  # the first row of the others is the mean
        said, what = algorithm.n_components, "components"
    if n != said:
        raise ParameterError(f"the rounds have {n} {what}, and the algorithm {said}.")
    return algorithm
