"""Algorithms that try to run in the curator's process, below a release, where the records are on the stack."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from abc import ABCMeta
from enum import Enum
from fractions import Fraction

import numpy as np

from recoup.custom import Algorithm

RAN: list[str] = []


def ran(what):
    """Note that code ran here while somebody released records."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "release" and frame.f_globals["__name__"] == "recoup.driver":
            RAN.append(what)
            return
        frame = frame.f_back


class Text(str):
    """A text that is asked whenever it is compared, hashed or printed."""

    __slots__ = ()

    def __hash__(self):
        ran("hash of a text")
        return str.__hash__(self)

    def __eq__(self, other):
        ran("comparison of a text")
        return str.__eq__(self, other)

    def __format__(self, how):
        ran("format of a text")
        return str.__format__(self, how)


class Number(np.float64):
    """A number that says it is numpy's."""

    __module__ = "numpy"

    def __reduce__(self):
        ran("pickling of a number")
        return float, (0.5,)


class Whole(int):
    """A whole number that is asked when it is printed or pickled."""

    def __reduce_ex__(self, protocol):
        ran("pickling of a whole number")
        return int, (1,)

    def __str__(self):
        ran("text of a whole number")
        return "1"


class Fields(dict):
    """Fields that are asked for their names."""

    def keys(self):
        ran("names of fields")
        return dict.keys(self)

    def __iter__(self):
        ran("iteration of fields")
        return dict.__iter__(self)


class Meta(ABCMeta):
    """A metaclass that is asked whatever its classes are asked."""

    def __hash__(cls):
        ran("hash of a class")
        return 1

    def __eq__(cls, other):
        ran("comparison of a class")
        return cls is other

    @property
    def __name__(cls):
        ran("name of a class")
        return "name"

    def __subclasscheck__(cls, kind):
        ran("derivation of a class")
        return type.__subclasscheck__(cls, kind)


class Descriptor:
    """An attribute that is asked when a class is looked at."""

    def __get__(self, instance, kind=None):
        ran("attribute of a class")

    def __set__(self, instance, value):
        """A data descriptor comes before an object's own fields."""


class Plain(Algorithm):
    """An algorithm that asks nothing."""

    type_name = "test-hostile"

    def to_json(self):
        """Its description; with a file to hold, it starts a process that holds it locked."""
        if not hasattr(self, "held"):
            return {"type": self.type_name}
        with open(self.held) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[file.fileno()])
        return {"type": self.type_name, "started": True}

    def next_request(self, context, rounds, rng):
        """Nothing."""

    def estimate(self, context, rounds):
        """Nothing."""


class Elsewhere(Plain):
    """Its module's name is asked."""


class Renamed(Plain):
    """Its own name is asked."""


class Metaclassed(Plain, metaclass=Meta):
    """Its metaclass is asked."""


class Unmarked:
    """Derives from nothing, and has what an algorithm has as attributes that are asked."""

    type_name = next_request = estimate = to_json = from_json = Descriptor()


class Displaced(Plain):
    """Its module is no module."""


class Colour(Enum):
    """Its member's name is asked."""

    RED = 1


class Module:
    """What stands in the place of a module."""

    @property
    def __dict__(self):
        ran("names of a module")
        return {"Displaced": Displaced}


Keyed = type("Keyed", (Plain,), {Text("__module__"): __name__})
Elsewhere.__module__ = Text(__name__)
Renamed.__qualname__ = Text("Renamed")
Displaced.__module__ = "hostile_module"
Colour._name_ = Descriptor()


def with_field(value, name="x"):
    """A plain algorithm with a field."""
    made = Plain()
    made.__dict__[name] = value
    return made


def with_fields(fields):
    """A plain algorithm whose fields lie in something else."""
    made = Plain()
    made.__dict__ = fields
    return made


def fraction():
    """A fraction whose parts were replaced."""
    made = Fraction(1, 2)
    made._numerator = Whole(1)
    return made


MADE = {
    "a field's name": lambda: with_field(1, Text("x")),
    "a number": lambda: with_field(Number(0.5)),
    "a module's name": Elsewhere,
    "a class's name": Renamed,
    "fields of another kind": lambda: with_fields(Fields(x=1)),
    "a metaclass": Metaclassed,
    "a class with a metaclass as a field": lambda: with_field(Metaclassed),
    "an object with a metaclass as a field": lambda: with_field([Metaclassed()]),
    "something in a module's place": Displaced,
    "a key of the class": lambda: Keyed(),
    "a fraction of something else": lambda: with_field(fraction()),
    "an array with something attached": lambda: with_field(np.zeros(2, np.dtype("f8", metadata={"x": Whole(1)}))),
    "a method of an object": lambda: with_field(Metaclassed.mro),
    "a method of a class": lambda: with_field(Metaclassed.__subclasses__),
}
