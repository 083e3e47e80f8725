"""Run parts of the benchmark by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from recoup.bench.inference import measure_inference
from recoup.bench.release import measure_release
from recoup.bench.results import Part, PartName
from recoup.bench.spark import measure_spark
from recoup.bench.streaming import measure_streaming


def run_parts(
    names: Iterable[PartName],
    *,
    quick: bool,
    diffprivlib: str | None,
    max_records: int | None,
    say: Callable[[str], None],
) -> Iterator[Part]:
    """Measure parts one after another.

    Args:
        names: which ones.
        quick: small sizes, about a minute for all parts.
        diffprivlib: an interpreter that has diffprivlib, if there is one.
        max_records: no race has more; None: the sizes that are documented.
        say: told about progress.

    Returns:
        Each part as soon as it is measured.
    """
    for name in names:
        if name == "release":
            yield measure_release(quick=quick, diffprivlib=diffprivlib, max_records=max_records, say=say)
        elif name == "inference":
            yield measure_inference(quick=quick, max_records=max_records, say=say)
        elif name == "streaming":
            yield measure_streaming(quick=quick, max_records=max_records, say=say)
        else:
            yield measure_spark(quick=quick, max_records=max_records, say=say)
