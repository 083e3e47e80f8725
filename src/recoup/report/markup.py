"""HTML that is escaped by construction: text becomes markup only through `element`, and a name can hold anything."""

from __future__ import annotations

from html import escape

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element; children that are not `Markup` are text and are escaped, and so are attributes.

    Args:
        name: of the element.
        children: markup, text or numbers; none is left out.
        attributes: `class_` is written `class`, other underscores become hyphens; true writes the bare name, false and
            none leave it out.

    Returns:
        The element as markup.

    >>> element("p", "a < b", class_="note", hidden=True)
    '<p class="note" hidden>a &lt; b</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Markup one after the other.

    >>> join("1 < 2, ", element("b", 3), None)
    '1 &lt; 2, <b>3</b>'
    """
    return Markup("".join(_child(child) for child in children))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return join(*child)
    return escape(str(child), quote=True)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    # SVG writes this one attribute in mixed case.
    name = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}.get(name, name)
    return f" {name}" if value is True else f' {name}="{escape(str(value), quote=True)}"'
