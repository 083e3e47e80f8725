"""From a transcript to a file: the one function that commands, estimators and the demo call."""

from __future__ import annotations

import os
from typing import Any

from recoup._files import write_whole
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import Array
from recoup.report.page import render, report_content
from recoup.transcript.transcript import Transcript


def write_report(
    path: str | os.PathLike[str],
    transcript: Transcript,
    centers: Array | None,
    inferred: InferredDataset | None = None,
    *,
    level: float | None = 0.9,
    title: str | None = None,
    seed: int = 0,
    exact: bool = False,
) -> dict[str, Any]:
    """Write the report of a result as one HTML file.

    Args:
        path: where to; the file appears only when it is complete.
        transcript: what was released.
        centers: (K, d) in the user's units; of an algorithm without clusters, its answer, or none.
        inferred: the data they were refitted on; none for the algorithm's own answer.
        level: the wanted coverage of the intervals; none leaves them out, which is quicker.
        title: of the page.
        seed: of the report's own randomness, which costs no privacy.
        exact: whether the centres came from the transcript by this seed too.

    Returns:
        What the page says, as `recoup report --json` prints it, and its picture's data.

    Guarantees: reads nothing but its arguments, so it costs no privacy; the same arguments write the same bytes.

    >>> import tempfile
    >>> import numpy as np
    >>> from recoup import Box, KMeans, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=2, n_rounds=2), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     content = write_report(f"{folder}/report.html", transcript, refit(transcript))
    >>> content["title"]
    '2 private clusters in 2 columns'
    """
    check_title(title)
    content = report_content(transcript, centers, inferred, level=level, title=title, seed=seed, exact=exact)
    write_page(path, content)
    return content


def check_title(title: str | None) -> None:
    """Refuse a title that no file can hold, such as bytes of a command line that are not text."""
    try:
        (title or "").encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("the title holds bytes that are not text: give another one.") from None


def write_page(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write the content of a report as one HTML file."""
    check_title(content["title"])
    try:
        write_whole(path, render(content))
    except OSError as error:
        raise ParameterError(f"the report cannot be written to {os.fspath(path)!r}: {error.strerror}.") from None
