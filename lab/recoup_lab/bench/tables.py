"""What was measured, as tables for a terminal or a page: the same cells for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recoup_lab.bench import databases, inference, persons, release, spark, streaming, whole
from recoup_lab.bench.results import Part, Race
from recoup_lab.pages import Table, markdown

NOT_MEASURED, LEFT_OUT = "not measured", "left out"
BUSY = (
    "other work kept the machine busy, so seconds are too long, and libraries whose threads wait for each other "
    "(OpenMP, BLAS) suffer more than others."
)


def tables_of(part: Part) -> list[Table]:
    """The tables of one part, without those of the cluster."""
    parts = {
        "whole": _whole,
        "release": _release,
        "inference": _inference,
        "streaming": _streaming,
        "persons": _persons,
        "databases": _databases,
        "spark": _spark,
    }
    return parts[part.name](part)


def short(value: float | None, unit: str = "") -> str:
    """A number with three digits that matter, or that there is none.

    >>> short(0.012345), short(1234.5), short(2.0, " s"), short(None)
    ('0.0123', '1,230', '2.00 s', 'not measured')
    """
    if value is None:
        return NOT_MEASURED
    if value >= 1000:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}{unit}"
    if value >= 100:
        return f"{value:.0f}{unit}"
    return f"{value:#.3g}".rstrip(".") + unit


def size_of(n: int) -> str:
    """A round number as a power of ten where it is one.

    >>> size_of(1_000_000), size_of(20_000_000), size_of(2500)
    ('1e6', '2e7', '2500')
    """
    digits = len(str(n)) - 1
    return f"{n // 10**digits}e{digits}" if n >= 10_000 and n % 10**digits == 0 else str(n)


def machine_sentence(part: Part) -> str:
    """On what a part was run, and whether the machine was free."""
    machine = part.machine
    memory = "" if machine["memory"] is None else f", {machine['memory']} GB of memory"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    loads = [load for load in machine["load"] if load is not None]
    busy = ""
    if loads:
        busy = f" Load: {' to '.join(f'{load:g}' for load in loads)}"
        busy += f"; {BUSY}" if machine.get("clock", "wall") == "wall" and max(loads) > 2 * machine["cores"] else "."
    seconds = " Processor seconds of one thread, not the clock's." if machine.get("clock") == "processor" else ""
    sizes = " Quick sizes." if part.quick else ""
    kind = f"{machine['processor']}, {machine['system']}"
    return f"{machine['cores']} core(s) used ({kind}){memory}; {versions}.{seconds}{busy}{sizes}"


def _whole(part: Part) -> list[Table]:
    others, facts = (whole.YARDSTICK, whole.DIFFPRIVLIB), part.facts
    rows = tuple(
        (
            size_of(int(r.shape["n_records"])),
            str(r.shape["n_columns"]),
            str(r.shape["n_clusters"]),
            *(short(r.seconds[name]) for name in (whole.FIT, whole.INTERVALS, whole.REPORT)),
            *(short(r.ratio(name, whole.FIT)) for name in others),
        )
        for r in part.races
    )
    laws = (f"{name} {_law(growth)}" for name, growth in facts["growth"].items())
    fits = Table(
        title="PrivateKMeans: seconds of a fit, intervals and report; and how many times as long as a fit others take",
        header=("N", "d", "K", "fit, s", "intervals, s", "report, s", *others),
        rows=rows,
        note=f"Fitted growth: {'; '.join(laws)}.",
    )
    beyond, memory = facts["beyond_passes"], facts["memory"]
    rest = Table(
        title="A fit by the number of records: the curator's answers, and everything else (d = 10, K = 8)",
        header=("N", "epsilon", "values released", "fit, s", "answers, s", "the rest, s", "the rest / first line's"),
        rows=tuple(
            (size_of(int(one["n_records"])), f"{one['epsilon']:g}", str(one["n_values"]),
             *(short(one[name]) for name in ("fit", "answers", "rest")), short(one["rest"] / beyond[0]["rest"]))
            for one in beyond
        ),
        note="First with N times epsilon held fixed: the answers are as precise, and only the records differ. At one "
        "epsilon a larger table has more precise answers, so that more is asked for and inferred from. Peak memory of "
        f"a fit beyond its records ({size_of(memory['shape'][0])} x {memory['shape'][1]}, {memory['records']:.0f} MB; "
        f"K = {memory['shape'][2]}), fresh process: {memory['megabytes']:.0f} MB.",
    )  # fmt: skip
    ours = facts["shell"][whole.SHELL]
    shell = Table(
        title="From a cold shell, a CSV file of 6,000 records and 2 columns, K = 3: the whole process",
        header=("", "s", "/ recoup cluster"),
        rows=tuple((name, short(taken), short(taken / ours)) for name, taken in facts["shell"].items()),
        note="The first of all compiles kernels, half of them in a second process."
        + " Processor seconds are those of both." * (part.machine.get("clock") == "processor"),
        left=1,
    )
    return [fits, rest, shell, *([_aim(part)] if facts["aim"] else [])]


def _aim(part: Part) -> Table:
    return Table(
        title="AIM, then k-means on what it makes, in an environment of its own: from the run of comparison.md",
        header=("table", "N", "d", "K", "AIM, s", "recoup, s", "AIM / recoup", "k-means, s"),
        rows=tuple(
            (one["title"], size_of(one["n"]), str(one["d"]), str(one["k"]), short(one["seconds"][whole.AIM]),
             short(one["seconds"][whole.OURS]), short(one["seconds"][whole.AIM] / one["seconds"][whole.OURS]),
             short(one["seconds"][whole.PLAIN]))
            for one in part.facts["aim"]
        ),
        note="AIM with the number of bins that is quickest, at the same epsilon and delta.",
        left=1,
    )  # fmt: skip


def _law(growth: dict[str, Any]) -> str:
    names = {"n_records": "N", "n_columns": "d", "n_clusters": "K"}
    law = " ".join(f"{names[key]}^{value:.2f}" for key, value in growth["exponents"].items())
    return f"{law} (within a factor of {growth['misfit']:.2f})"


def _release(part: Part) -> list[Table]:
    others = release.METHODS[1:]
    rows = tuple(
        (
            size_of(int(r.shape["n_records"])),
            str(r.shape["n_columns"]),
            str(r.shape["n_clusters"]),
            short(r.seconds[release.OURS]),
            *(LEFT_OUT if name in r.facts["left_out"] else short(r.ratio(name, release.OURS)) for name in others),
            short(_of_the_fastest(r)),
        )
        for r in part.races
    )
    exponents = part.facts["growth"]["exponents"]
    names = {"n_records": "N", "n_columns": "d", "n_clusters": "K"}
    law = ", ".join(f"{names[key]}^{value:.2f}" for key, value in exponents.items())
    note = (
        f"Each line is one run in turns; at most {size_of(part.facts['max_values'])} values. Left out: what by its "
        f"time on a tenth of the records would take more than {release.LONGEST:g} s per run, and "
        f"MiniBatchKMeans above {size_of(release.MOST_FOR_MINI_BATCH)} records, where it may stop after a minute or "
        f"after five. The fastest: of {', '.join(release.FASTEST)}. Fitted growth of release "
        f"({' and '.join(size_of(n) for n in part.facts['growth']['sizes'])} records): "
        f"{law}, typically within a factor of {part.facts['growth']['misfit']:.2f}."
    )
    shapes = Table(
        title=f"Release of {part.facts['n_rounds']} rounds: seconds, and how many times as long the others take",
        header=("N", "d", "K", "release, s", *others, "release / fastest"),
        rows=rows,
        note=note,
    )
    return [shapes, _memory(part), _roofline(part)]


def _of_the_fastest(race: Race) -> float | None:
    """The time of a release as a share of the fastest library's; None where one of them was not measured."""
    shares = [race.ratio(release.OURS, name) for name in release.FASTEST]
    known = [share for share in shares if share is not None]
    return max(known) if len(known) == len(shares) else None


