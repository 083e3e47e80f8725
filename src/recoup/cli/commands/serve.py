"""`recoup serve`: a curator as a service, and the tokens by which analysts use it."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile, read_columns
from recoup.errors import ParameterError

_STATE = "The folder that keeps tokens, runs and answers; made where it is not there."
_TABLE = "The public name of the table; by default that of the table or of its file, without the ending."
_BASE = "Seconds from a question to its answer: longer than any read of the table takes."
_PER_VALUE = "Seconds more for each number of a question and its answer."
_WORKERS = "How many processes serve; they share ledger and state."
_RATE = "Requests of one token per second and worker, on average; 0: any number."
_NAME = "Its public name: the ledger and the operator's page show it."
_OPERATOR = "A token for the operator's page and for metrics, which asks nothing."
_EPSILON = "Its own budget, inside the table's."


class _Serve(TyperGroup):
    """`recoup serve DATA` is `recoup serve start DATA`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["start", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Serve,
    help="Serve a table to analysts who never see it.",
    no_args_is_help=True,
)
tokens = typer.Typer(help="Make, list and revoke the tokens of analysts and operators.", no_args_is_help=True)
app.add_typer(tokens, name="token")

StateFolder = Annotated[Path, typer.Option("--state", help=_STATE, metavar="FOLDER")]
TokenName = Annotated[str, typer.Argument(help=_NAME, metavar="NAME")]


@app.command()
def start(
    data: options.DataPath,
    ledger: Annotated[Path, options.in_privacy("--ledger", help="Charged before every answer.")],
    state: StateFolder,
    bounds: options.Bounds = None,
    table: options.TableName = None,
    records_per_person: options.RecordsPerPerson = 1,
    person: options.Person = None,
    per_person: options.PerPerson = None,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    table_name: Annotated[str | None, typer.Option("--table-name", help=_TABLE, metavar="TEXT")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8470,
    workers: Annotated[int, typer.Option(help=_WORKERS, min=1, max=64)] = 1,
    answer_base: Annotated[float, options.in_privacy(help=_BASE, min=0.0)] = 0.5,
    answer_per_value: Annotated[float, options.in_privacy(help=_PER_VALUE, min=0.0)] = 1e-4,
    rate: Annotated[float, typer.Option(help=_RATE, min=0.0)] = 20.0,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Serve a table: analysts ask over HTTP, and get noisy answers that the ledger pays for.

    Put something in front that speaks TLS. `recoup serve DATA` is short for `recoup serve start DATA`. Example:

        recoup serve people.parquet --bounds age=17:90,hours=1:99 --ledger ledger.db --state serve-state
    """
    running = _needs_extra()
    declared = options.declared_domain(domain, read_columns(bounds).for_domain(domain.value))
    options.existing_ledger(ledger)
    options.records(data, table)  # refuses what is neither a path nor a table of a database
    settings = running.Settings(
        data=str(data),
        domain=declared.to_json(),
        ledger=str(ledger),
        state=str(state),
        database_table=table,
        more={
            "table": table_name or table or data.stem,
            "records_per_person": records_per_person,
            "person": person,
            "per_person": None if per_person is None else per_person.value,
            "csv_dialect": csv_dialect.value,
            "n_records": n_records,
            "base": answer_base,
            "per_value": answer_per_value,
        },
        limits={"per_second": rate},
    )
    if host not in ("127.0.0.1", "::1", "localhost"):
        out.say(f"Listening on {host} without TLS: tokens and answers can be read on the way. Put TLS in front.")
    address = f"http://{host}:{port}"
    out.say(f"Serving on {address} (/ for analysts, /operator for you); Ctrl-C ends it.")
    if as_json:
        out.print_json(address=address, table=settings.more["table"], workers=workers)
        sys.stdout.flush()
    running.serve(settings, host=host, port=port, workers=workers)


@tokens.command()
def create(
    name: TokenName,
    state: StateFolder,
    epsilon: Annotated[str | None, options.in_privacy(help=_EPSILON, metavar="NUMBER")] = None,
    delta: options.Delta = "0",
    operator: Annotated[bool, typer.Option("--operator", help=_OPERATOR)] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a token and print it, once: only its hash is kept.

    Example: recoup serve token create ann --epsilon 1 --state serve-state
    """
    from recoup.serve.store import Store
    from recoup.serve.tokens import Kind, drawn

    if operator != (epsilon is None) or (operator and delta != "0"):
        raise ParameterError("an analyst's token needs --epsilon, its own budget; an operator's has none.")
    budget = (Fraction(0), Fraction(0)) if epsilon is None else options.read_budget(epsilon, delta)
    if budget[1] >= 1:
        raise ParameterError("delta must be less than 1; it is a probability, such as 1e-6.", parameter="delta")
    secret = drawn()
    kind: Kind = "operator" if operator else "analyst"
    Store.opened(state).add_token(name, secret, kind, *budget)
    if as_json:
        return out.print_json(name=name, kind=kind, epsilon=float(budget[0]), delta=float(budget[1]), token=secret)
    sys.stdout.write(f"{secret}\n")
    out.say("This is shown once. Hand it over in secret; it is revoked with: recoup serve token revoke " + name)


@tokens.command("list")
def list_(state: StateFolder, as_json: options.AsJson = False) -> None:
    """List the tokens by name, with their budgets.

    Example: recoup serve token list --state serve-state
    """
    known = _existing(state).tokens()
    if as_json:
        listed = [
            {"name": t.name, "kind": t.kind, "epsilon": float(t.epsilon), "delta": float(t.delta)}
            | {"revoked": t.revoked, "day": t.day}
            for t in known
        ]
        return out.print_json(tokens=listed)
    rows = [
        [t.name, t.kind, t.day, "revoked" if t.revoked else "valid", f"{float(t.epsilon):g}", f"{float(t.delta):g}"]
        for t in known
    ]
    tables.print_table(f"{len(rows)} tokens", ["name", "kind", "day", "state", "epsilon", "delta"], rows, left=4)


@tokens.command()
def revoke(name: TokenName, state: StateFolder, as_json: options.AsJson = False) -> None:
    """Refuse a token from now on, also in the middle of a run; what it has spent stays spent.

    Example: recoup serve token revoke ann --state serve-state
    """
    _existing(state).revoke(name)
    if as_json:
        out.print_json(name=name, revoked=True)
    out.say(f"The token {name!r} is refused from now on.")


def _existing(state: Path) -> Any:
    from recoup.serve.store import Store

    if not os.path.isdir(state):
        raise ParameterError(f"there is no state folder {str(state)!r}.")
    return Store.opened(state)


def _needs_extra() -> Any:
    try:
        from recoup.serve import running
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn", "h11"):
            raise
        raise ParameterError("this needs Starlette and uvicorn: run `pip install 'recoup[serve]'`.") from None
    return running
