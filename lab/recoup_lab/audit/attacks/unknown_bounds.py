"""Bounds that are found, and records that are left out: what counting them costs, and that nothing else tells of them.

Bins are fixed, and all of them noised. `find_bounds` and `count_incomplete` are followed draw by draw like any release,
and so are estimators that find their bounds within their own epsilon: the ledger must hold the price of both parts, and
no more than was promised may be drawn.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from recoup.errors import DoubtfulResult, PostprocessDeclined
from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
from recoup.found_bounds import find_bounds
from recoup.incomplete import count_incomplete
from recoup.octaves import N_BINS, edges_of
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup.transcript.context import Law
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.observed import Observation
from recoup_lab.audit.attacks.paths import Losses
from recoup_lab.audit.attacks.sampler import Draw, Heard, listening
from recoup_lab.audit.attacks.silence import Works, compared
from recoup_lab.audit.attacks.subjects import DELTA, Terms
from recoup_lab.audit.findings import Finding

GROUP: Final = "bounds"
LOSS, PRICE, SILENCE = "exact loss of finding bounds", "price of found bounds", "side information of bounds"
_COLUMNS: Final = 2
_EPSILON: Final = Fraction(3, 4)
# What counts by itself, and in how many bins.
_COUNTING: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {
    "find_bounds": (find_bounds, _COLUMNS * N_BINS),
    "count_incomplete": (lambda table, **terms: count_incomplete(table, (0.0, 5.0), **terms), 2),
}
_ROOM: Final = Fraction(1, 10**9)  # OpenDP's own map rounds up by a few units in the last place
_MODELS: Final[Mapping[str, Callable[..., Any]]] = {
    "PrivateKMeans": lambda **terms: PrivateKMeans(n_clusters=2, algorithm="lloyd", n_rounds=2, **terms),
    "PrivateGaussianMixture": lambda **terms: PrivateGaussianMixture(n_components=2, n_rounds=2, **terms),
    "PrivateLogisticRegression": lambda **terms: PrivateLogisticRegression(n_rounds=2, **terms),
    "PrivatePCA": lambda **terms: PrivatePCA(n_components=1, **terms),
}


def attack(effort: Effort) -> Iterator[Finding]:
    """Find bounds of tables that differ by one record, with and without a fit that follows."""
    for law in get_args(Law):
        for per_person in (1, 3)[effort.tries(0, law == "gaussian") :]:
            for name, (counting, n_bins) in _COUNTING.items():
                target = f"{name}, {law}, {per_person} per person"
                yield _lost(effort, target, law, per_person, counting, n_bins)
                yield _paid(effort, target, law, per_person, counting=counting)
        for name, model in _MODELS.items():
            yield _paid(effort, f"{name}, {law}", law, 3, model)
    for name, (counting, _) in _COUNTING.items():
        yield compared(effort, name, _counted(counting), group=GROUP, attack=SILENCE)
    yield compared(effort, "PrivateKMeans that finds its bounds", _fitted(), group=GROUP, attack=SILENCE)


def _tables() -> dict[str, Array]:
    """Numbers of every size, at edges of bins, constant, missing; and no record."""
    some = np.array([[3.0, 1e9], [4.0, 2e9], [5.0, 2.5e9]] * 5)
    edges = np.array([edges_of(place, place) for place in (1, 17, 500, 1536)])
    more: dict[str, Any] = {
        "an ordinary record": [3.0, 1e9],
        "a far-out record": [1e300, -1e300],
        "a tiny record": [5e-324, -0.0],
        "infinities": [np.inf, -np.inf],
        "missing values": [np.nan, np.nan],
        "one missing value": [np.nan, 1.0],
    }
    found = {"the table": some, "no record": some[:0]}
    found |= {f"a record at edge {i}": np.vstack([some, edge]) for i, edge in enumerate(edges)}
    return found | {name: np.vstack([some, row]) for name, row in more.items()}


def _lost(effort: Effort, target: str, law: Law, per_person: int, counting: Callable[..., Any], n_bins: int) -> Finding:
    """As many records more as a person holds; beside that, every bin is drawn for, whatever lies in it."""
    terms = Terms(mechanism=law, epsilon=_EPSILON, records_per_person=per_person)
    losses, tables = Losses(target), _tables()

    def heard_of(table: Array) -> Heard:
        with listening(held=effort.seed) as heard:
            counting(table, epsilon=_EPSILON, delta=terms.delta, records_per_person=per_person)
        if [len(draw.exact) for draw in heard.draws] != [n_bins]:
            losses.note("not every bin of the fixed list was drawn for")
        return heard

    few, none = tables["the table"], tables["no record"]
    without = {"": heard_of(few), ", and no other": heard_of(none)}
    for name, table in tables.items():
        if len(table) == len(few) + 1:
            one = np.repeat(table[-1:], per_person, axis=0)
            losses.compare([without[""], heard_of(np.vstack([few, one]))], terms, name)
            losses.compare([without[", and no other"], heard_of(one)], terms, f"{name}, and no other")
    return losses.finding(GROUP, LOSS)


def _paid(
    effort: Effort,
    target: str,
    law: Law,
    per_person: int,
    model: Callable[..., Any] | None = None,
    counting: Callable[..., Any] = find_bounds,
) -> Finding:
    """Each draw comes after its charge, what is published was drawn, and all of it is within one epsilon and delta."""
    terms = Terms(mechanism=law, epsilon=_EPSILON, records_per_person=per_person)
    distance, problems, drawn = terms.context.sensitivity * per_person, [], list[Draw]()
    given: dict[str, Any] = {"epsilon": _EPSILON, "delta": terms.delta, "records_per_person": per_person}
    table = np.array(_tables()["the table"])
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / "ledger.db"
        Ledger.create(path, epsilon=4, delta=10 * DELTA if terms.delta else 0)

        def check(draw: Draw) -> None:
            drawn.append(draw)
            price = sum((d.price(distance) for d in drawn), Fraction(0))
            if sum((e.amount for e in Ledger(path).entries()), Fraction(0)) < price * (1 - _ROOM):
                problems.append(f"draw {len(drawn)} came before its charge")

        with listening(before=check) as heard, warnings.catch_warnings():
            # Of so few records with so much noise, inference is declined, with a warning.
            warnings.simplefilter("ignore", PostprocessDeclined)
            warnings.simplefilter("ignore", DoubtfulResult)
            if model is None:
                transcripts = [counting(table, ledger=Ledger(path), **given).transcript]
            else:
                fitted = model(bounds="private", ledger=Ledger(path), random_state=0, **given)
                fitted.fit(table, np.arange(len(table)) % 2)
                transcripts = [fitted.bounds_.transcript, fitted.transcript_]
        charged = sum((entry.amount for entry in Ledger(path).entries()), Fraction(0))
    # By default k-means and others may choose Laplace noise, whatever delta allows: all draws are of one kind.
    kinds = {draw.kind for draw in heard.draws}
    claimed = terms.claimed if kinds == {law} else _EPSILON
    spent = sum((draw.price(distance) for draw in heard.draws), Fraction(0))
    if len(kinds) != 1:
        problems.append(f"noise of {len(kinds)} kinds was drawn")
    # Two parts of an epsilon and a delta add up to both; so Gaussian noise costs less together than it may.
    least = 0 if "gaussian" in kinds else claimed * (1 - _ROOM)
    if not least <= spent <= claimed * (1 + _ROOM):
        problems.append(f"the noise costs {float(spent / claimed):.3f} times the claim")
    if abs(charged - spent) > _ROOM * spent:
        problems.append("the ledger does not hold what was drawn")
    published = [value for one in transcripts for answered in one.rounds for value in answered.integers]
    if published != [value for draw in heard.draws for value in draw.answers]:
        problems.append("published values are not what OpenDP drew")
    return Finding(
        group=GROUP,
        attack=PRICE,
        target=target,
        tries=len(heard.draws),
        result="; ".join(problems[:3]) or f"{float(spent / claimed):.9f} of the claim spent, charges before draws",
        passed=not problems,
        figures={"share_of_claim": float(spent / claimed)},
    )


# ---- side information ----


def _counted(counting: Callable[..., Any]) -> Works:
    def work(table: Array) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            ledger = Ledger.create(folder / "ledger.db", epsilon=2)
            result = counting(table, epsilon=1, ledger=ledger, path=folder / "t.json")
            names = ("not_found", "suggested", "used", "left_out", "error", "share")
            return {"shown": repr(result), **{f"its {name}": repr(getattr(result, name, None)) for name in names}}

        return run

    return {name: work(table) for name, table in _tables().items()}


def _fitted() -> Works:
    def work(table: Array) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            ledger = Ledger.create(folder / "ledger.db", epsilon=2)
            terms: dict[str, Any] = {"epsilon": 1, "ledger": ledger, "random_state": 3, "postprocess": "none"}
            model = _MODELS["PrivateKMeans"](bounds="private", **terms).fit(table)
            centers = model.cluster_centers_.tolist()
            return {"attributes": sorted(vars(model)), "bounds": repr(model.bounds_), "centres": centers}

        return run

    return {name: work(table) for name, table in _tables().items()}