def _memory(part: Part) -> Table:
    memory = part.facts["memory"]
    n, d, k = memory["shape"]
    return Table(
        title=f"Peak memory above the records ({size_of(n)} x {d}, {memory['records']:.0f} MB; K = {k}), fresh process",
        header=("method", "MB"),
        rows=tuple((name, f"{value:.0f}") for name, value in memory["megabytes"].items()),
        left=1,
    )


def _roofline(part: Part) -> Table:
    roof = part.facts["roofline"]
    rows = tuple(
        (
            point["what"],
            str(point["n_columns"]),
            str(point["n_clusters"] or ""),
            str(point["bytes"]),
            str(point["operations"]),
            short(point["seconds"] * 1e9),
            f"{100 * point['memory']:.0f}%",
            f"{100 * point['arithmetic']:.0f}%",
            "memory" if point["memory"] > point["arithmetic"] else "arithmetic",
        )
        for point in roof["points"]
    )
    note = (
        f"Measured here, all cores: {roof['bandwidth'] / 1e9:.1f} GB/s read (sum), {roof['copy'] / 1e9:.1f} GB/s "
        f"copied (both ways), {roof['arithmetic'] / 1e9:.1f} billion operations per second in single precision (half "
        "of a matrix product's)."
    )
    header = (
        "kernel",
        "d",
        "K",
        "bytes",
        "operations",
        "ns per record",
        "of bandwidth",
        "of arithmetic",
        "nearer limit",
    )
    return Table(title="Roofline: what one record asks for, and the share of each limit", header=header, rows=rows,
                 note=note, left=1)  # fmt: skip


