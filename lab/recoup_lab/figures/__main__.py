"""Write the figures of all pages from the runs in docs/data; `--check` writes nothing and fails where one disagrees."""

from __future__ import annotations

import argparse
import sys

from recoup._files import write_whole
from recoup_lab.figures.check import Disagreement, disagreements, orphans, pages_of, rewritten
from recoup_lab.figures.keys import FIGURES
from recoup_lab.figures.parts import PAGES
from recoup_lab.tree import ROOT


def main(arguments: list[str] | None = None) -> int:
    """Write, or check; returns the code of the command."""
    parser = argparse.ArgumentParser(prog="python -m recoup_lab.figures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; code 1 where a page disagrees")
    check = parser.parse_args(arguments).check
    wrong: list[Disagreement] = []
    for name, text in pages_of(ROOT, PAGES).items():
        if check:
            wrong += disagreements(name, text, PAGES[name], FIGURES)
        else:
            write_whole(ROOT / name, text := rewritten(text, PAGES[name], FIGURES))
        wrong += orphans(name, text)
    for line in wrong:
        print(line)
    print(f"== figures of {len(PAGES)} pages: {len(wrong)} without a run or not as in docs/data")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
