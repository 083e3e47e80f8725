"""What the operator's page shows: the promise, what each token has left, and its runs; nothing of records."""

from __future__ import annotations

from typing import Any

from recoup.serve.service import Service, described


def status(service: Service) -> dict[str, Any]:
    """All of it as JSON; fractions are text."""
    ledger, store = service.offer.ledger, service.store
    tokens = store.tokens()
    names = {token.id: token.name for token in tokens}
    return {
        "terms": service.offer.to_json(),
        "budget": {
            "epsilon": str(ledger.epsilon),
            "delta": str(ledger.delta),
            "spent": str(ledger.spent),
            "left": str(ledger.left),
        },
        "tokens": [
            {
                "name": token.name,
                "kind": token.kind,
                "epsilon": str(token.epsilon),
                "delta": str(token.delta),
                "spent": str(service.spent(token)),
                "revoked": token.revoked,
                "day": token.day,
            }
            for token in tokens
        ],
        "runs": [{"token": names[run.token]} | described(run, spent) for run, spent in store.runs()],
    }
