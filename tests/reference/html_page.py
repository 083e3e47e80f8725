"""Reading a page the way a browser and a screen reader would, far enough to check its structure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

_VOID = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """Elements with their attributes, the text, and the contents of scripts; unbalanced elements are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        assert self._open[-1:] == [tag], f"</{tag}> closes {self._open[-3:]}"
        self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not self._open or self._open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    @property
    def data(self):
        """The picture's data."""
        return json.loads(next(body for attributes, body in self.scripts if attributes.get("id") == "report-data"))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def all_of(self, attribute: str) -> list[str]:
        return [str(a[attribute]) for _, a in self.elements if a.get(attribute) is not None]


def faults(text: str) -> list[str]:
    """What a reader with a screen reader, or without a network, would stumble over."""
    page, found = Page(text), []
    ids = page.all_of("id")
    found += [f"id twice: {name}" for name in set(ids) if ids.count(name) > 1]
    for attribute in ("aria-labelledby", "aria-describedby"):
        found += [f"{attribute} names nothing: {name}" for name in page.all_of(attribute) if name not in ids]
    found += [f"link to nowhere: {a}" for a in page.all_of("href") if not a.startswith("#") or a[1:] not in ids]
    found += [f"asks for {a}" for a in page.all_of("src") if not a.startswith("data:")]
    found += [f"asks for {a}" for a in re.findall(r"url\(\s*['\"]?(?!#)[^)]*", text)]
    found += [f"handler in markup: {a}" for _, attributes in page.elements for a in attributes if a.startswith("on")]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    if levels.count(1) != 1 or any(b - a > 1 for a, b in pairwise(levels)):
        found.append(f"headings skip a level: {levels}")
    found += [f"no alternative: {a}" for a in page.named("img") if not a.get("alt")]
    if len(page.named("html")) != 1 or page.named("html")[0].get("lang") != "en":
        found.append("no language")
    return found + _policy_faults(page)


def _policy_faults(page: Page) -> list[str]:
    policies = [a["content"] or "" for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    if len(policies) != 1 or "default-src 'none'" not in policies[0]:
        return ["no policy that forbids requests"]
    found = []
    for attributes, body in page.scripts:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        if attributes.get("type") != "application/json" and f"'sha256-{digest}'" not in policies[0]:
            found.append("a script that the policy does not know")
    return found
