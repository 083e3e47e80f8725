"""The report: one self-contained HTML page about a result, from the transcript and the result alone.

`facts.py` gathers what is said as a plain dictionary, one section a module; `page.py` turns it into HTML with the files
in `template/`. Nothing here sees records, and the page asks nobody for anything.
"""
