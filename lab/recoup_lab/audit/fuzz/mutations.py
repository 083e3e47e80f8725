"""Ways to spoil a valid file: by its structure (JSON values, text with its tokens) and by its bytes.

Everything is drawn from one `random.Random`, so that a case is known by its seed and number alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

Case = Callable[[], object]
"""Reads a spoilt file and looks at what was read."""

DEEP: Final = 3_000  # levels of a nested value: past every recursion limit, and cheap
DEEPER: Final = 100_000  # of nested text
LONG: Final = 200_000  # characters or items of what is enormous

NUMBERS: Final[tuple[Any, ...]] = (
    *(0, 1, -1, 2, 3, -0.0, 0.5, -0.5, 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.2250738585072014e-308),
    *(1e-300, 1e-6, 1e6, 1e12, 1e13, 1e16, 1e20, 1e100, 0.1, 1 / 3, 1 + 2**-52, float("nan"), float("inf")),
    *(-float("inf"), 2**20, 2**20 + 1, 2**30, 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**62, 2**63, 2**63 - 1, -(2**63)),
    *(2**64, 10**30, 10**308, 10**309, 10**400, -(10**400), 10**4299, 10**5000, 4096, 4097, 65536),
)
TEXTS: Final[tuple[str, ...]] = (
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ud800",
        "\udcff\ud800",
        "\ufeff",
        "\u202e",
        "é",
        "e\u0301",
        "\U0001f600",
        "\n",
        "\r\n",
        '"',
    ),
    *("\\", "'", "0", "-0", "1", "1/2", "1/0", "0/0", "-1/2", "1/-2", "+1/2", "1 /2", "٣/٤", "1_0/3", "0x10", "1e5"),
    *(
        "1e999999999",
        "1e-999999999",
        "nan",
        "inf",
        "-Infinity",
        "true",
        "null",
        "box",
        "l1",
        "l2",
        "laplace",
        "gaussian",
    ),
    *(
        "pure",
        "zcdp",
        "voronoi",
        "grid",
        "histogram",
        "moments",
        "power",
        "count",
        "sum",
        "relative",
        "absolute",
        "none",
    ),
    *(
        "kmeans-lloyd",
        "recoup-transcript",
        "recoup-foreign",
        "add-remove-one-record",
        "replace-one-record",
        "user",
        "unit",
    ),
    *(
        "__class__",
        "__proto__",
        "__import__('os').system('true')",
        "{0.__class__}",
        "%s%n",
        "$(true)",
        "; DROP TABLE entry",
    ),
    *(
        "../secret.json",
        "../../../../etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://localhost/x",
        "s3://x/y",
        "C:\\x",
        "~",
        ".",
    ),
    *("9" * 400, "9" * 5000, "1/" + "3" * 4000, "3" * 4200 + "/" + "7" * 4200, "1/" + "3" * 19_000),
)
_TOKENS: Final[tuple[bytes, ...]] = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\"),
    *(b"\\u0000", b"\\ud800", b"1e999", b"-1e999", b"NaN", b"Infinity", b"-0.0", b"5e-324", b"1e308", b"null", b"true"),
    *(
        b"9" * 400,
        b"9" * 5000,
        b"//",
        b"/*",
        b"#",
        b"=",
        b"'''",
        b'"""',
        b"\n",
        b"\r",
        b"\t",
        b"[[",
        b"]]",
        b"0x",
        b"1_0",
    ),
    *(
        b"1979-05-27T07:32:00Z",
        b"inf",
        b"nan",
        b"[columns]",
        b"[columns.x]",
        b"low = 1\n",
        b"x = [0, 1]\n",
        b"=1:2,",
        b":",
    ),
)


def nested(depth: int, *, inside: Any = 0, named: bool = False) -> Any:
    """A value inside so many lists, or objects.

    >>> nested(2), nested(1, named=True)
    ([[0]], {'a': 0})
    """
    for _ in range(depth):
        inside = {"a": inside} if named else [inside]
    return inside


