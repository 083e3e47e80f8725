"""The table of attacks. To add one: write a function from `Effort` to findings, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, NamedTuple

from recoup_lab.audit.attacks import (
    connected,
    law,
    loss,
    mechanisms,
    persons,
    precision,
    releases,
    schemas,
    silence,
    spending,
    strangers,
    unknown_bounds,
    updates,
)
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.findings import Finding


class Attack(NamedTuple):
    """A group of attacks, by the name that `--only` takes."""

    name: str
    what: str
    run: Callable[[Effort], Iterable[Finding]]


# Cheap and exact ones first.
ATTACKS: Final[tuple[Attack, ...]] = (
    Attack(loss.GROUP, "The exact privacy loss between neighbours is at most the claimed one.", loss.attack),
    Attack(
        spending.GROUP, "OpenDP draws all noise, at the stated scale, after the ledger was charged.", spending.attack
    ),
    Attack(silence.GROUP, "Nothing but noisy values differs between neighbours.", silence.attack),
    Attack(schemas.GROUP, "The same holds with categories and missing cells, through every reader.", schemas.attack),
    Attack(persons.GROUP, "The same holds for all records of a person.", persons.attack),
    Attack(unknown_bounds.GROUP, "Bounds that are found privately are paid for.", unknown_bounds.attack),
    Attack(strangers.GROUP, "An algorithm that looks around finds no record.", strangers.attack),
    Attack(updates.GROUP, "Compiled kernels follow a change of their source.", updates.attack),
    Attack(law.GROUP, "The noise of each block follows its law, also in empty cells.", law.attack),
    Attack(precision.GROUP, "No gap, grid or digit shows what the noise was added to.", precision.attack),
    Attack(mechanisms.GROUP, "Many single answers show no larger epsilon than claimed.", mechanisms.attack),
    Attack(
        releases.GROUP,
        "Many whole releases show no larger epsilon than claimed; no noise is used twice.",
        releases.attack,
    ),
    Attack(connected.GROUP, "All of this holds for what a served curator answers over HTTP.", connected.attack),
)


def run_attacks(effort: Effort, only: Iterable[str] | None = None, *, n_processes: int = 1) -> Iterator[Finding]:
    """Run some groups of attacks, or all, one after another, or in several processes, the last of the table first.

    The findings come in the order of the table. An attack that cannot be run yields one that is broken and not passed.
    """
    names = None if only is None else set(only)
    chosen = [attack for attack in ATTACKS if names is None or attack.name in names]
    if n_processes == 1 or len(chosen) < 2:
        for attack in chosen:
            effort.say(f"{attack.name}: {attack.what}")
            yield from _findings(attack, effort)
        return
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        # The last ones take longest.
        groups = {a.name: pool.submit(_group, a.name, quick=effort.quick, seed=effort.seed) for a in chosen[::-1]}
        for attack in chosen:
            effort.say(f"{attack.name}: {attack.what}")
            yield from groups[attack.name].result()


def _group(name: str, *, quick: bool, seed: int) -> list[Finding]:
    (attack,) = (attack for attack in ATTACKS if attack.name == name)
    return list(_findings(attack, Effort(quick=quick, seed=seed)))


def _findings(attack: Attack, effort: Effort) -> Iterator[Finding]:
    try:
        yield from attack.run(effort)
    except Exception as error:  # code under attack may raise anything
        yield Finding(
            group=attack.name,
            attack=attack.name,
            target="all of it",
            tries=0,
            result=f"could not be run: {type(error).__name__}: {error}"[:300],
            passed=False,
            broken=True,
        )
