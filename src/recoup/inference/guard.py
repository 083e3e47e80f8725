"""Where an algorithm itself says that what it released is too weak to infer from, whoever reads its transcript."""

from __future__ import annotations

from recoup.inference.evidence import Evidence


def reasons_against(evidence: Evidence) -> list[str]:
    """Why the algorithms of these releases would not infer from them: one sentence for each that would not.

    Args:
        evidence: one release, or several. Each algorithm judges its own rounds, so of several that are read together
            one may speak although the others make up for it; the sentence says that it speaks of one alone.

    Returns:
        Sentences, from released values alone; none where nothing speaks against inference.

    >>> from recoup import Box, PowerPCA, release
    >>> from recoup.inference.evidence import evidence_of
    >>> terms = {"domain": Box([0, 0], [1, 1]), "noise": "simulated", "random_state": 0}
    >>> weak = release(PowerPCA(n_components=1), [[0.5, 0.5]], epsilon=0.1, **terms)
    >>> reasons_against(evidence_of(weak))
    ['inferred as asked, but the algorithm advises against it: noise alone makes a direction ...']
    """
    found = []
    for position, part in enumerate(evidence.parts, start=1):
        reason = part.algorithm.declines(part.context, part.rounds) if part.rounds else None
        if reason is not None:
            whose = "it" if len(evidence.parts) == 1 else f"reading transcript {position} alone"
            found.append(f"inferred as asked, but the algorithm advises against {whose}: {reason}")
    return found
