"""Run parts of the benchmark by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recoup_lab.bench.databases import measure_databases
from recoup_lab.bench.inference import measure_inference
from recoup_lab.bench.persons import measure_persons
from recoup_lab.bench.release import measure_release
from recoup_lab.bench.results import Part, PartName
from recoup_lab.bench.rules import Rules
from recoup_lab.bench.spark import measure_spark
from recoup_lab.bench.streaming import measure_streaming
from recoup_lab.bench.whole import measure_whole


def run_parts(
    names: Iterable[PartName], rules: Rules, *, diffprivlib: str | None = None, peers: str | None = None
) -> Iterator[Part]:
    """Measure parts one after another."""
    for name in names:
        if name == "whole":
            yield measure_whole(rules, diffprivlib=diffprivlib)
        elif name == "release":
            yield measure_release(rules, diffprivlib=diffprivlib, peers=peers)
        elif name == "inference":
            yield measure_inference(rules)
        elif name == "streaming":
            yield measure_streaming(rules)
        elif name == "persons":
            yield measure_persons(rules)
        elif name == "databases":
            yield measure_databases(rules)
        else:
            yield measure_spark(rules)
