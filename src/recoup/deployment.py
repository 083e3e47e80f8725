"""An entry for the registry of differentially private deployments, from a transcript alone.

The registry (https://github.com/opendp/deployments-registry-data) collects what curators say about their releases, as
YAML in a fixed schema. A transcript knows the half of it that is hard to get right: variant, unit, parameters,
mechanisms, composition. What only the curator knows is asked for; what nobody said is `TODO`, which the registry's own
check refuses where it matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from recoup.algorithms.registry import described
from recoup.errors import TranscriptError
from recoup.mixed import Mixed
from recoup.privacy.statement import REPLACED
from recoup.transcript.transcript import Transcript

TODO: Final = "TODO"
_LAWS: Final = {"laplace": "integer Laplace mechanism", "gaussian": "discrete Gaussian mechanism"}
_MEASURES: Final = {
    "pure": "epsilons of the rounds add up (sequential composition, adaptive)",
    "gaussian": "rounds of Gaussian noise add up exactly, as Gaussian differential privacy, and are then converted",
    "zcdp": "rounds add up in zero-concentrated differential privacy, and are then converted",
}
_MOST_COLUMNS: Final = 40


def deployment_entry(
    transcript: Transcript,
    *,
    name: str = TODO,
    curator: str = TODO,
    curator_type: str = TODO,
    description: str | None = None,
    use: str = TODO,
    region: str = TODO,
    sector: str | None = None,
    date: str = TODO,
    author: str = TODO,
) -> dict[str, Any]:
    """What the registry of deployments asks about a release, as far as its transcript and the arguments say it.

    Args:
        transcript: what was released; with simulated noise it is refused, as it is no deployment.
        name: of the data product.
        curator: who publishes it.
        curator_type: "Government", "Industry" or "Nonprofit".
        description: of the data product; by default what the transcript is of.
        use: what it is meant for.
        region: that the data describe, or whose laws apply.
        sector: of the registry's list; none leaves it out.
        date: of publication, YYYY-MM-DD.
        author: of the entry.

    Returns:
        The entry; `as_yaml` writes it.

    Guarantees: a function of its arguments; it costs no privacy.

    >>> from recoup import Box, KMeans, release
    >>> released = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=0.5)
    >>> deployment_entry(released)["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 0.5}
    """
    if transcript.simulated:
        raise TranscriptError("the noise of this transcript was simulated: it is not private, and no deployment.")
    if not transcript.rounds:
        raise TranscriptError("the transcript has no rounds: nothing was released.")
    promise, context = transcript.privacy, transcript.context
    kind = str(transcript.algorithm.get("type"))
    what = described(kind) or kind
    claimed = " Claimed by whoever made the answers, not verified by Recoup." if transcript.imported else ""
    product = f"Noisy answers of {what}, and what was inferred from them at no further cost."
    basic = {
        "name": name,
        "data_curators": [{"data_curator_name": curator, "data_curator_type": curator_type}],
        "description": description or product,
        "intended_use": use,
        "data_product_type": "Machine learning model",
        "data_product_region": region,
        **({} if sector is None else {"data_product_sector": sector}),
        "publication_date": date,
    }
    neighbours = f"Two tables are neighbours if they differ by adding or removing {promise.unit}"
    if promise.neighbours == REPLACED:
        neighbours = f"Two tables are neighbours if they differ by replacing {promise.unit}"
    persons = f"; {promise.per_person}" if promise.per_person else ""
    declared = "" if context.n_records is None else f" The curator declared about {context.n_records} rows."
    loss = {
        "privacy_unit": "Person-level" if context.person is not None else "Record-level",
        "privacy_unit_details": f"{neighbours}{persons}.{claimed}",
        "privacy_parameters": {"epsilon": promise.epsilon} | ({"delta": promise.delta} if promise.delta else {}),
        "privacy_parameters_details": f"Of the whole release; {promise.spent:.6g} of epsilon was spent.{declared}",
    }
    drawn = "made elsewhere" if transcript.imported else "drawn by OpenDP, on integers, seeded by the operating system"
    rounds = ", ".join(f"{r.query.type_name} (size {r.query.size})" for r in transcript.rounds)
    implementation = {
        "preprocessing_and_hyperparameter_tuning": "Bounds and columns were declared, not learnt from the records; "
        "records are clipped to them. A release that found bounds privately, if there was one, has its own entry.",
        "mechanisms": f"The {_LAWS[context.mechanism]}, {drawn}, in {len(transcript.rounds)} rounds: {rounds}. "
        f"Implemented by Recoup {transcript.library_version}.",
        "composition": f"Within the release, {_MEASURES[context.budget_measure]}. "
        f"Beside other releases of the same records it is counted {promise.counted or 'as its curator says'}.",
        "post_processing": "A data set is inferred from all noisy answers, and the model refitted on it; both read the "
        "transcript alone.",
        "additional_information": f"Transcript {transcript.checksum}.",
    }
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "todo",
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Approximate DP" if promise.delta else "Pure DP",
                "data_domain": f"Tables of any number of records. {_columns(transcript)}",
                "unprotected_quantities": "None in the transcript. Names, bounds and declared values are public.",
            },
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": "The curator sees the records. Whoever reads the release need not be trusted.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": implementation,
            "administrative": {"status": "Draft", "registry_authors": [author], "tier": 3},
        },
    }


def _columns(transcript: Transcript) -> str:
    domain = transcript.context.domain
    if isinstance(domain, Mixed):
        words = [
            f"{name}: {json.dumps(column, ensure_ascii=False)}" for name, column in domain.schema.to_json().items()
        ]
    else:
        names = domain.columns or tuple(f"column {j}" for j in range(domain.n_columns))
        ends = zip(names, domain.low, domain.high, strict=True)
        words = [f"{name} from {low:g} to {high:g}" for name, low, high in ends]
    more = f"; and {len(words) - _MOST_COLUMNS} more columns" if len(words) > _MOST_COLUMNS else ""
    return f"Columns: {'; '.join(words[:_MOST_COLUMNS])}{more}."


def missing(entry: object, path: str = "") -> list[str]:
    """The fields of an entry that somebody still has to fill in, by their paths.

    >>> missing({"a": {"b": ["TODO"]}, "c": 1})
    ['a.b']
    """
    if isinstance(entry, Mapping):
        return [place for name, item in entry.items() for place in missing(item, f"{path}.{name}".lstrip("."))]
    if isinstance(entry, list):
        return [place for item in entry for place in missing(item, path)]
    return [path] if entry == TODO else []


def as_yaml(value: Any, indent: int = 0) -> str:
    """Mappings, lists, texts and numbers as YAML in blocks.

    >>> print(as_yaml({"a": {"b": [{"c": 0.5}, "x: y"]}}))
    a:
      b:
        -
          c: 0.5
        - "x: y"
    """
    space, lines = "  " * indent, []
    pairs = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    for name, item in pairs:
        head = f"{space}-" if name is None else f"{space}{name}:"
        nested = isinstance(item, Mapping) or (isinstance(item, Sequence) and not isinstance(item, str))
        lines.append(f"{head}\n{as_yaml(item, indent + 1)}" if nested else f"{head} {_scalar(item)}")
    return "\n".join(lines)


def _scalar(value: object) -> str:
    """JSON is YAML, too, but for letters that end a line there, and for numbers such as 1e-06, which are text there."""
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return re.sub(
        "[\x7f-\xa0\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False)
    )
