"""What another page repeats of the evaluation is what its kept runs say."""

from __future__ import annotations

import re

from recoup_lab.figures.runs import DOCS, panel


def test_the_table_of_inference_has_the_same_ratios():
    rows = re.findall(r"^\| (\w+), K=\d+ .*$", (DOCS / "inference.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) == 24
    for line in (DOCS / "inference.md").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| (\w+), K=\d+ \([\d.]+\) \| ([\d.]+) \| [\d.±]+ \| (.*) \|$", line)
        if found is None:
            continue
        own, epsilon = panel("paper", found[1]), float(found[2])
        methods = ("consistency", "mcmc", "mcmc-noise", "maxent")
        wanted = [own.ratios[method][epsilon] for method in methods]
        assert found[3].split(" | ") == [f"{r.mean:.3f}±{r.error:.3f}" for r in wanted]
