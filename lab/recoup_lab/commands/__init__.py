"""The commands that the lab adds to `recoup`; each imports only typer before it runs."""

from typing import Final

PANEL: Final = "Measure Recoup itself"
