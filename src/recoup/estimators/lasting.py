"""Models that outlive their fit: from a transcript alone, through pickles and files, as plain numbers, in words.

Whatever a model has learnt is a function of its transcript and of a seed. So a file holds these two and, to be quick,
what was learnt; the inferred data set, which is large, is inferred again when somebody asks for it. No file and no
pickle holds a record or a ledger.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from recoup._files import checksum_of, strict_json, write_whole
from recoup._shown import frame, shortened
from recoup._validate import choice, whole_number
from recoup.algorithms.base import Algorithm, column_names
from recoup.algorithms.registry import ENTRIES, algorithm_from_json
from recoup.domain import Box, Domain
from recoup.errors import ModelFormatError, ParameterError, RecoupError, TranscriptFormatError
from recoup.found_bounds import FoundBounds
from recoup.inference.infer import METHODS, infer
from recoup.inference.inferred import InferredDataset, refit
from recoup.inference.judge import judge
from recoup.inference.verdict import Verdict
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.privacy.statement import PrivacyStatement
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
else:
    # The last base of every estimator is scikit-learn's, which the command line has no need to wait for.
    BaseEstimator = object

_FORMAT, _VERSION = "recoup-model", 1
_FIELDS = {"format", "schema_version", "library_version", "privacy", "estimator", "transcript", "found_bounds"}
_FIELDS |= {"postprocess", "seed", "method", "declined", "learnt", "checksum"}
_LAZY = ("inferred_", "verdict_")  # of a loaded model


class Summary(NamedTuple):
    """A table of what was learnt: what its rows are, their labels, and its columns by name."""

    of: str
    rows: Sequence[object]
    columns: dict[str, Any]


def by_column(names: list[str], values: Array) -> dict[str, Array]:
    """A column of a summary for each column of the table."""
    return dict(zip(names, values.T, strict=True))


class LedgerOfAnotherProcess:
    """What a pickled model has in the place of a ledger in memory, which cannot travel: nothing is charged to it."""


class LastingModel(BaseEstimator):  # type: ignore[misc]
    """The part of every estimator that keeps what was fitted; not for use by itself.

    A subclass names its learnt arrays and their shapes in `_learnt`: "d" is the number of columns, "k" that of clusters
    or components, and an empty shape a list of rows.
    """

    _learnt: ClassVar[dict[str, tuple[str | int, ...]]] = {}
    transcript_: Any
    inferred_: Any
    verdict_: Any
    _read: Any
    _set_domain: Any
    _postprocesses: Any

    # ---- from a transcript ----
    @classmethod
    def from_transcript(
        cls, transcript: Transcript | str | os.PathLike[str], *, postprocess: str = "auto", random_state: Any = None
    ) -> Self:
        """A fitted model from a transcript alone: what `fit` made of the same transcript, at no cost.

        Args:
            transcript: what was released, or the path of its file.
            postprocess: as of the estimator.
            random_state: of inference and refit; without one the seed that the commands use.

        Returns:
            A fitted model with the parameters that the transcript tells; it has no ledger.

        Guarantees: reads nothing but the transcript. With the `random_state` and `postprocess` of a fit, it has learnt
        what that fit had.

        >>> from recoup import PrivateKMeans
        >>> x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(2000, 2))
        >>> model = PrivateKMeans(n_clusters=2, epsilon=5, bounds=(0, 1)).fit(x)
        >>> again = PrivateKMeans.from_transcript(model.transcript_)
        >>> bool((again.predict(x) == model.predict(x)).all())
        True
        """
        if not isinstance(transcript, Transcript):
            transcript = Transcript.load(transcript)
        model, algorithm = cls._told_by(transcript, postprocess, random_state)
        choice(postprocess, "postprocess", model._postprocesses())
        model._read(transcript, algorithm)
        return model

    @classmethod
    def _told_by(cls, transcript: Transcript, postprocess: str, random_state: Any) -> tuple[Self, Algorithm]:
        """A model with the parameters of a release, before anything is learnt, and its algorithm."""
        algorithm, context = algorithm_from_json(transcript.algorithm), transcript.context
        if not cls._reads(algorithm):
            raise ParameterError(f"this is a transcript of {algorithm.type_name}, which is none of {cls.__name__}.")
        if not transcript.rounds:
            raise ParameterError("the transcript has no rounds: nothing was released that a model could be made of.")
        same = ("epsilon", "delta", "n_records", "records_per_person", "person", "per_person", "csv_dialect")
        terms = {name: getattr(context, name) for name in same if getattr(context, name) is not None}
        known, features = set(cls._get_param_names()), cls._features(context.domain)
        terms |= {name: value for name, value in algorithm.to_json().items() if name in known}
        if "algorithm" in known:
            named = (entry.name for entry in ENTRIES if entry.kind.type_name == algorithm.type_name)
            terms["algorithm"] = next(named, None) or "auto"
        if isinstance(features, Mixed):
            terms["bounds"] = features.schema
        else:
            ends = zip(features.low, features.high, strict=True)
            columns = features.columns
            terms["bounds"] = (
                (features.low, features.high) if columns is None else dict(zip(columns, ends, strict=True))
            )
            terms |= {} if isinstance(features, Box) else {"domain": features}
        noise = "simulated" if transcript.simulated else "secure"
        model = cls(**terms, postprocess=postprocess, random_state=random_state, noise=noise)
        model._set_domain(features)
        return model, algorithm

    @classmethod
    def _reads(cls, algorithm: Algorithm) -> bool:
        """Whether a model of this kind can be made of what an algorithm released."""
        raise NotImplementedError

    @classmethod
    def _features(cls, records: Domain) -> Domain:
        """The domain of what a model is asked about, from that of the records."""
        return records

    # ---- pickles ----
    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: of a fitted model not its ledger, which only its path can stand for elsewhere."""
        state: dict[str, Any] = dict(super().__getstate__())
        ledger = state.get("ledger")
        if isinstance(ledger, Ledger) and "privacy_" in state:
            state["ledger"] = LedgerOfAnotherProcess() if ledger.path is None else str(ledger.path)
        return state

    # ---- files ----
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as one JSON file: its transcript, how it was read, and what was learnt.

        Guarantees: holds no record, no ledger and no noise seed; the file appears only when it is complete.

        >>> import tempfile
        >>> from recoup import PrivatePCA
        >>> x = np.random.default_rng(0).uniform(size=(500, 3))
        >>> model = PrivatePCA(n_components=1, epsilon=5, bounds=(0, 1)).fit(x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.json")
        ...     again = PrivatePCA.load(f"{folder}/model.json")
        >>> bool((again.transform(x) == model.transform(x)).all()), again.summary().shape
        (True, (1, 5))
        """
        check_is_fitted(self)
        if self.transcript_ is None:
            alone = f"{self.algorithm} released centres alone, and a saved model holds its transcript"
            raise ParameterError(f"{alone}: keep the numbers with export, or pickle the model.")
        bounds = getattr(self, "bounds_", None)
        body = {
            "format": _FORMAT,
            "schema_version": _VERSION,
            "library_version": __version__,
            "privacy": self.privacy_.statement,
            "estimator": type(self).__name__,
            "transcript": self.transcript_.to_json(),
            "found_bounds": None if bounds is None else bounds.transcript.to_json(),
            "postprocess": self.postprocess,
            "seed": self._seed,
            "method": self._method,
            "declined": getattr(self, "declined_", None),
            "learnt": {name: np.asarray(getattr(self, name)).tolist() for name in self._learnt},
        }
        write_whole(path, json.dumps(body | {"checksum": checksum_of(body)}, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back from its file, ready to predict; what is not exactly such a file is refused.

        Guarantees: nothing named in the file is imported or run. Inferred data and the verdict are found again, from
        the transcript and the seed, when they are asked for.
        """
        value, problem = strict_json(path, "model")
        if problem:
            raise ModelFormatError(f"{path} {problem}.")
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            raise ModelFormatError(f"{path} is not a model that Recoup saved.")
        if value.get("schema_version") != _VERSION:
            raise ModelFormatError(f"{path} is of a version that this Recoup does not read: update Recoup.")
        if value.get("estimator") != cls.__name__:
            other = shortened(str(value.get("estimator")), 60)
            raise ModelFormatError(f"{path} is a {other}, not a {cls.__name__}: read it with {other}.load.")
        body = {name: item for name, item in value.items() if name != "checksum"}
        try:
            if set(value) != _FIELDS or checksum_of(body) != value["checksum"]:
                raise ModelFormatError(f"{path} was changed after it was written: its checksum does not match.")
            return cls._from_body(body)
        except TranscriptFormatError:
            raise
        except RecoupError as error:
            raise ModelFormatError(f"{path} cannot be used: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise ModelFormatError(f"{path} holds a field of the wrong type.") from None

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        transcript, found = Transcript.from_json(body["transcript"]), body["found_bounds"]
        seed = whole_number(body["seed"], "seed", low=0, high=2**256)
        model, algorithm = cls._told_by(transcript, body["postprocess"], seed)
        choice(body["postprocess"], "postprocess", model._postprocesses())
        if body["method"] is not None:
            choice(body["method"], "method", METHODS)
        sizes = {"d": model._domain.n_columns, "k": getattr(algorithm, "n_clusters", None)}
        sizes["k"] = sizes["k"] or getattr(algorithm, "n_components", 1)
        if set(body["learnt"]) != set(cls._learnt):
            raise ModelFormatError("the model has learnt other things than its kind does.")
        for name, shape in cls._learnt.items():
            expected = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in shape)
            setattr(model, name, _checked(body["learnt"][name], name, expected, model._domain, sizes["k"] or 1))
        model.transcript_, model._seed, model._method = transcript, seed, body["method"]
        model.privacy_ = transcript.privacy
        if found is not None:
            model.bounds_ = FoundBounds(Transcript.from_json(found))
            both = PrivacyStatement.together([transcript.privacy, model.bounds_.privacy])
            model.privacy_ = replace(both, counted=transcript.privacy.counted)
        model._restored(algorithm)
        if not algorithm.has_centers:
            if not isinstance(body["declined"], str | None):
                raise ModelFormatError("why the model was not inferred must be text.")
            model.declined_ = body["declined"]
        return model

    def _restored(self, algorithm: Algorithm) -> None:
        """Set what follows from the parameters and what was learnt."""
        if hasattr(self, "get_feature_names_out"):
            self._n_features_out = len(getattr(self, next(name for name, of in self._learnt.items() if of[0] == "k")))

    def __getattr__(self, name: str) -> Any:
        # Of a loaded model: found again when it is asked for.
        if name not in _LAZY or "_method" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        transcript, method = self.transcript_, self._method
        inferred = None if method is None else infer(transcript, method, random_state=self._seed, warn=False)
        self.verdict_ = verdict_of(transcript, inferred, refit(transcript, inferred, random_state=self._seed))
        self.inferred_ = inferred
        return vars(self)[name]

    # ---- for people ----
    def summary(self) -> Any:
        """What was learnt as a pandas data frame, in the user's units: a row per cluster, component or coefficient.

        Guarantees: a function of the transcript, as all that was learnt; sizes are those that the report tells.
        """
        check_is_fitted(self)
        of, rows, columns = self._summary(column_names(self._domain))
        return frame(columns, self.privacy_.warning, rows, of)

    def _summary(self, names: list[str]) -> Summary:
        """What was learnt as a table; the names are those of the columns."""
        raise NotImplementedError

    def describe(self, *, level: float = 0.9, intervals: bool = True) -> str:
        """What the report says about the result, as plain text.

        Args:
            level: the wanted coverage of the intervals of clusters, which decide what is said of them.
            intervals: whether to compute them, which takes a few seconds.
        """
        from recoup.report.sections import answer, clusters, privacy

        check_is_fitted(self)
        transcript, found = self.transcript_, getattr(self, "bounds_", None)
        clustered = transcript is None or algorithm_from_json(transcript.algorithm).has_centers
        promise = privacy.content(self.privacy_, clusters=clustered, found=None if found is None else found.privacy)
        lines = [] if promise["warning"] is None else [f"{part}" for part in promise["warning"].values()]
        if transcript is None:
            lines.append(f"{self.algorithm} released the centres alone, and nothing that speaks for or against them.")
        else:
            inferred, lines = self.inferred_, [*lines, self.verdict_.in_words]
            if clustered:
                sure = None if inferred is None or not intervals else level
                result = answer.result_of(transcript, self.cluster_centers_, inferred, level=sure, seed=self._seed)
                lines += [f"Cluster {one['label']}: {one['sentence']}" for one in clusters.content(result)["clusters"]]
            else:
                fitted = refit(transcript, inferred, random_state=self._seed)
                said = answer.content(transcript, fitted, inferred, seed=self._seed) or {"rows": []}
                lines += [said[part] for part in ("lead", "note") if said.get(part)]
                for row in said["rows"]:
                    values = (f"{a} {b:.5g}" for a, b in zip(said["columns"], row["values"], strict=True))
                    lines.append(f"{row['label']}: {', '.join(values)}")
        return "\n".join([*lines, *promise["words"]])

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write what a program without Recoup needs to predict: plain numbers as JSON or, of clusters, ONNX (`.onnx`).

        ONNX needs the package onnx (`pip install recoup[onnx]`), and columns that are numbers in a box.

        Guarantees: holds what was learnt, the public scales and the privacy statement, and nothing else.
        """
        from recoup.estimators.export import exported

        check_is_fitted(self)
        write_whole(path, exported(self, path))


def check_is_fitted(model: object) -> None:
    """Refuse a model that has learnt nothing, as scikit-learn does, which is imported only here."""
    from sklearn.utils.validation import check_is_fitted as check

    check(model)


def verdict_of(transcript: Transcript, inferred: InferredDataset | None, answer: Array) -> Verdict | None:
    """Whether an answer can be trusted: of clusters by these, of others as inference said."""
    clustered = algorithm_from_json(transcript.algorithm).has_centers
    if inferred is not None and not clustered:
        return inferred.verdict
    return judge(transcript, inferred, answer)


def _checked(value: Any, name: str, shape: tuple[Any, ...], domain: Domain, k: int) -> Any:
    """What was learnt, from a file; of another shape, or outside of the bounds, it is refused."""
    if not shape:
        if not isinstance(value, list) or any(type(row) is not int or not 0 <= row < k for row in value):
            raise ModelFormatError(f"the model's {name} must be numbers of clusters.")
        return value
    array = np.array(value)
    if array.dtype.kind not in "if" or array.shape != shape or not np.isfinite(array).all():
        raise ModelFormatError(f"the model's {name} must be finite numbers of shape {shape}.")
    if name in ("cluster_centers_", "means_", "mean_"):
        low, high = np.array(domain.low), np.array(domain.high)
        room = 1e-9 * (high - low)
        if (array < low - room).any() or (array > high + room).any():
            raise ModelFormatError(f"the model's {name} lie outside of its bounds.")
    return array.astype(np.float64)
