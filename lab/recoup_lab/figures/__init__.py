"""Figures of the documentation, written from the runs in docs/data: `python -m recoup_lab.figures`.

A page holds no number that was measured and typed: a table stands between the markers of `recoup_lab.pages`, and a
number in a sentence is followed by its key, `77.1±4.5<!-- figure: wcss user s1 0.05 -->`.
"""
