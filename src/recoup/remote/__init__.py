"""The analyst's end of a served curator: terms, runs and answers over HTTP, with the standard library alone.

`client` speaks HTTP, `table` is what `recoup.connect` returns, `release` drives an algorithm against it. Everything
that comes back is checked as a hostile file would be.
"""
