"""Requests to a served curator: one at a time, over TLS, again with the same key where a reply was lost."""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import socket
import ssl
import time
from fractions import Fraction
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from recoup import errors
from recoup._files import strict_value
from recoup._shown import printable
from recoup.errors import (
    Argument,
    BudgetExceededError,
    Call,
    ContinuationError,
    CuratorUnavailableError,
    ParameterError,
    RemoteError,
    TranscriptFormatError,
    UnauthorizedError,
)
from recoup.transcript.round import fraction_from_json
from recoup.version import __version__

_LARGEST: Final = 2**26  # bytes of a reply
_LENGTH: Final = re.compile("[0-9]{1,20}")
_LARGEST_NUMBER: Final = 10**200  # which a float holds
_LONGEST_TEXT: Final = 600  # of what a curator says in a refusal
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")
_WAITS: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before each further try
# What may be asked again with the same key: nothing was sent, or it is fetched from where it is kept.
_AGAIN: Final = (429, 503)


class Client:
    """Asks one served curator; the token goes into the header of each request and nowhere else.

    Args:
        url: of the curator, such as "https://curator.example".
        token: the analyst's.
        timeout: how many seconds to wait for a reply beyond what the curator says that it takes.
        allow_http: whether to speak to another machine without TLS, so that anybody on the way reads the token.
    """

    def __init__(self, url: str, token: str, *, timeout: float, allow_http: bool) -> None:
        self.url, self._parts = _checked_url(url, allow_http)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ParameterError(Argument("token"), " is not one that a curator gives out.")
        self._token, self._timeout = token, timeout

    def get(self, path: str, n_waits: int | None = None) -> Any:
        """The JSON value at a path, asked for again after so many waits at most."""
        return self._asked("GET", path, None, None, 0.0, n_waits)

    def post(self, path: str, body: object, key: str, seconds: float = 0.0) -> Any:
        """The reply to a body under a key, by which a lost reply is asked for again, neither drawn nor paid again.

        A reply takes so many seconds by the curator's own account.
        """
        return self._asked("POST", path, json.dumps(body, allow_nan=False).encode(), key, seconds)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection holds a token and is not pickled: connect again with recoup.connect.")

    def _asked(
        self, method: str, path: str, body: bytes | None, key: str | None, seconds: float, n_waits: int | None = None
    ) -> Any:
        for wait in (*_WAITS[:n_waits], None):
            status, raw = self._once(method, path, body, key, seconds)
            if wait is None or not (status is None or status in _AGAIN):
                break
            time.sleep(wait)
        if status is None:
            raise CuratorUnavailableError(
                f"{self.url} does not answer. What was asked is kept under its key: continue with ",
                Argument("resume", "True"),
                " where a path was given, and nothing is paid twice.",
            )
        try:
            value = strict_value(raw.decode())
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise RemoteError(f"{self.url} replies with what is not a curator's JSON (status {status}).")
        if status in (200, 201):
            return value
        self._refused(status, value.get("error"))

    def _once(
        self, method: str, path: str, body: bytes | None, key: str | None, seconds: float
    ) -> tuple[int | None, bytes]:
        """The status and the body of one try; no status where no whole reply came."""
        secure, host, port, base = self._parts
        timeout = self._timeout + seconds
        connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
            if secure
            else http.client.HTTPConnection(host, port, timeout=timeout)
        )
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers |= {"User-Agent": f"recoup/{__version__}", "Connection": "close"}
        headers |= {} if key is None else {"Idempotency-Key": key, "Content-Type": "application/json"}
        problem = ""
        try:
            connection.request(method, base + path, body, headers)
            reply = connection.getresponse()
            raw = reply.read(_LARGEST + 1)
            length = reply.getheader("content-length")
            if len(raw) > _LARGEST:
                problem = "replies with more than an answer can hold"
            elif length is not None and not _LENGTH.fullmatch(length):
                problem = "replies with a length that is none"
            elif length is not None and len(raw) < int(length):
                return None, b""
            else:
                return reply.status, raw
        except ssl.SSLCertVerificationError:
            problem = "does not show a certificate that this machine trusts"
        except (OSError, socket.gaierror, http.client.HTTPException):
            return None, b""
        finally:
            connection.close()
        raise RemoteError(f"{self.url} {problem}.")

    def _refused(self, status: int, error: object) -> NoReturn:
        """Raise what a curator refuses with, as the error that the same would raise here."""
        said = error if isinstance(error, dict) else {}
        name, text = str(said.get("type"))[:60], printable(str(said.get("message"))[:_LONGEST_TEXT])
        if name == "BudgetExceededError":
            try:
                spent, asked, left = (_number(said.get(part)) for part in ("spent", "asked", "left"))
            except TranscriptFormatError:
                raise RemoteError(f"{self.url} refuses: {text}") from None
            where = f"{text.partition(': ')[0]} at {self.url}"
            raise BudgetExceededError(spent=spent, asked=asked, left=left, where=where)
        if status == 401:
            raise UnauthorizedError(
                f"{self.url} does not know the token, or it was revoked: ask its operator, and give it by ",
                Call("token=", "the environment variable RECOUP_TOKEN"),
                ".",
            )
        if name in ("IdempotencyError", "ContinuationError"):
            raise ContinuationError(
                f"{self.url} refuses: {text} Another question was begun in its place: resume with the same parameters "
                "and random_state, or begin a new release with another path."
            )
        if status in _AGAIN:
            raise CuratorUnavailableError(f"{self.url} cannot answer now: {text}")
        known = getattr(errors, name, None)
        if isinstance(known, type) and issubclass(known, ParameterError | TranscriptFormatError):
            raise known(f"{self.url} refuses: {text}")
        raise RemoteError(f"{self.url} refuses (status {status}): {printable(name)}: {text}")


def _number(text: object) -> Fraction:
    """Read a fraction that may be negative, and is no larger than can be shown."""
    sign, rest = (-1, text[1:]) if isinstance(text, str) and text.startswith("-") else (1, text)
    value = fraction_from_json(rest)
    if value > _LARGEST_NUMBER:
        raise TranscriptFormatError("a budget is larger than any.")
    return sign * value


def _checked_url(url: str, allow_http: bool) -> tuple[str, tuple[bool, str, int, str]]:
    """The address without what does not belong into it, and its parts: whether by TLS, host, port, path."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        host = port = None
    if not host or parts.scheme not in ("https", "http"):
        raise ParameterError("the address of a curator is such as https://curator.example, with https:// or http://.")
    if parts.username is not None or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise ParameterError("the address of a curator holds no name, password, question or fragment.")
    secure = parts.scheme == "https"
    if not secure and not allow_http and not _is_loopback(host):
        raise ParameterError(
            f"http://{host} is another machine: anybody on the way could read the token and change answers. Use "
            "https://, or ",
            Call("allow_http=True in a network that you trust", "forward a port of your own machine to it (ssh -L)"),
            ".",
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}", (secure, host, port or (443 if secure else 80), path)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