def _inference(part: Part) -> list[Table]:
    methods = (inference.MAXENT, inference.MCMC, inference.YARDSTICK)
    rows = tuple(
        (
            *(str(r.shape[key]) for key in ("n_rounds", "n_clusters", "n_columns", "n_points", "n_rows")),
            *(short(r.seconds[name]) for name in methods),
            *(short(r.ratio(name, inference.YARDSTICK)) for name in methods[:2]),
        )
        for r in part.races
    )
    laws = []
    for method, growth in part.facts["growth"].items():
        names = {"n_rows": "values", "n_points": "support"}
        law = " ".join(f"{names[key]}^{value:.2f}" for key, value in growth["exponents"].items())
        laws.append(f"{method} {law} (within a factor of {growth['misfit']:.2f})")
    return [
        Table(
            title=f"Inference: seconds; k-means with 10 starts on the {size_of(part.facts['n_records'])} raw records",
            header=("T", "K", "d", "support", "values", "maxent, s", "mcmc, s", "k-means, s", "maxent / k-means",
                    "mcmc / k-means"),
            rows=rows,
            note=f"mcmc: {size_of(part.facts['n_steps'])} steps. Fitted growth: {'; '.join(laws)}.",
        )
    ]  # fmt: skip


def _streaming(part: Part) -> list[Table]:
    rows = []
    for r in part.races:
        ours, scan = r.seconds[streaming.ROUND], r.seconds[streaming.SCAN]
        memory = r.facts["megabytes"]
        rows.append(
            (
                str(r.shape["dtype"]),
                size_of(int(r.shape["n_records"])),
                short(ours),
                short(scan),
                short(r.ratio(streaming.SCAN, streaming.ROUND)),
                f"{memory[streaming.ROUND]:.0f}",
                f"{memory[streaming.SCAN]:.0f}",
            )
        )
    d, k = streaming.N_COLUMNS, streaming.N_CLUSTERS
    return [
        Table(
            title=f"A folder of Parquet files ({d} columns, K = {k}): one round against pyarrow's scan and sum",
            header=("columns", "N", "round, s", "scan, s", "throughput / scan's", "round, MB", "scan, MB"),
            rows=tuple(rows),
            note="MB: peak memory of a fresh process above its imports.",
            left=1,
        )
    ]


def _persons(part: Part) -> list[Table]:
    rows = []
    for r in part.races:
        memory, n_persons = r.facts["megabytes"], int(r.shape["n_persons"])
        rows.append(
            (
                str(r.shape["identifiers"]),
                size_of(int(r.shape["n_records"])),
                size_of(n_persons),
                short(r.seconds[persons.PERSONS]),
                short(r.seconds[persons.GROUPS]),
                short(r.ratio(persons.GROUPS, persons.PERSONS)),
                f"{memory[persons.PERSONS]:.0f}",
                f"{memory[persons.GROUPS]:.0f}",
                f"{memory[persons.PERSONS] * 2**20 / n_persons:.0f}",
            )
        )
    header = ("identifiers", "N", "persons", "ours, s", "group-by, s", "throughput / group-by's")
    return [
        Table(
            title=f"A folder of Parquet files ({streaming.N_COLUMNS} columns): one row per person and one round of "
            "k-means against pyarrow's group-by",
            header=(*header, "ours, MB", "group-by, MB", "ours, bytes per person"),
            rows=tuple(rows),
            note="MB: peak memory of a fresh process above its imports. Later rounds ask the kept rows.",
            left=1,
        )
    ]


