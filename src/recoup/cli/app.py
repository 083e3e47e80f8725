"""The command line: puts the commands together and turns every error into one clear line and an exit code.

This module and the commands import only typer and the standard library before they run: `recoup --help` is quick.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from recoup.cli import options
from recoup.cli.commands import analyst, bounds, compare, curator, demo, incomplete, ledger, plan, publish, serve
from recoup.cli.output import MEANINGS, ExitCode, code_of, in_words_of_commands, say
from recoup.errors import ParameterError, RecoupError, UnitConverted
from recoup.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_EPILOG = (
    "Results go to standard output, everything else to standard error; --json prints one JSON document.\n\n"
    f"Exit codes: {', '.join(f'{code.value} {meaning}' for code, meaning in MEANINGS.items())}."
)
_PAID = "files are whole, what was charged stays charged; --resume continues a transcript"
_INTERRUPTED = {"cluster": _PAID, "release": _PAID}
# Of the lab, a package of its own; another package may add other commands to the same group of entry points.
_IN_THE_LAB = ("bench", "audit", "experiment")


def _installed() -> dict[str, EntryPoint]:
    """The commands of other packages; nothing of them is imported."""
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group="recoup.commands")}
    return {name: entries[name] for name in (*_IN_THE_LAB, *sorted(entries)) if name in entries}


class _Group(TyperGroup):
    """A group whose commands end with one line and a documented code, whatever goes wrong."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_installed()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        if (entry := _installed().get(cmd_name)) is not None:  # imported only when it is asked for
            command = typer.main.get_command(entry.load())
            command.name = cmd_name
        elif cmd_name in _IN_THE_LAB:
            raise ParameterError(
                f"`recoup {cmd_name}` is in a package of its own, which is not installed: run `pip install ./lab` in a "
                "copy of Recoup's repository."
            )
        return command

    def invoke(self, ctx: Any) -> Any:
        # A column's name that the terminal cannot show must not end a run that has been paid for.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            with warnings.catch_warnings():
                _say_plainly(UnitConverted)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain(f"interrupted; {_INTERRUPTED.get(ctx.invoked_subcommand, 'every file is whole or not there')}.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except RecoupError as error:
            _complain(in_words_of_commands(error))
            raise typer.Exit(code_of(error)) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")) or os.environ.get("RECOUP_DEBUG"):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                # Not its file: the name of a folder may hold the value of a column.
                _complain(f"the system refused to read or write a file: {os.strerror(error.errno)}.")
                raise typer.Exit(ExitCode.SYSTEM) from None
            # Not its text: an unforeseen error may quote a record.
            _complain(
                f"internal error ({type(error).__name__}). This is a bug in Recoup. RECOUP_DEBUG=1 shows where it is; "
                "what it shows may hold records, so keep it to yourself."
            )
            raise typer.Exit(ExitCode.FAILED) from None


class _Command(TyperCommand):
    """A command whose help shows the choices that there are when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        # Only here: a command that runs need not wait until every algorithm is imported.
        for parameter in self.get_params(ctx):
            if names := options.choices(parameter.metavar):
                parameter.metavar = f"<{' | '.join(names)}>"
        super().format_help(ctx, formatter)


def _say_plainly(kind: type[Warning]) -> None:
    """Let a warning of this kind be one line, as an error is, whatever Python's own settings are."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, kind):
            _complain(str(message))
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", kind)


def _complain(message: str) -> None:
    say(f"recoup: {' '.join(message.split())}")


app = typer.Typer(
    name="recoup",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=_EPILOG,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"recoup {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Get back the accuracy that a differentially private algorithm has already paid for.

    Start with [b]recoup demo[/b]. Then, with a table of your own:

        recoup cluster people.csv -k 5 --epsilon 1 --bounds age=0:99,hours=1:99 -o out

        recoup report out/transcript.json -o report.html
    """


_START = "Start here"
_CURATOR = "For the curator: from the records, within a budget"
_ANALYST = "For the analyst: from a transcript alone, at no cost"


def _add(function: Callable[..., None], panel: str, summary: str, name: str | None = None) -> None:
    app.command(name=name, cls=_Command, rich_help_panel=panel, short_help=summary)(function)


_add(demo.demo, _START, "See it work on generated tables; ends with a report to open.")
_add(plan.plan, _CURATOR, "Say what a release will cost and reach, without any data.")
_add(bounds.bounds, _CURATOR, "Find bounds that nobody knows, within a budget of their own.")
_add(incomplete.incomplete, _CURATOR, "Count the records that are left out, within a budget.")
_add(curator.cluster, _CURATOR, "Cluster a table privately: centres in its own units.")
_add(curator.release, _CURATOR, "Run one algorithm and keep its transcript.")
_add(compare.compare, _CURATOR, "Compare with k-means without privacy: for your eyes only.")
app.add_typer(ledger.app, name="ledger", rich_help_panel=_CURATOR)
app.add_typer(serve.app, name="serve", rich_help_panel=_CURATOR)
_add(analyst.infer, _ANALYST, "Infer the data behind transcripts and refit their answers.")
_add(analyst.imported, _ANALYST, "Read noisy answers that were made elsewhere.", name="import")
_add(analyst.report, _ANALYST, "Write one page about a result, for people to read.")
_add(publish.verify, _ANALYST, "Check that a transcript is whole, and who signed it.")
_add(publish.registry, _ANALYST, "Write an entry for the registry of deployments.")


def main() -> None:
    """Run the command line."""
    # Imports make many objects and hardly any garbage: looking for it as often as usual takes a sixth of a short run.
    gc.set_threshold(100_000)
    try:
        app(prog_name="recoup")
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
