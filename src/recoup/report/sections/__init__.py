"""A section is one file: its `content`, as JSON, of what was released and inferred, and the `html` that shows it."""

from typing import Any

Json = dict[str, Any]
