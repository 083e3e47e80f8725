"""The sections of a report. A section is one file: its content, as JSON, and the HTML that shows it.

`content` takes what was released and inferred; `html` takes that content.
"""
