"""The paper's evaluation, from one command, and a place to add a method or a data set in a few lines.

An experiment holds both roles: it fits with simulated noise and scores on the records themselves. Nothing here is
private, and no score ever chooses between candidates: methods cannot import the score.
"""

from recoup_lab.experiments.datasets import SETS, DataSet, LoadedSet, add_set
from recoup_lab.experiments.methods import METHODS, Method, method
from recoup_lab.experiments.run import Run
from recoup_lab.experiments.runner import Plan, run_experiment

__all__ = [
    "METHODS",
    "SETS",
    "DataSet",
    "LoadedSet",
    "Method",
    "Plan",
    "Run",
    "add_set",
    "method",
    "run_experiment",
]
