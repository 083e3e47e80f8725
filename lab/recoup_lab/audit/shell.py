"""Commands as a shell would call them, with the audit's two columns as their bounds."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from recoup_lab.audit.files import NAMED_BOX, NAMES

BOUNDS: Final = ",".join(f"{n}={a}:{b}" for n, a, b in zip(NAMES, NAMED_BOX.low, NAMED_BOX.high, strict=True))


class Streams(NamedTuple):
    """What a command printed."""

    output: str
    errors: str


def called(words: Sequence[str]) -> Streams:
    """Call `recoup` with some words.

    Raises:
        RuntimeError: it did not end with code 0.
    """
    # The command line is above this layer, so it is found by name.
    runner, app = importlib.import_module("typer.testing").CliRunner(), importlib.import_module("recoup.cli.app").app
    result = runner.invoke(app, list(words))
    if result.exit_code:
        raise RuntimeError(f"recoup {words[0]} ended with {result.exit_code}: {result.stderr[-300:]}")
    return Streams(result.stdout, result.stderr)
