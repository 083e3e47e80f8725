"""Answers that were made elsewhere, read and as a file."""

from __future__ import annotations

import json

import pytest
from imported_cases import file_of, kmeans_elsewhere, people

from recoup.imported import imported_from_json


@pytest.fixture(scope="module")
def imported():
    return imported_from_json(file_of(kmeans_elsewhere(people())[0]))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("imported") / "imported.json"
    path.write_text(json.dumps(file_of(kmeans_elsewhere(people())[0])))
    return path
