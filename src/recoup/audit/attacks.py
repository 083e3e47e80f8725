"""The table of attacks. To add one: write a function from `Effort` to findings, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from recoup.audit import law, loss, mechanisms, precision, releases, silence, spending
from recoup.audit.effort import Effort
from recoup.audit.findings import Finding


class Attack(NamedTuple):
    """A group of attacks, by the name that `--only` takes."""

    name: str
    what: str
    run: Callable[[Effort], Iterable[Finding]]


# Cheap and exact ones first.
ATTACKS: Final[tuple[Attack, ...]] = (
    Attack(loss.GROUP, "The exact privacy loss between neighbours, with the samplers' answers held.", loss.attack),
    Attack(spending.GROUP, "Each draw is by OpenDP, at its price, after its charge.", spending.attack),
    Attack(silence.GROUP, "Nothing but noisy values differs between neighbours.", silence.attack),
    Attack(law.GROUP, "The noise of each block follows its law, in empty cells too.", law.attack),
    Attack(precision.GROUP, "No gaps, grids or digits betray what noise was added to.", precision.attack),
    Attack(mechanisms.GROUP, "Bounds on epsilon from many single answers.", mechanisms.attack),
    Attack(releases.GROUP, "Bounds on epsilon from many whole releases; noise used twice.", releases.attack),
)


def run_attacks(effort: Effort, only: Iterable[str] | None = None) -> Iterator[Finding]:
    """Run attacks one after another.

    Args:
        effort: how hard to try.
        only: names of groups; none: all.

    Returns:
        Each finding as soon as it is there. An attack that cannot be run yields one that is broken and not passed.
    """
    names = None if only is None else set(only)
    for attack in ATTACKS:
        if names is not None and attack.name not in names:
            continue
        effort.say(f"{attack.name}: {attack.what}")
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
