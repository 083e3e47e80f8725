"""A bill of materials in CycloneDX form: what `cyclonedx-py` finds, cut down to what Recoup needs to run, and cleaned.

It is kept free of addresses and paths by what is let in, not by a list of what is bad: every text that could hold one
is left out, and a document in which one is found all the same is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from recoup_lab.audit.supply.dependencies import PROJECT, normal

SPEC_VERSION: Final = "1.6"
_KEPT: Final = ("type", "bom-ref", "name", "version", "licenses", "purl")
_TOOL_KEPT: Final = ("type", "group", "name", "version")
# An address, a path from a root or a home, a Windows drive.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|\bfile:|\bwww\.")
_PATH: Final = re.compile(r"(?:^|[\s\"'(=])(?:/[A-Za-z0-9._-]+/|~/|[A-Za-z]:\\)")


def cleaned(document: Mapping[str, Any], pins: Mapping[str, str], version: str) -> dict[str, Any]:
    """What `cyclonedx-py environment` wrote, cut down to the packages that run, without addresses and paths.

    Raises:
        ValueError: a package is missing or has another version, or an address or a path is left.
    """
    if document.get("bomFormat") != "CycloneDX" or document.get("specVersion") != SPEC_VERSION:
        raise ValueError(f"not a CycloneDX {SPEC_VERSION} document.")
    found = {normal(part["name"]): part for part in document["components"]}
    wrong = [name for name, pin in pins.items() if found.get(name, {}).get("version") != pin]
    if wrong:
        raise ValueError(f"missing, or not at their pinned version: {', '.join(wrong)}.")
    parts = [_only(found[name], _KEPT) for name in sorted(pins)]
    references = {part["bom-ref"] for part in parts}
    root = _only(document["metadata"]["component"], _KEPT) | {"version": version}
    tools = [_only(tool, _TOOL_KEPT) for tool in document["metadata"]["tools"]["components"]]
    result = {
        "$schema": document["$schema"],
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {"component": root, "tools": {"components": tools}},
        "components": parts,
        "dependencies": _edges(document, root["bom-ref"], references),
    }
    left = troubles(result)
    if normal(root["name"]) != PROJECT or left:
        raise ValueError("the bill of materials holds what it must not: " + "; ".join(left or ["another project"]))
    return result


def _only(part: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    kept = {key: part[key] for key in keys if key in part}
    if "licenses" in kept:
        kept["licenses"] = [_licence(entry) for entry in kept["licenses"]]
    return kept


def _licence(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A licence by its identifier or name; texts and addresses of texts are left out."""
    if "expression" in entry:
        return {"expression": entry["expression"]}
    licence = entry["license"]
    # Some metadata has the whole text where a name should be.
    return {"license": {"id": licence["id"]} if "id" in licence else {"name": licence["name"].splitlines()[0][:80]}}


def _edges(document: Mapping[str, Any], root: str, references: set[str]) -> list[dict[str, Any]]:
    edges = []
    for edge in document["dependencies"]:
        if edge["ref"] in references | {root}:
            needs = sorted(references.intersection(edge.get("dependsOn", [])))
            edges.append({"ref": edge["ref"], **({"dependsOn": needs} if needs else {})})
    return sorted(edges, key=lambda edge: str(edge["ref"]))


def troubles(document: Mapping[str, Any]) -> list[str]:
    """Every address and path in a document, other than the address that names its schema.

    >>> troubles({"$schema": "http://schema.example/1", "purl": "pkg:kind/name@1"})
    []
    >>> troubles({"a": [{"url": "https://somewhere.example/files"}]})
    ['a/0/url: an address']
    """
    found = []
    for where, text in _texts(document, ""):
        if where != "$schema" and _ADDRESS.search(text):
            found.append(f"{where}: an address")
        elif _PATH.search(text):
            found.append(f"{where}: a path")
    return found


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{where}/{key}".lstrip("/"))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, f"{where}/{position}")
