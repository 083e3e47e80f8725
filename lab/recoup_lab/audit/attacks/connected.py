"""Attacks on a served curator by an analyst who is connected to it: noise, side information and charges over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.findings import Finding

GROUP: Final = "connected"


def attack(effort: Effort) -> Iterator[Finding]:
    """Release through a server on loopback, exact attacks first."""
    # What serves needs packages that are not those of Recoup itself; no other attack should.
    from recoup_lab.audit.attacks.connected_noise import attack_noise
    from recoup_lab.audit.attacks.connected_silence import attack_silence
    from recoup_lab.audit.attacks.connected_spending import attack_spending

    yield from attack_spending(effort, GROUP)
    yield from attack_silence(effort, GROUP)
    yield from attack_noise(effort, GROUP)