def _databases(part: Part) -> list[Table]:
    rows = []
    for r in part.races:
        name, memory = str(r.shape["database"]), r.facts["megabytes"]
        rows.append(
            (
                name,
                size_of(int(r.shape["n_records"])),
                short(r.seconds[name]),
                short(r.seconds[databases.PARQUET]),
                short(r.ratio(name, databases.PARQUET)),
                f"{memory[name]:.0f}",
                f"{memory[databases.PARQUET]:.0f}",
            )
        )
    d, k = streaming.N_COLUMNS, streaming.N_CLUSTERS
    return [
        Table(
            title=f"A table of a database ({d} columns, K = {k}): one round against the same round over Parquet files",
            header=("database", "N", "round, s", "Parquet, s", "time / Parquet's", "round, MB", "Parquet, MB"),
            rows=tuple(rows),
            note="MB: peak memory of a fresh process above its imports. Totals are equal.",
            left=1,
        )
    ]


def _spark(part: Part) -> list[Table]:
    if not part.races:
        return []
    rows = tuple(
        (
            "Parquet files" if r.shape["held"] == "files" else "cached by Spark",
            size_of(int(r.shape["n_records"])),
            str(r.shape["n_partitions"]),
            short(r.seconds[spark.SPARK]),
            short(r.seconds[spark.LOCAL]),
            short(r.ratio(spark.SPARK, spark.LOCAL)),
            "yes" if r.facts["agree"] else "NO",
            short(r.facts["shuffled_bytes"] / 1e3),
        )
        for r in part.races
    )
    cores = part.races[0].facts["cores"]
    return [
        Table(
            title=f"One round on Spark with {cores} cores of this machine, and without Spark from the Parquet files",
            header=(
                "records",
                "N",
                "partitions",
                "Spark, s",
                "local, s",
                "Spark / local",
                "equal totals",
                "shuffled, kB",
            ),
            rows=rows,
            left=1,
        )
    ]


def cluster_tables(part: Part) -> list[Table]:
    """The cost of a partition, and what it means for a cluster."""
    facts = part.facts
    costs = [("without Spark", facts["partition"])]
    if "spark" in facts:
        costs.append(("on Spark", facts["spark"]))
    cost_rows = tuple(
        (name, short(c["per_record"] * 1e9), short(c["per_task"] * 1e3), short(c["per_job"] * 1e3)) for name, c in costs
    )
    d, k = facts["n_columns"], facts["n_clusters"]
    measured = Table(
        title=f"Cost of a partition for one core (d = {d}, K = {k})",
        header=("", "ns per record", "ms per task", "ms per round"),
        rows=cost_rows,
        left=1,
    )
    cores = list(facts["projection"][0]["minutes"])
    rows = tuple(
        (
            size_of(row["n_records"]),
            f"{row['n_tasks']:,}",
            short(row["core_hours"]),
            *(_minutes(row, n) for n in cores),
            short(row["shuffle_bytes"] / 1e6),
            short(row["driver_bytes"] / 1e3),
            f"{row['failed_attempts']:,}",
        )
        for row in facts["projection"]
    )
    projected = Table(
        title="Five rounds, projected: minutes by the formula, and in brackets by simulation",
        header=("N", "tasks per round", "core hours", *(f"{int(n):,} cores" for n in cores), "shuffle, MB per round",
                "driver, kB in all", "failed attempts per round"),
        rows=rows,
        note=f"From the cost {'on' if facts['projection_from'] == 'spark' else 'without'} Spark.",
    )  # fmt: skip
    return [measured, projected]


def _minutes(row: dict[str, Any], cores: str) -> str:
    return f"{short(row['minutes'][cores])} ({short(row['simulated_minutes'][cores])})"


def markdown_of(tables: Sequence[Table]) -> str:
    """Tables as Markdown, one below the other."""
    parts = []
    for table in tables:
        grid = markdown(table.header, table.rows, range(table.left, len(table.header)))
        parts.append("\n".join([f"**{table.title}**", "", grid, *(["", table.note] if table.note else []), ""]))
    return "\n".join(parts)
