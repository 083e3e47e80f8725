"""Attack a served curator: kills, races, spoilt requests, guessed tokens, neighbours; and bugs that they must catch.

Prints a line for each attack and ends with code 1 if any found something, or if a planted bug was not caught.
"""

from __future__ import annotations

import sys

from recoup_lab.audit.findings import Finding
from recoup_lab.audit.in_parts import Parts, run

FULL = {"kills": 500, "races": 1000, "requests": 100_000, "tokens": 100_000, "seconds": 60}
QUICK = {"kills": 20, "races": 40, "requests": 4000, "tokens": 2000, "seconds": 5}


def _kills(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.kills import killed

    return killed(n["kills"], seed)


def _races(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.races import raced

    return raced(n["races"], seed)


def _requests(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.fuzz import fuzzed, guessed

    return [*fuzzed(n["requests"], seed), *guessed(n["tokens"], seed)]


def _neighbours(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.neighbours import compared

    return compared()


def _crowd(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.crowd import crowded

    return crowded(n["seconds"])


def _planted(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.planted import planted

    return planted(seed)


PARTS: Parts = {
    "kills": _kills,
    "requests": _requests,
    "races": _races,
    "planted": _planted,
    "neighbours": _neighbours,
    "crowd": _crowd,
}


if __name__ == "__main__":
    sys.exit(run("served", __doc__, PARTS, FULL, QUICK))
