"""Forbid the network to a process and its children, in two ways, and let nothing that swallows errors hide an attempt.

Python's audit hook sees what Python code does, and says what it was. Linux's seccomp also stops compiled code: the
kernel kills a process that opens a socket other than a local one. Both are for good: a process cannot take them back.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys

_ATTEMPT = "network attempt: "
_LOCAL = {int(socket.AF_UNIX)}
_EVENTS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
_CHILDREN = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty")
_HARMLESS = {"lscpu", "sysctl"}  # joblib asks them for the number of cores
_ADDRESSED = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")

# Of linux/seccomp.h, linux/filter.h and linux/audit.h.
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_IO_URING_SETUP = 425  # it could open sockets without the call below
_SYSTEMS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}


def forbid_in_python() -> None:
    """An attempt of Python code to reach out, or to start another process, is reported and ends this one: code 70."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        outside = event in _EVENTS
        if event in _CHILDREN:
            # Another process may do it unseen.
            outside = not (event == "subprocess.Popen" and arguments[0] in _HARMLESS)
        elif event in _ADDRESSED:
            outside = int(getattr(arguments[0], "family", -1)) not in _LOCAL
        elif event == "socket.__new__":
            outside = int(str(arguments[1])) not in _LOCAL
        if outside:
            # At once: an exception could be caught, and the attempt forgotten.
            os.write(2, f"{_ATTEMPT}{event}\n".encode())
            os._exit(70)

    sys.addaudithook(hook)


def can_forbid_in_kernel() -> bool:
    """Whether this system is one whose numbers are known here."""
    return sys.platform == "linux" and platform.machine() in _SYSTEMS


def forbid_in_kernel() -> None:
    """From here on the kernel kills this process, and its children, for a socket that is not a local one.

    Raises:
        OSError: the kernel has no such filters, or does not allow them.
    """
    architecture, socket_call = _SYSTEMS[platform.machine()]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 0, 6, architecture),  # another way to call the kernel: kill
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_EQUAL, 4, 0, _IO_URING_SETUP),
        (_JUMP_EQUAL, 0, 2, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 1, int(socket.AF_UNIX)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _KILL),
    ]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    library = ctypes.CDLL(None, use_errno=True)
    for words in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER_MODE, header, 0, 0)):
        given = [ctypes.c_char_p(w) if isinstance(w, bytes) else ctypes.c_ulong(w) for w in words[1:]]
        if library.prctl(words[0], *given):
            raise OSError(ctypes.get_errno(), "the kernel refuses the filter")


if __name__ == "__main__":
    # `network_guard.py GUARD CODE`: run a piece of Python under one guard or both.
    for guard in sys.argv[1].split("+"):
        {"python": forbid_in_python, "kernel": forbid_in_kernel}[guard]()
    exec(compile(sys.argv[2], "guarded", "exec"), {"__name__": "__main__"})
