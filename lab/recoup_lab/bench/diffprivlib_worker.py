"""diffprivlib's k-means, run by an interpreter of its own: it needs an older scikit-learn than Recoup.

Started as a plain script, by a Python that need not have Recoup. Reads lines, answers each with a JSON value:
`load FILE.npy` (the records), `fit K` (the seconds of one fit, on the clock and of the processor).
"""

from __future__ import annotations

import json
import sys
import time
import warnings


def main() -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    import diffprivlib
    import numpy as np
    from diffprivlib.models import KMeans

    records = np.empty((0, 1))
    _say({"version": diffprivlib.__version__})
    for line in sys.stdin:
        verb, argument = line.rstrip("\n").split(" ", 1)
        if verb == "load":
            records = np.load(argument)
            _say({"loaded": len(records)})
        else:
            bounds = (np.full(records.shape[1], -1.0), np.full(records.shape[1], 1.0))
            model = KMeans(n_clusters=int(argument), epsilon=1.0, bounds=bounds, random_state=0)
            start, spent = time.perf_counter(), time.process_time()
            model.fit(records)
            _say({"seconds": time.perf_counter() - start, "processor": time.process_time() - spent})


def _say(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
