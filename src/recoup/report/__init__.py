"""The report: one self-contained HTML page about a result, from the transcript and the result alone.

`write.py` gathers what the page says as JSON, and writes it as HTML; each of its sections is a file of `sections/`; all
that is HTML in general is in `html.py`. Nothing here sees records, and the page asks nobody for anything.
"""
