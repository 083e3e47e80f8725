"""The command line: puts the commands together and turns every error into one clear line and an exit code.

This module and the commands import only typer and the standard library before they run: `recoup --help` is quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from recoup.commands import cluster, demo, infer, ledger, plan, release
from recoup.errors import BudgetExceededError, RecoupError
from recoup.version import __version__

INTERNAL, BAD_INPUT, BUDGET_EXCEEDED, INTERRUPTED = 1, 2, 3, 130

_EPILOG = (
    "Results go to standard output, everything else to standard error. Exit codes: 0 done; 1 internal error; "
    "2 wrong usage or bad input; 3 the budget does not suffice, nothing was released; 130 interrupted."
)


class _Group(TyperGroup):
    """A group whose commands end with one line and a documented code, whatever goes wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain("interrupted; files are whole, and what was charged stays charged.")
            raise typer.Exit(INTERRUPTED) from None
        except BudgetExceededError as error:
            _complain(str(error))
            raise typer.Exit(BUDGET_EXCEEDED) from None
        except RecoupError as error:
            _complain(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")) or os.environ.get("RECOUP_DEBUG"):
                raise
            # Not its text: an unforeseen error may quote a record.
            _complain(
                f"internal error ({type(error).__name__}). This is a bug in Recoup. RECOUP_DEBUG=1 shows where it is; "
                "what it shows may hold records, so keep it to yourself."
            )
            raise typer.Exit(INTERNAL) from None


def _complain(message: str) -> None:
    sys.stderr.write("recoup: " + " ".join(message.split()) + "\n")


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

    Start with: recoup demo
    """


app.command()(demo.demo)
app.command()(cluster.cluster)
app.command()(release.release)
app.command()(infer.infer)
app.command()(plan.plan)
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
