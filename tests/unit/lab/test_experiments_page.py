"""What the page of the evaluation says in words and counts is what its kept runs say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from recoup_lab.experiments.results import read_results
from recoup_lab.experiments.summary import summarise

DOCS = Path(__file__).parents[3] / "docs"
PAGE = " ".join((DOCS / "experiments.md").read_text(encoding="utf-8").split())
RUNS = read_results(DOCS / "data" / "paper-runs.parquet")
PANELS = summarise(RUNS)
PAPER = [panel for panel in PANELS if panel.metric == "paper"]


def ratios(method):
    return [panel.ratios[method][epsilon] for panel in PAPER for epsilon in panel.epsilons]


def helps(ratio):
    """The page's one criterion."""
    return ratio.mean + 2 * ratio.error < 1


def is_worse(ratio):
    return ratio.mean - 2 * ratio.error > 1


def counts(method):
    found = ratios(method)
    return sum(r.mean < 1 for r in found), sum(map(helps, found)), sum(map(is_worse, found))


def short(value):
    return f"{value:.3f}".removeprefix("0")


def test_the_number_of_runs_and_their_time():
    seconds = sum(run.seconds for run in RUNS)
    assert f"{len(RUNS):,} runs, {seconds:.0f} seconds of one core" in PAGE


@pytest.mark.parametrize("method", ["mcmc", "mcmc-noise"])
def test_a_claim_holds_by_one_criterion(method):
    lines = (
        (DOCS / "experiments.md").read_text(encoding="utf-8").split(f"<!-- claims of {method} -->\n")[1].splitlines()
    )
    assert len(PAPER) == 6
    for panel, line in zip(PAPER, lines[2:8], strict=True):
        found = [panel.ratios[method][epsilon] for epsilon in panel.epsilons]
        marks = ["**" if helps(r) else "*" if is_worse(r) else "" for r in found]
        cells = [f"{mark}{short(r.mean)}±{short(r.error)}{mark}" for mark, r in zip(marks, found, strict=True)]
        tally = [f"{marks.count(mark)} of 5" for mark in ("**", "*")]
        assert line == f"| {panel.title} | {' | '.join([*cells, *tally])} |"


def test_how_often_methods_help():
    assert len(ratios("mcmc")) == 30
    below, helped, worse = counts("maxent")
    assert worse == 0
    sentence = f"a mean ratio below 1 in {below} of 30 settings; it helps in {helped} and is worse in none"
    assert sentence in PAGE
    below, helped, worse = counts("mcmc")
    noise = "{}, {} and {}".format(*counts("mcmc-noise"))
    sentence = f"has one below 1 in {below}; it helps in {helped} and is worse in {worse}"
    assert f"{sentence} (with the scale of the noise, {noise})" in PAGE
    two = [
        sum(a.mean < b.mean for a, b in zip(ratios("avg2"), ratios(other), strict=True)) for other in ("mcmc", "maxent")
    ]
    assert f"than the sampler in {two[0]} of 30 settings and than maximum entropy in {two[1]} " in PAGE


def test_which_target_is_better_pair_by_pair():
    scores = {(r.set, r.epsilon, r.method, r.seed): r.wcss for r in RUNS if r.metric == "paper"}
    better, worse = [], []
    for panel in PAPER:
        for epsilon in panel.epsilons:
            one, noise = (
                np.array([scores[panel.name, epsilon, method, seed] for seed in range(10)])
                for method in ("mcmc", "mcmc-noise")
            )
            ratio = one / noise
            error = ratio.std(ddof=1) / np.sqrt(10)
            better += [panel.title] if ratio.mean() + 2 * error < 1 else []
            worse += [panel.title] if ratio.mean() - 2 * error > 1 else []
    assert f"better by more than two standard errors in {len(better)} settings" in PAGE
    assert f"and worse in {len(worse)} (" in PAGE
    assert better.count("S1") == 5


def test_who_has_the_lowest_mean():
    best = {}
    for metric in ("paper", "user"):
        settings = [(p, e) for p in PANELS if p.metric == metric for e in p.epsilons]
        lowest = [min(p.methods, key=lambda m, p=p, e=e: p.scores[m][e].mean) for p, e in settings]
        assert len(lowest) == 30
        assert set(lowest) == {"recoup", "hybrid"}
        best[metric] = lowest.count("recoup")
    words = f"in {best['paper']} of 30 settings in the paper's metric and in {best['user']} of 30 in the user's"
    assert words in PAGE


def test_the_table_of_inference_has_the_same_ratios():
    rows = re.findall(r"^\| (\w+), K=\d+ .*$", (DOCS / "inference.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) == 24
    for line in (DOCS / "inference.md").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| (\w+), K=\d+ \([\d.]+\) \| ([\d.]+) \| [\d.±]+ \| (.*) \|$", line)
        if found is None:
            continue
        panel, epsilon = next(p for p in PAPER if p.name == found[1]), float(found[2])
        methods = ("consistency", "mcmc", "mcmc-noise", "maxent")
        wanted = [panel.ratios[method][epsilon] for method in methods]
        assert found[3].split(" | ") == [f"{r.mean:.3f}±{r.error:.3f}" for r in wanted]
