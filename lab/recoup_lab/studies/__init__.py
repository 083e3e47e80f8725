"""Studies behind numbers in the documentation, each run by hand: `python -m recoup_lab.studies.<name>`."""
