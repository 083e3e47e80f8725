"""A single column handed over as a Series: the error says how to make a table of it."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from recoup import PrivateKMeans
from recoup.errors import DataError


@pytest.mark.parametrize("series", [pd.Series([1.0, 2.0], name="age"), pl.Series("age", [1.0, 2.0])])
@pytest.mark.parametrize("bounds", [(0, 9), {"age": (0, 9)}])
def test_a_series_is_told_to_become_a_frame(series, bounds):
    model = PrivateKMeans(n_clusters=1, epsilon=1, bounds=bounds, postprocess="none", n_rounds=1)
    with pytest.raises(DataError, match=r"to_frame\(\)"):
        model.fit(series)
    assert model.fit(series.to_frame()).cluster_centers_.shape == (1, 1)
