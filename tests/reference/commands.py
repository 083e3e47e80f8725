"""Every command of the command line, those of other packages too, as tests go through them."""

from typing import Any

from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from recoup.cli.app import app


def all_commands() -> dict[str, Any]:
    """Every command by the words that call it."""
    group, found = get_command(app), {}
    context = Context(group)
    for name in group.list_commands(context):  # type: ignore[attr-defined]
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        found |= _within(name, command)
    return found


def _within(words: str, command: Any) -> dict[str, Any]:
    parts = getattr(command, "commands", None)
    if parts is None:
        return {words: command}
    return {name: inner for part, held in parts.items() for name, inner in _within(f"{words} {part}", held).items()}


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def one_line(answer):
    assert answer.stdout == ""
    assert answer.stderr.startswith("recoup: ")
    assert answer.stderr.count("\n") == 1
    return answer.stderr
