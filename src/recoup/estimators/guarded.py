"""Estimators whose algorithm says where inference is not to be trusted: then its own answer is kept, with a warning."""

from __future__ import annotations

import warnings
from typing import Literal

from recoup._random import seed_for
from recoup.algorithms.base import Algorithm
from recoup.errors import PostprocessDeclined
from recoup.estimators.base import PrivateEstimator
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge, warn_of
from recoup.inference.refit import refit
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_LARGEST_GAP = 1.0  # nats a noisy value: what was found is then nowhere near the measure that was looked for


def _far_from_optimal(inferred: InferredDataset) -> str | None:
    found = inferred.diagnostics
    if found is None or found.converged or found.gap_per_row is None or found.gap_per_row <= _LARGEST_GAP:
        return None
    return (
        f"inference stopped {found.gap_per_row:.3g} nats a noisy value from its optimum: no data set on its points "
        "comes near all answers. Are the records at a few places, or the bounds far too wide?"
    )


class GuardedEstimator(PrivateEstimator):
    """Common ground of the estimators of guarded algorithms; not for use by itself."""

    def _answer(self, transcript: Transcript, algorithm: Algorithm, *, infers_by_itself: bool = True) -> Array:
        """Infer from a transcript where that is wanted and not declined, and refit.

        Args:
            transcript: what was released.
            algorithm: of that release; it says where released values are too weak to infer from.
            infers_by_itself: whether postprocess="auto" infers at all.

        Returns:
            The answer in the user's units; `transcript_`, `inferred_`, `declined_`, `verdict_` and `privacy_` are set.
            For a seed s as random_state it is what `refit(t, infer(t, random_state=s), random_state=s)` gives.
        """
        wanted = infers_by_itself if self.postprocess == "auto" else self.postprocess != "none"
        self.transcript_, self.privacy_ = transcript, self._statement(transcript.privacy)
        self.inferred_ = self.declined_ = None
        # Each from this seed anew, as the commands and the page read a transcript: all find the same answer.
        self._seed = seed_for(self.random_state)
        if wanted and self.postprocess == "auto":
            self.declined_ = algorithm.declines(transcript.context, transcript.rounds)
        if self.declined_ is not None:
            # Of the line that called `fit`, which called this.
            warnings.warn(f"the last iterate was kept: {self.declined_}", PostprocessDeclined, stacklevel=3)
        elif wanted:
            method: Literal["maxent", "mcmc"] = "mcmc" if self.postprocess == "mcmc" else "maxent"
            # Whoever names a method has decided against the guard.
            inferred = infer(transcript, method, random_state=self._seed, warn=False)
            reason = _far_from_optimal(inferred)
            if reason is None or self.postprocess != "auto":
                self.inferred_ = inferred
            if reason is not None:
                kept = self.postprocess == "auto"
                self.declined_ = reason if kept else None
                said = f"the last iterate was kept: {reason}" if kept else reason
                warnings.warn(said, PostprocessDeclined, stacklevel=3)
        self.verdict_ = judge(transcript, None) if self.inferred_ is None else self.inferred_.verdict
        warn_of(self.verdict_, stacklevel=4)
        return refit(transcript, self.inferred_, random_state=self._seed)
