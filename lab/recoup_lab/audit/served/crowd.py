"""Many analysts at once: no error, no overspending, and how long an answer takes that leaves as soon as it is ready."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from recoup import KMeans, Ledger, release
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.kills import GROUP
from recoup_lab.audit.served.setting import BOX, TABLE, TOKENS, Server, application, ask, prepared, question, run_body

N_ANALYSTS: Final = 50
_PER_RUN: Final = 5


def crowded(seconds: float, *, n_analysts: int = N_ANALYSTS, n_workers: int = 2) -> list[Finding]:
    """Let so many analysts ask for some seconds, as fast as they are answered, in several server processes."""
    statuses, times, lock = Counter[int](), list[float](), threading.Lock()
    with tempfile.TemporaryDirectory(prefix="recoup-served-crowd-") as top:
        folder = prepared(Path(top) / "case", epsilon=10**6, own=10**6)
        servers = [Server(partial(application, folder)) for _ in range(n_workers)]
        try:
            end = time.monotonic() + seconds

            def asks(number: int) -> None:
                port, token = servers[number % n_workers].port, list(TOKENS.values())[number % len(TOKENS)]
                turn = 0
                while time.monotonic() < end:
                    turn += 1
                    begun = ask(port, "POST", "/runs", token=token, key=f"{number}-{turn}", body=run_body())
                    found, took = [begun.status], list[float]()
                    for index in range(_PER_RUN):
                        run, start = begun.value["run"], time.monotonic()
                        path = f"/runs/{run}/answer"
                        reply = ask(port, "POST", path, token=token, key=f"{run}-{index}", body=question())
                        took.append(time.monotonic() - start)
                        found.append(reply.status)
                    with lock:
                        statuses.update(found)
                        times.extend(took)

            threads = [threading.Thread(target=asks, args=(number,)) for number in range(n_analysts)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for server in servers:
                server.close()
        ledger = Ledger(folder / "ledger.db")
        entries, whole, n_answers = ledger.entries(), ledger.epsilon, statuses[200]
    wrong = [f"{count} replies with status {status}" for status, count in statuses.items() if status not in (200, 201)]
    wrong += [f"{len(entries)} charges for {n_answers} answers"] if len(entries) != n_answers else []
    wrong += ["overspent"] if sum((entry.amount for entry in entries), Fraction(0)) > whole else []
    wrong += ["an analyst got no answer"] if n_answers < n_analysts * _PER_RUN else []
    alone = _alone()
    latest = quantiles(times, n=100)[98] if len(times) > 1 else 0.0
    said = f"{n_answers:,} answers, {1000 * median(times):.0f} ms in the middle, 99% within {1000 * latest:.0f} ms; "
    said += f"a round of a local release alone takes {1000 * alone:.0f} ms"
    return [
        Finding(
            group=GROUP,
            attack="many at once",
            target=f"{n_analysts} analysts, {n_workers} servers",
            tries=n_answers,
            result="; ".join(wrong) or said,
            passed=not wrong,
            figures={"median": median(times), "latest": latest, "alone": alone, "seconds": seconds},
        )
    ]


def _alone() -> float:
    """Seconds of one round of a local release with a ledger, when nobody else asks."""
    with tempfile.TemporaryDirectory(prefix="recoup-served-crowd-") as top:
        ledger = Ledger.create(Path(top) / "l.db", epsilon=1000)
        algorithm, taken = KMeans(n_clusters=2, n_rounds=_PER_RUN), list[float]()
        for _ in range(5):
            start = time.monotonic()
            release(algorithm, TABLE, domain=BOX, epsilon=1, ledger=ledger)
            taken.append((time.monotonic() - start) / _PER_RUN)
    return median(taken)
