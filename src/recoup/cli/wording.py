"""The library's errors speak Python; here they are put into the words of the command line.

A message that is not known stays as it is, which is no harm. Names in quotes and parts of paths are left alone: they
are the user's own.
"""

from __future__ import annotations

import re

_OPTIONS = {
    "algorithm": "--algorithm",
    "correction": "--correction",
    "csv_dialect": "--csv-dialect",
    "delta": "--delta",
    "domain": "--domain",
    "epsilon": "--epsilon",
    "method": "--method",
    "n_chains": "--chains",
    "n_clusters": "--clusters",
    "n_records": "--n-records",
    "n_rounds": "--rounds",
    "n_steps": "--steps",
    "postprocess": "--postprocess",
    "proposal_variance": "--proposal-variance",
    "random_state": "--seed",
    "records_per_person": "--records-per-person",
    "resume": "--resume",
    "target_scale": "--target-scale",
}
_FREE = r"(?<![\w/'\"=.-])"
_VALUE = r"(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[\w+-]+(?:\.\w+)*))(?![\w/])"
_ASSIGNED = re.compile(rf"{_FREE}(?P<leave>leave )?(?P<name>{'|'.join(_OPTIONS)})={_VALUE}(?: \(--[a-z-]+\))?")
# Only names that are no word of English.
_NAMED = re.compile(rf"{_FREE}(?P<name>{'|'.join(n for n in _OPTIONS if '_' in n)})(?![\w/'\"=])(?: \(--[a-z-]+\))?")
_CREATE = re.compile(r"Ledger\.create(?:\((?P<arguments>[^()]*)\))?")
_SPOKEN = {
    "Open it with Ledger(path)": "Look at it with recoup ledger show",
    ", or give a longer timeout": "",
    ", a Generator, or None": "",
    "Ledger(path).declare(records_per_person=1)": "recoup ledger declare PATH --records-per-person 1",
}


def spoken(message: str) -> str:
    """Say in the command line's words what an error says in Python's.

    Args:
        message: of an error.

    Returns:
        The same with options for parameters and commands for calls.

    >>> spoken("n_clusters=0: give a whole number of at least 1.")
    '--clusters 0: give a whole number of at least 1.'
    >>> spoken('gupt has no rounds: leave n_rounds="auto".')
    'gupt has no rounds: leave out --rounds.'
    """
    for python, command in _SPOKEN.items():
        message = message.replace(python, command)
    message = _CREATE.sub(_create, message)
    message = _ASSIGNED.sub(_assigned, message)
    return _NAMED.sub(lambda found: _OPTIONS[found["name"]], message)


def _assigned(found: re.Match[str]) -> str:
    option = _OPTIONS[found["name"]]
    if found["leave"]:
        return f"leave out {option}"
    value = next(text for text in (found["single"], found["double"], found["bare"]) if text is not None)
    return option if value == "True" else f"{option} {value}"


def _create(found: re.Match[str]) -> str:
    words = ["recoup ledger create"]
    for argument in (found["arguments"] or "").split(","):
        name, equals, value = argument.strip().partition("=")
        words.append(f"--{name.replace('_', '-')} {value}" if equals else name.strip("\"'"))
    return " ".join(word for word in words if word not in ("", "...")).replace(" path ", " PATH ")
