"""What a program without Recoup needs to predict: plain numbers as JSON, or a graph that any runtime of ONNX runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from recoup.algorithms.base import column_names
from recoup.domain import Box
from recoup.errors import ParameterError
from recoup.mixed import Mixed
from recoup.version import __version__

_OPSET, _IR = 18, 9  # old enough for the runtimes of some years


def exported(model: Any, path: str | os.PathLike[str]) -> str | bytes:
    """The file of a fitted model, by the ending of its name."""
    suffix = Path(path).suffix.lower()
    if suffix == ".onnx":
        return _onnx(model)
    if suffix != ".json":
        raise ParameterError(f"{os.fspath(path)!r}: name the file .json, or .onnx.")
    return json.dumps(_plain(model), indent=1, allow_nan=False) + "\n"


def _plain(model: Any) -> dict[str, Any]:
    domain = model._domain
    learnt = {name: np.asarray(getattr(model, name)).tolist() for name in model._learnt}
    if hasattr(model, "cluster_centers_"):
        learnt["unit_centers"] = domain.to_unit(model.cluster_centers_).tolist()
    value = {
        "format": "recoup-export",
        "schema_version": 1,
        "library_version": __version__,
        "estimator": type(model).__name__,
        "privacy": model.privacy_,
        "columns": column_names(domain),
        "domain": domain.to_json(),
        "learnt": learnt,
    }
    if isinstance(domain, Mixed):
        # What each coordinate of the unit domain is: a number reaches from -reach to reach, a category from 0 to reach.
        value["coordinates"] = [
            {"name": name, "column": part.name, "kind": part.kind, "reach": reach}
            for part in domain.parts
            for name, reach in zip(part.names, _reaches(part), strict=True)
        ]
    if hasattr(model, "classes_"):
        value["classes"] = model.classes_.tolist()
    return value


def _reaches(part: Any) -> list[float]:
    return list(part.reaches) if part.kind == "flagged" else [part.reach] * part.size


def _onnx(model: Any) -> bytes:
    """A graph from rows in the user's units to clusters, as `predict` finds them: -1 where a value is not finite."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise ParameterError("ONNX needs the package onnx: run `pip install recoup[onnx]`.") from None
    domain = model._domain
    if not hasattr(model, "cluster_centers_") or type(domain) is not Box:
        raise ParameterError("ONNX is for clusters of numbers in a box: export others as .json.")
    low, high = np.array(domain.low), np.array(domain.high)
    constants = {
        "low": low,
        "high": high,
        "width": high - low,
        "two": np.array(2.0),
        "one": np.array(1.0),
        "centers": domain.to_unit(model.cluster_centers_)[None],
        "rows_apart": np.array([1]),
        "columns": np.array([2]),
        "last": np.array([1]),
        "none": np.array(-1),
    }
    steps = [
        ("Sub", ["records", "records"], "difference", {}),  # 0, or NaN where a value is not finite
        ("IsNaN", ["difference"], "bad_cells", {}),
        ("Cast", ["bad_cells"], "bad_numbers", {"to": TensorProto.INT64}),
        ("ReduceMax", ["bad_numbers", "last"], "bad_count", {"keepdims": 0}),
        ("Cast", ["bad_count"], "bad", {"to": TensorProto.BOOL}),
        ("Where", ["bad_cells", "low", "records"], "complete", {}),
        ("Max", ["complete", "low"], "above", {}),
        ("Min", ["above", "high"], "inside", {}),
        ("Sub", ["inside", "low"], "shifted", {}),
        ("Div", ["shifted", "width"], "parts", {}),
        ("Mul", ["parts", "two"], "doubled", {}),
        ("Sub", ["doubled", "one"], "unit", {}),
        ("Unsqueeze", ["unit", "rows_apart"], "apart", {}),
        ("Sub", ["apart", "centers"], "away", {}),
        ("Mul", ["away", "away"], "squared", {}),
        ("ReduceSum", ["squared", "columns"], "distances", {"keepdims": 0}),
        ("ArgMin", ["distances"], "nearest", {"axis": 1, "keepdims": 0}),
        ("Where", ["bad", "none", "nearest"], "clusters", {}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **choices) for kind, inputs, output, choices in steps],
        "recoup_kmeans",
        [helper.make_tensor_value_info("records", TensorProto.DOUBLE, [None, domain.n_columns])],
        [helper.make_tensor_value_info("clusters", TensorProto.INT64, [None])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    helper.set_model_props(made, {"columns": json.dumps(column_names(domain)), "privacy": model.privacy_.statement})
    checker.check_model(made)
    return bytes(made.SerializeToString())