def hostile(rng: Random) -> Any:
    """A value that nobody would write."""
    pick = rng.random()
    if pick < 0.5:
        return rng.choice(NUMBERS)
    if pick < 0.85:
        return rng.choice(TEXTS)
    if pick < 0.97:
        empty: tuple[Any, ...] = (
            None,
            True,
            False,
            [],
            {},
            [[]],
            [{}],
            [None],
            [[1], [2, 3]],
            {"type": "grid"},
            [0, "1"],
        )
        return rng.choice(empty)
    if pick < 0.98:
        return nested(rng.choice((5, 40, 70, 500, DEEP)), named=rng.random() < 0.5)
    if pick < 0.995:
        return "x" * rng.randrange(1_000, 20_000)
    return rng.choice((lambda: [0] * LONG, lambda: "x" * LONG, lambda: [2**31] * (LONG // 4), lambda: [[0]] * 20_000))()


def copied(value: Any) -> Any:
    """A copy of a JSON value; faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def spoilt(value: Any, rng: Random, other: Any = None) -> Any:
    """A copy of a JSON value with one to a few changes; parts of another valid one may be put in."""
    top = [copied(value)]
    for _ in range(_how_many(rng)):
        holder, key = _place(top, rng)
        _change(holder, key, rng, other)
        if not top:  # the whole value was deleted
            return None
    return top[0]


def _how_many(rng: Random) -> int:
    n = 1
    while n < 8 and rng.random() < 0.35:
        n += 1
    return n


def _place(top: list[Any], rng: Random) -> tuple[Any, Any]:
    """A container and the key of one of its items, found by walking down."""
    holder: Any = top
    key: Any = 0
    while True:
        item = holder[key]
        if not isinstance(item, dict | list) or not item or rng.random() < 0.15:
            return holder, key
        holder, key = item, rng.choice(list(item)) if isinstance(item, dict) else rng.randrange(len(item))


def _change(holder: Any, key: Any, rng: Random, other: Any) -> None:
    item, pick = holder[key], rng.random()
    if pick < 0.40:
        holder[key] = hostile(rng)
    elif pick < 0.65:
        holder[key] = _tweaked(item, rng)
    elif pick < 0.73:
        del holder[key]
    elif pick < 0.81:
        if isinstance(holder, list):
            holder.insert(key, item)  # not a copy: it may nest too deeply for one
        else:
            holder[rng.choice((*TEXTS[:12], "type", "extra", "weight", "columns", "radius", "stated"))] = hostile(rng)
    elif pick < 0.87:
        holder[key] = [item] if rng.random() < 0.5 else {"type": item}
    elif pick < 0.93 and isinstance(item, list):
        rng.shuffle(item)
        del item[rng.randrange(len(item) + 1) :]
    elif other is not None:
        there, name = _place([other], rng)
        holder[key] = copied(there[name])


def _tweaked(item: Any, rng: Random) -> Any:
    if isinstance(item, bool) or item is None:
        return not item
    if isinstance(item, int | float):
        change = rng.randrange(7)
        if change == 0:
            return item + rng.choice((1, -1, 1e-9, -1e-9)) if abs(item) < 1e300 else item
        if change == 1:
            return -item
        if change == 2:
            return item * 2
        if change == 3:
            return str(item) if abs(item) < 1e300 else item
        if change == 4:
            return float(item) if abs(item) < 1e300 else item
        if change == 5:
            return item * rng.choice((10, 1000, 1e-3, 1e30, 1e-30)) if abs(item) < 1e200 else item
        return rng.choice(NUMBERS)
    if isinstance(item, str):
        if "/" in item and rng.random() < 0.5:
            top, _, bottom = item.partition("/")
            return rng.choice(
                (f"{bottom}/{top}", f"{top}1/{bottom}", f"{top}/{bottom}1", top, f"0/{bottom}", f"-{item}")
            )
        at = rng.randrange(len(item) + 1)
        return item[:at] + rng.choice(TEXTS[:24]) + item[at + rng.randrange(2) :]
    if isinstance(item, list):
        return item + item if rng.random() < 0.5 else item[1:]
    return {name: item[name] for name in list(item)[1:]} if isinstance(item, dict) else item


def json_text(value: Any, rng: Random) -> str:
    """A value as JSON, now and then with a name twice, constants that JSON does not have, or no end.

    What JSON cannot hold (too deep, too many digits) is written by other means, or left out.
    """
    try:
        text = json.dumps(value, ensure_ascii=rng.random() < 0.9)
    except (ValueError, RecursionError, TypeError):
        return rng.choice(("[" * DEEPER, "[" * DEEPER + "]" * DEEPER, '{"a":' * 50_000, '{"a": ' + "9" * 5000 + "}"))
    pick = rng.random()
    if pick < 0.10:
        names = list(re.finditer(r'"[a-z_]{1,20}": ', text))
        if names:
            found = rng.choice(names)
            text = f"{text[: found.start()]}{found.group()}null, {text[found.start() :]}"
    elif pick < 0.15:
        numbers = list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", text))
        if numbers:
            found = rng.choice(numbers)
            new = rng.choice(
                ("1e400", "-1e400", "NaN", "Infinity", "9" * 4301, "01", "1.", "0x1", "5e-324", "-0", "1e-400")
            )
            text = text[: found.start()] + new + text[found.end() :]
    elif pick < 0.16:
        text = text.replace("[", "[" * rng.choice((2, 900, DEEPER)), 1)
    return text


def spoilt_bytes(content: bytes, rng: Random, other: bytes = b"") -> bytes:
    """A copy of a file with one to a few of its bytes changed, lost, repeated or mixed with another's."""
    data = bytearray(content)
    for _ in range(_how_many(rng)):
        at, pick = rng.randrange(len(data) + 1), rng.random()
        if pick < 0.25 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif pick < 0.40 and data:
            data[min(at, len(data) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif pick < 0.60:
            data[at : at + rng.choice((0, 0, 1, 4))] = rng.choice(_TOKENS)
        elif pick < 0.72:
            del data[at : at + rng.choice((1, 2, 8, 64, 4096))]
        elif pick < 0.80:
            del data[at:]
        elif pick < 0.88:
            data[at:at] = data[at : at + rng.choice((1, 16, 256))] * rng.choice((1, 2, 50))
        elif pick < 0.90:
            data[at:at] = rng.choice((b"[", b'{"a":', b"\x00", b"9", b"a.")) * rng.choice((10, 1_000, DEEPER))
        elif pick < 0.96 and len(data) >= at + 4:
            number = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32)))
            data[at : at + 4] = number.to_bytes(4, rng.choice(("little", "big")))
        elif other:
            start = rng.randrange(len(other))
            data[at:at] = other[start : start + rng.choice((4, 64, 1024))]
    return bytes(data)
