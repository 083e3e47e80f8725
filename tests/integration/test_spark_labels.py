"""On a real Spark: labels are translated where the records are, and a classifier's totals equal the local ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import recoup
from recoup.errors import DataError
from recoup.estimators.logistic import open_labelled
from recoup.queries.models import LogisticGradientQuery

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NAMED = {"a": (0.0, 10.0), "b": (-5.0, 5.0)}


def table(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"b": rng.normal(0, 3, n), "y": rng.choice([3.0, 7.0, 5.0, 900.0, np.nan], n)})
    return frame.assign(a=rng.uniform(-1, 11, n).astype(np.float32), small=(frame["y"] == 7.0))


@pytest.mark.parametrize(("label", "classes"), [("y", (3, 7)), ("y", (7, 3)), ("small", (False, True))])
def test_totals_equal_the_local_ones(spark: Any, label: str, classes: tuple[Any, Any]) -> None:
    frame = table()
    query = LogisticGradientQuery(coefficients=np.array([1.0, -0.5, 0.1]), clip=0.5)
    factors = np.full(4, 2.0**29 + 1)
    there = open_labelled(spark.createDataFrame(frame).repartition(3), label, NAMED, classes)
    here = open_labelled(frame, label, NAMED, classes)
    answer = there.source.total(query, factors)
    assert answer == here.source.total(query, factors)
    assert answer[0] == int(frame[label].isin(classes).sum()) * (2**29 + 1)
    assert there.records == here.records


def test_a_fit_is_the_local_one(spark: Any) -> None:
    frame = table().drop(columns="small")
    terms = {"epsilon": 1, "bounds": ([-5.0, 0.0], [5.0, 10.0]), "classes": (3, 7)}
    terms |= {"random_state": 0, "noise": "simulated"}
    models = [recoup.PrivateLogisticRegression(**terms).fit(X, "y") for X in (spark.createDataFrame(frame), frame)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    with pytest.raises(DataError, match="name"):
        recoup.PrivateLogisticRegression(**terms).fit(spark.createDataFrame(frame), frame["y"])
