"""One fit of another system, run by an interpreter that has it and need not have Recoup.

Started as a plain script. Reads one JSON object a line, answers each with one: `records` is a file of points in
[-1, 1]^d, `how` one of the systems, `output` the file for what it makes (synthetic points, or centres), `limit` the
seconds of processor time after which the system ends this process (SIGPROF): compiled code cannot be stopped otherwise.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from typing import Any

import numpy as np

Points = Any  # of two versions of NumPy


def levels_of(points: Points, bins: int) -> Points:
    """The bin of each value, from 0, of equal bins over [-1, 1]; both ends belong to a bin.

    >>> levels_of(np.array([-1.0, -0.1, 0.0, 1.0]), 2).tolist()
    [0, 0, 1, 1]
    """
    return np.clip(np.floor((points + 1.0) / 2.0 * bins), 0, bins - 1).astype(np.int64)


def within(levels: Points, bins: int, rng: np.random.Generator) -> Points:
    """A point uniformly within the bin of each value.

    >>> levels_of(within(np.array([[0, 7]]), 8, np.random.default_rng(0)), 8).tolist()
    [[0, 7]]
    """
    return (levels + rng.random(levels.shape)) / bins * 2.0 - 1.0


def synthetic(points: Points, request: dict[str, Any]) -> Points:
    """As many synthetic points as there are records, by AIM or MST of `opendp.extras.mbi` with its own defaults."""
    import opendp.prelude as dp
    import polars
    from opendp.extras.mbi import AIM, MST

    dp.enable_features("contrib")
    names, sizes = [f"c{j}" for j in range(points.shape[1])], request.get("sizes")
    bins = int(request.get("bins", 0))
    levels = points if sizes else levels_of(points, bins)  # where sizes are given, points are levels already
    table = polars.LazyFrame(levels.astype(np.float64), schema=names)
    # Cuts are left-open: one bin for every level.
    numbers = zip(names, sizes or [bins] * len(names), strict=True)
    cuts = {name: [float(level) for level in range(size - 1)] for name, size in numbers}
    setting = json.dumps([request["how"], len(names), request["loss"]])
    while True:
        loss = {kind: amount * (1.0 - _LESS.get(setting, 0) * 1e-9) for kind, amount in request["loss"].items()}
        context = dp.Context.compositor(
            data=table, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(**loss)
        )
        query = context.query(**loss).contingency_table(
            cuts=cuts, algorithm=AIM() if request["how"] == "aim" else MST()
        )
        try:
            model = query.release().model
            break
        except dp.OpenDPException as error:
            # Sums of its own shares may exceed its own total by a rounding error; a total that is 1e-9 less helps.
            if "insufficient budget" not in str(error) or _LESS.get(setting, 0) >= 20:
                raise
            _LESS[setting] = _LESS.get(setting, 0) + 1
    made = model.synthetic_data(len(points)).to_dict()
    synthesized = np.column_stack([made[name] for name in names])
    return synthesized if sizes else within(synthesized, bins, np.random.default_rng())


_LESS: dict[str, int] = {}


def centers(points: Points, request: dict[str, Any]) -> Points:
    """Centres of diffprivlib, with its defaults and the declared bounds."""
    from diffprivlib.models import KMeans

    d = points.shape[1]
    bounds = (np.full(d, -1.0), np.full(d, 1.0))
    model = KMeans(request["k"], epsilon=request["loss"]["epsilon"], bounds=bounds, random_state=request["seed"])
    return model.fit(points).cluster_centers_


def main() -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        points = np.load(request["records"])
        system = centers if request["how"] == "diffprivlib" else synthetic
        if request["how"] != "diffprivlib":
            import opendp.extras.mbi  # noqa: F401  (seconds are those of the fit, without the import)
        else:
            import diffprivlib.models  # noqa: F401
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, request["limit"])
        try:
            np.save(request["output"], system(points, request))
            answer: dict[str, object] = {"seconds": time.process_time() - start}
        except Exception as error:
            # Our own records or generated ones: an experiment may show the text.
            answer = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}"}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
