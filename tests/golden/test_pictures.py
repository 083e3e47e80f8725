"""Pictures look as they did when somebody last looked at them, up to a tolerance; a planted change is noticed."""

from __future__ import annotations

import pytest
from pictures import FOLDER, distance, drawn, loaded

# The same matplotlib gives 0; moving what is shown by a tenth of the axes gives 7 or more.
TOLERANCE = 4.0


@pytest.fixture(scope="module")
def pictures():
    return drawn()


@pytest.fixture(scope="module")
def changed():
    return drawn(change=0.1)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.png")), ids=lambda path: path.stem)
def test_a_picture_is_as_it_was_and_a_change_is_seen(path, pictures, changed):
    golden = loaded(path)
    assert distance(pictures[path.stem], golden) < TOLERANCE
    assert distance(changed[path.stem], golden) > TOLERANCE


def test_every_picture_has_a_golden_one(pictures):
    assert {path.stem for path in FOLDER.glob("*.png")} == set(pictures)


def test_drawing_twice_gives_the_same(pictures):
    again = drawn()
    assert all((again[name] == picture).all() for name, picture in pictures.items())
