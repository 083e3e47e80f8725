"""Where the repository is, for tools that look at more than what is installed: its tests, pages, pins and patches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LAB: Final = Path(__file__).resolve().parent
