"""Bounds and configurations for the fuzzer: what people type, and the TOML and JSON files that they write by hand."""

# ruff: noqa: D102 (the protocol says what the methods of a target do)
from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

from recoup.cli.options import DomainName, declared_domain
from recoup.cli.settings import read_columns, read_config
from recoup.errors import BoundsError, ParameterError
from recoup_lab.audit.fuzz.mutations import TEXTS, Case, hostile, json_text, spoilt, spoilt_bytes

_COLUMNS: Final[tuple[dict[str, Any], ...]] = (
    {"age": [17, 90], "hours": [1, 99]},
    {
        "columns": {
            "age": {"low": 17, "high": 90, "unit": "years"},
            "name": {"type": "text"},
            "rich": {"type": "boolean"},
        }
    },
    {"a": {"type": "integer", "low": 0, "high": 10}, "b": [-1e3, 1e-3]},
)
_BOUNDS_TOML: Final = (
    "age = [17, 90]\nhours = [1, 99]\n",
    '[columns.age]\nlow = 17\nhigh = 90\nunit = "years"\n\n[columns.name]\ntype = "text"\n',
    '"a,b" = [-1e3, 0.5]\n[b]\ntype = "integer"\nlow = -1\nhigh = 1\n',
)


def _domain(text: str) -> None:
    declared = read_columns(text)
    domain = declared_domain(DomainName.auto, declared.bounds)
    assert len(declared.header()) == domain.n_columns
    assert all(low < high for low, high in zip(domain.low, domain.high, strict=True))


class BoundsText:
    """`read_columns` on what is typed: `age=17:90`, or JSON."""

    errors = (BoundsError,)
    seeds = ("age=17:90,hours=1:99", "x=-1e3:1e3", "a=0:1, b = 0 : 1 ,c=-.5:5e-1")

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        if rng.random() < 0.4:
            text = json_text(spoilt(rng.choice(_COLUMNS), rng, rng.choice(_COLUMNS)), rng)
        else:
            text = rng.choice(self.seeds)
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(text) + 1)
                new = rng.choice((*TEXTS, "=", ":", ",", "{", ".toml", ".json", "\t", str(hostile_number(rng))))
                text = text[:at] + new + text[at + rng.randrange(3) :]
        return lambda: _domain(text), frozenset()


def hostile_number(rng: Random) -> Any:
    """Some hostile value that prints."""
    value = hostile(rng)
    return value if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**4000) else "1e999"


class BoundsFile:
    """`read_columns` on TOML and JSON files."""

    errors = (BoundsError,)

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        path = folder / rng.choice(("bounds.toml", "bounds.json"))
        if path.suffix == ".toml":
            content = spoilt_bytes(rng.choice(_BOUNDS_TOML).encode(), rng, rng.choice(_BOUNDS_TOML).encode())
        else:
            value = spoilt(rng.choice(_COLUMNS), rng, rng.choice(_COLUMNS))
            content = json_text(value, rng).encode("utf-8", "surrogatepass")
            content = spoilt_bytes(content, rng) if rng.random() < 0.3 else content
        path.write_bytes(content)
        return lambda: _domain(str(path)), frozenset({str(path)})


class ConfigFile:
    """`read_config` on TOML and JSON files, for the options of several commands."""

    errors = (ParameterError,)
    seeds: tuple[dict[str, Any], ...] = (
        {"data": "people.csv", "clusters": 5, "epsilon": 0.1, "bounds": {"age": [17, 90]}, "seed": 3, "resume": True},
        {"epsilon": "1/3", "delta": 1e-6, "bounds": "age=17:90", "domain": "l2", "simulated-noise": False},
        {"transcript": ["a.json", "b.json"], "method": "mcmc", "steps": 1000, "output": "out"},
    )
    toml = (
        'data = "people.csv"\nclusters = 5\nepsilon = 0.1\nseed = 3\nresume = true\n[bounds]\nage = [17, 90]\n',
        'epsilon = "1/3"\ndelta = 1e-6\nbounds = "age=17:90"\ndomain = "l2"\nsimulated-noise = false\n',
        'transcript = ["a.json", "b.json"]\nmethod = "mcmc"\nsteps = 1_000\n',
    )

    def __init__(self) -> None:
        import typer

        from recoup.cli.app import app

        commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
        self.parameters = [commands[name].params for name in ("release", "cluster", "infer", "plan")]

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        path = folder / rng.choice(("run.toml", "run.json"))
        if path.suffix == ".toml":
            content = spoilt_bytes(rng.choice(self.toml).encode(), rng, rng.choice(self.toml).encode())
        else:
            value = spoilt(rng.choice(self.seeds), rng, rng.choice(self.seeds))
            content = json_text(value, rng).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        parameters = rng.choice(self.parameters)

        def load() -> None:
            for name, value in read_config(path, parameters).items():
                assert isinstance(name, str)
                items = value if isinstance(value, list) else [value]
                assert all(isinstance(item, str | bool) for item in items)

        return load, frozenset({str(path)})
