"""Rules about the source that no single test of behaviour would notice being broken."""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "recoup"
ALLOWED_RANDOM = {"Generator", "RandomState", "SeedSequence", "default_rng", "BitGenerator", "PCG64"}


def legacy_random(text):
    """Uses of NumPy's global generator."""
    found = set(re.findall(r"\b(?:np|numpy)\.random\.(\w+)", text)) - ALLOWED_RANDOM
    return found | set(re.findall(r"from numpy\.random import (\w+)", text)) - ALLOWED_RANDOM


def test_the_global_generator_is_never_used():
    assert legacy_random("np.random.seed(0); np.random.default_rng()") == {"seed"}
    for path in SOURCE.rglob("*.py"):
        assert not legacy_random(path.read_text(encoding="utf-8")), path


def test_secure_noise_takes_no_seed():
    text = (SOURCE / "privacy" / "mechanism.py").read_text(encoding="utf-8")
    body = text[text.index("class SecureNoise") : text.index("class SimulatedNoise")]
    assert "seed" not in body.replace("there is no seed", "")
    assert "random" not in body


def imported_by(statement):
    script = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_the_root_imports_only_the_standard_library():
    roots = {name.split(".")[0] for name in imported_by("import recoup; recoup.__version__; dir(recoup)")}
    assert "recoup" in roots
    assert roots - {"recoup"} <= sys.stdlib_module_names
    assert not roots & {"numpy", "numba", "opendp", "asyncio", "email", "sqlite3"}


def test_a_release_does_not_import_what_it_does_not_need():
    modules = imported_by("from recoup import release")
    assert "numpy" in modules
    assert not {"opendp.prelude", "matplotlib", "dp_accounting", "pandas", "polars", "typer", "sklearn"} & set(modules)


def test_every_public_name_can_be_loaded():
    import recoup

    for name in recoup.__all__:
        assert getattr(recoup, name) is not None
    assert set(recoup.__all__) == set(dir(recoup))


def test_only_the_curator_adds_noise():
    for path in SOURCE.rglob("*.py"):
        if path.parts[-2:] not in {("curator", "curator.py"), ("rivals", "base.py"), ("privacy", "mechanism.py")}:
            assert ".noise.release(" not in path.read_text(encoding="utf-8")
            assert "mechanism.release(" not in path.read_text(encoding="utf-8")


def test_every_kernel_is_kept_by_the_digest_of_all():
    for path in SOURCE.rglob("*.py"):
        assert "njit" not in path.read_text(encoding="utf-8") or path.name == "compiled.py", path
    for path in (SOURCE / "kernels").glob("*.py"):
        # What is compiled in must be in the digest; the number of threads is asked for in Python.
        text = path.read_text(encoding="utf-8").replace("from recoup._threads import n_threads\n", "")
        assert not re.search(r"(from|import) recoup\.(?!kernels\b)", text), path
