"""A release that others can check and find: signatures by OpenSSH, and an entry for the registry of deployments."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace

import jsonschema
import numpy as np
import pandas as pd
import pytest
import yaml
from pictures import GOLDEN
from typer.testing import CliRunner

from recoup import Box, Category, KMeans, Number, Schema, Transcript, release
from recoup.cli.app import app
from recoup.cli.output import ExitCode
from recoup.deployment import as_yaml, deployment_entry, missing
from recoup.errors import TranscriptError

# What the registry requires, as its schema stood in 2026: names, the lists of words, and nothing that it does not know.
TEXT = {"type": "string", "pattern": "^(?!TODO)"}


def section(required, **optional):
    fields = required | optional
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


CURATOR = section({"data_curator_name": TEXT, "data_curator_type": {"enum": ["Government", "Industry", "Nonprofit"]}})
BASIC = section(
    {
        "name": TEXT,
        "data_curators": {"type": "array", "items": CURATOR, "minItems": 1},
        "description": TEXT,
        "intended_use": TEXT,
        "data_product_type": {"enum": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"]},
        "data_product_region": TEXT,
        "publication_date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
    },
    data_product_sector={"enum": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]},
)
NUMBER = {"type": "number"}
REGISTRY = section(
    {
        "url_slug": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "deployment": section(
            {
                "basic": BASIC,
                "administrative": section(
                    {
                        "status": {"enum": ["Draft", "Pending", "Approved"]},
                        "registry_authors": {"type": "array", "items": TEXT, "minItems": 1},
                        "tier": {"enum": [1, 2, 3]},
                    },
                    evidence_sources={"type": "object"},
                ),
            },
            dp_variant=section(
                {},
                variant_name={"enum": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]},
                data_domain=TEXT,
                unprotected_quantities=TEXT,
            ),
            privacy_loss=section(
                {},
                privacy_unit=TEXT,
                privacy_unit_details=TEXT,
                number_of_privacy_units={"type": "integer"},
                privacy_parameters=section({}, epsilon=NUMBER, delta=NUMBER, rho=NUMBER),
                privacy_parameters_details=TEXT,
            ),
            deployment_model=section(
                {},
                model_name={"enum": ["Local", "Central", "Shuffle", "Federated", "Varies"]},
                model_name_details=TEXT,
                trust_assumptions=TEXT,
                actors=TEXT,
                release_type={"enum": ["One release", "Many releases"]},
                release_type_details=TEXT,
                data_source_type={"enum": ["Static", "Dynamic"]},
                data_source_type_details=TEXT,
                access_type={"enum": ["Interactive", "Non-interactive"]},
                access_type_details=TEXT,
            ),
            implementation=section(
                {},
                preprocessing_and_hyperparameter_tuning=TEXT,
                mechanisms=TEXT,
                composition=TEXT,
                post_processing=TEXT,
                justification=TEXT,
                utility=TEXT,
                additional_information=TEXT,
            ),
        ),
    }
)
CHECK = jsonschema.Draft202012Validator(REGISTRY)
KNOWN = {
    "name": 'Ages: "all" & more',
    "curator": "A <hospital>",
    "curator_type": "Nonprofit",
    "use": "Planning\nof wards",
    "region": "Žemaitija",
    "sector": "Healthcare",
    "date": "2026-11-18",
    "author": "Somebody",
}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def path(tmp_path):
    rows = np.random.default_rng(0).uniform(size=(300, 2))
    target = tmp_path / "t.json"
    release(KMeans(n_clusters=2, n_rounds=2), rows, domain=Box([0, 0], [1, 1]), epsilon="0.5", path=target)
    return target


# ---- the registry ----
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_an_entry_has_all_that_the_registry_requires(path, tmp_path, suffix):
    entry = tmp_path / f"entry{suffix}"
    words = [word for name, value in KNOWN.items() for word in (f"--{name.replace('_', '-')}", value)]
    result = run("registry", path, "-o", entry, *words)
    assert result.exit_code == 0, result.stderr
    read = yaml.safe_load(entry.read_text(encoding="utf-8"))
    assert read == deployment_entry(Transcript.load(path), **KNOWN)
    assert [error.message for error in CHECK.iter_errors(read)] == []
    assert read["deployment"]["basic"]["name"] == KNOWN["name"]
    assert Transcript.load(path).checksum in read["deployment"]["implementation"]["additional_information"]
    assert "TODO" not in entry.read_text(encoding="utf-8")


def test_what_only_the_curator_knows_is_asked_for_and_does_not_pass(path, tmp_path):
    result = run("registry", path, "-o", tmp_path / "entry.yaml", "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    basic = [f"deployment.basic.{name}" for name in ("name", "intended_use", "data_product_region", "publication_date")]
    curators = "deployment.basic.data_curators"
    parts = [f"{curators}.data_curator_name", f"{curators}.data_curator_type"]
    authors = "deployment.administrative.registry_authors"
    assert sorted(said["missing"]) == sorted([*basic, *parts, authors])
    paths = [[part for part in error.path if isinstance(part, str)] for error in CHECK.iter_errors(said["entry"])]
    assert {".".join(path) for path in paths} == set(said["missing"])
    assert "To be filled in" in result.stderr


def test_the_variant_unit_and_parameters_are_those_of_the_release():
    table = pd.DataFrame({"who": ["a", "b"], "age": [1.0, 2.0], "ward": ["x", "y"]})
    columns = Schema({"age": Number(0, 99, unit="years"), "ward": Category(["x", "y", 'z "q"'])})
    terms = {"domain": columns, "epsilon": 1, "delta": 1e-6, "mechanism": "gaussian", "person": "who"}
    made = release(KMeans(n_clusters=2, n_rounds=2), table, **terms, n_records=50)
    loss = deployment_entry(made, **KNOWN)["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert loss["privacy_unit"] == "Person-level"
    assert "one person, by column 'who'" in loss["privacy_unit_details"]
    assert "about 50 rows" in loss["privacy_parameters_details"]
    variant = deployment_entry(made, **KNOWN)["deployment"]["dp_variant"]
    assert variant["variant_name"] == "Approximate DP"
    assert "ward" in variant["data_domain"]
    assert yaml.safe_load(as_yaml(deployment_entry(made, **KNOWN))) == deployment_entry(made, **KNOWN)


def test_an_imported_release_says_that_it_is_claimed():
    claimed = replace(Transcript.load(GOLDEN / "foreign-v2.json"), simulated=False)
    entry = deployment_entry(claimed, **KNOWN)
    assert "not verified by Recoup" in entry["deployment"]["privacy_loss"]["privacy_unit_details"]
    with pytest.raises(TranscriptError, match="simulated"):
        deployment_entry(Transcript.load(GOLDEN / "lloyd-v3.json"))


ODD = ["a: b", "- x", "\x7f\x85\u2028", "#", "", "null", "1e3", "naïve 😀", "'\"\\", "a\nb\tc", "\ufeff\xa0"]


@pytest.mark.parametrize("text", ODD)
def test_any_text_comes_back_from_yaml(text):
    value = {"a": [text, {"b": text}], "c": {"d": 1e-6, "e": 3, "f": True}}
    assert yaml.safe_load(as_yaml(value)) == value
    assert missing({"a": [{"b": "TODO"}], "c": "x"}) == ["a.b"]


def test_an_entry_replaces_nothing_that_was_paid_for(path, tmp_path):
    shutil.copy(path, tmp_path / "copy.json")
    assert run("registry", path, "-o", tmp_path / "copy.json").exit_code != 0
    assert run("registry", path, "-o", tmp_path / "entry.txt").exit_code == 2


# ---- checksums and signatures ----
def test_a_whole_transcript_is_verified_and_a_changed_one_is_not(path):
    result = run("verify", path, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["checksum"] == json.loads(path.read_text())["checksum"]
    assert "Not signed" in run("verify", path).stdout
    path.write_text(path.read_text().replace('"1/2"', '"1/4"'))
    assert run("verify", path).exit_code == ExitCode.TRANSCRIPT


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_a_signature_tells_who_made_a_transcript(path, tmp_path):
    def keygen(*words):
        subprocess.run(["ssh-keygen", *map(str, words)], check=True, capture_output=True)

    for name in ("curator", "stranger"):
        keygen("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", tmp_path / name)
    public = (tmp_path / "curator.pub").read_text()
    (tmp_path / "signers").write_text(f"curator@example.org {public}")
    keygen("-Y", "sign", "-f", tmp_path / "curator", "-n", "recoup", path)
    given = ("--signature", f"{path}.sig", "--signers", tmp_path / "signers")
    result = run("verify", path, *given, "--signer", "curator@example.org")
    assert result.exit_code == 0, result.stderr
    assert "Signed by curator@example.org" in result.stdout
    assert run("verify", path, *given, "--signer", "other@example.org").exit_code == ExitCode.TRANSCRIPT
    assert run("verify", path, *given, "--signer", "-Y").exit_code == 2
    assert run("verify", path, *given).exit_code == 2
    # By another key, for another purpose, of another transcript: each is refused.
    signature = path.with_name("t.json.sig")
    good, text = signature.read_text(), path.read_text()
    for key, purpose in (("stranger", "recoup"), ("curator", "file")):
        signature.unlink()
        keygen("-Y", "sign", "-f", tmp_path / key, "-n", purpose, path)
        assert run("verify", path, *given, "--signer", "curator@example.org").exit_code == ExitCode.TRANSCRIPT
    signature.write_text(good)
    path.write_text(text.replace("\n", "\n ", 1))  # the same values in another file
    assert Transcript.load(path).checksum in text
    assert run("verify", path, *given, "--signer", "curator@example.org").exit_code == ExitCode.TRANSCRIPT
