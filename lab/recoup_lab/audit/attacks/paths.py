"""What neighbours lose along held paths: the distance of the samplers' inputs over their scale, as exact fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from recoup_lab.audit.attacks.sampler import Draw, Heard
from recoup_lab.audit.attacks.subjects import Terms
from recoup_lab.audit.findings import Finding

_ROOM: Final = Fraction(1, 10**9)  # for the conversion from epsilon and delta to rho, which is computed in floats here


@dataclass(slots=True)
class Losses:
    """The largest loss of some pairs of tables, as a share of what was claimed, and what else is wrong with them.

    Attributes:
        target: what is attacked.
        exceeded: the first pair that lost more than was claimed, if there is one.
        problem: the first pair that was not drawn for alike, or something that the attack itself noticed.
    """

    target: str
    tries: int = 0
    largest: Fraction = Fraction(0)
    where: str = "none"
    exceeded: bool = False
    problem: str = ""

    def compare(self, heard: Sequence[Heard], terms: Terms, pair: str) -> Fraction:
        """Add what two tables, held on one path of answers, lose; returns it as a share of the claim."""
        one, other = heard
        draws = zip(one.draws, other.draws, strict=False)
        share = sum((path_loss(a, b) for a, b in draws), Fraction(0)) / terms.claimed
        self.tries += 1
        if not one.draws:
            self.note(f"nothing was drawn by OpenDP: {pair}")
        elif one.public != other.public:
            self.note(f"number or scale of draws differs: {pair}")
        # What Laplace noise allows is exact.
        self.exceeded |= share > 1 + (0 if terms.mechanism == "laplace" else _ROOM)
        self.largest, self.where = max((self.largest, self.where), (share, pair))
        return share

    @contextmanager
    def errors(self, pair: str) -> Iterator[None]:
        """What a record makes fail inside the block is wrong with it: without the record it did not."""
        try:
            yield
        except Exception as error:  # code under attack may raise anything
            self.note(f"{type(error).__name__} was raised: {pair}")

    def note(self, problem: str) -> None:
        """Note what is wrong; the first is kept."""
        self.problem = self.problem or problem

    def finding(self, group: str, attack: str) -> Finding:
        """All of it in one line."""
        share = float(self.largest)
        return Finding(
            group=group,
            attack=attack,
            target=self.target,
            tries=self.tries,
            result=self.problem or f"at most {share:.6f} of the claim ({self.where})",
            passed=not self.problem and not self.exceeded,
            figures={"share_of_claim": share},
        )


def path_loss(one: Draw, other: Draw) -> Fraction:
    """What a draw tells at most between two inputs: epsilon, or rho of Gaussian noise.

    >>> a = Draw(kind="laplace", exact=(0, 0), answers=(), scale=8.0)
    >>> b = Draw(kind="laplace", exact=(3, -1), answers=(), scale=8.0)
    >>> path_loss(a, b)
    Fraction(1, 2)
    """
    moved = [b - a for a, b in zip(one.exact, other.exact, strict=False)]
    scale = Fraction(one.scale)
    if one.kind == "laplace":
        return sum(map(abs, moved)) / scale
    if one.kind == "gaussian":
        return sum(v * v for v in moved) / (2 * scale * scale)
    # Scores that all move one way cost the largest move; else a winner may gain what the others lose.
    return one.n_winners * Fraction(max(0, *moved) - min(0, *moved)) / scale
