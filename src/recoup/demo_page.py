"""The demo's page: one HTML file that needs no network, follows the reader's light or dark setting, and is plain."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from recoup.commands.output import privacy_sentence
from recoup.demo import COMPARISON_NOTE, EPSILONS, N_FITS, NON_PRIVATE, RELEASED_EPSILON, TableResult
from recoup.version import __version__

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --paper: #ffffff; --soft: #57606a; --line: #d0d7de; --card: #f6f8fa;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa4af; --line: #30363d;
  --card: #161b22; --accent: #56b4e9; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: .5rem 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
p { max-width: 46rem; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
.privacy { border-left: 4px solid var(--accent); background: var(--card); padding: .6rem 1rem; max-width: 44rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .75rem 0; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
tbody th { font-weight: 400; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; padding-left: 1.2rem; }
tr.reference td, tr.reference th { color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; align-items: start; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem; }
figure img { width: 100%; height: auto; background: #ffffff; border-radius: 4px; display: block; }
figcaption { margin-top: .4rem; }
"""


def page(results: Sequence[TableResult], pictures: Sequence[Mapping[str, tuple[str, bytes]]]) -> str:
    """Write the page.

    Args:
        results: what was found on each table.
        pictures: for each table its pictures: name to caption and PNG.

    Returns:
        HTML with the pictures inside it.
    """
    sections = "".join(_section(result, shown) for result, shown in zip(results, pictures, strict=True))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Recoup demo</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Recoup: private clustering of two generated tables</h1>
<p>Nobody's records are in here: both tables were made from a seed. Each was released once, for real, with noise from
the operating system's entropy at epsilon = {RELEASED_EPSILON:g}; the transcripts lie beside this page. The tables
compare methods, with access to the data.</p>
{sections}
<p class="soft">Made by Recoup {escape(__version__)}. Your own table:
<code>recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99</code></p>
</body>
</html>
"""


def cell(score: float, result: TableResult) -> str:
    """A score, and what multiple of the non-private one it is."""
    digits = ",.0f" if score >= 1000 else ".4g"
    return f"{score:{digits}} ({score / result.non_private:.2f} x)"


def caption(result: TableResult) -> str:
    """What the comparison of one table shows."""
    n, d = result.table.rows.shape
    return (
        f"{result.table.name}, {n:,} x {d}, K = {result.table.n_clusters}: within-cluster sum of squares, columns "
        f"scaled to [-1, 1] (multiple of non-private)"
    )


def _section(result: TableResult, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    head = "".join(f'<th class="number" scope="col">epsilon {epsilon:g}</th>' for epsilon in EPSILONS)
    lines = "".join(
        f'<tr{" class=reference" if name not in result.private else ""}><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="number">{escape(cell(score, result))}</td>' for score in scores)
        + "</tr>"
        for name, scores in result.rows()
    )
    shown = "".join(
        f'<figure><img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        f"<figcaption>{escape(text)}</figcaption></figure>"
        for name, (text, png) in pictures.items()
    )
    return f"""
<h2>{escape(result.table.name)}</h2>
<p class="privacy"><strong>The release.</strong> {escape(privacy_sentence(result.transcript.privacy))}</p>
<p class="soft">{escape(caption(result))}. {escape(COMPARISON_NOTE)} Private figures are means of {N_FITS} fits,
{escape(NON_PRIVATE)} is the best of ten starts; the release above scores
{escape(cell(result.released_score, result))}.</p>
<div class="scroll"><table aria-label="Comparison on {escape(result.table.name)}">
<thead><tr><th scope="col">method</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>
<div class="figures">{shown}</div>
"""
