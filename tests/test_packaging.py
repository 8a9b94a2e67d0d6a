"""What is installed: the wheel's content, the names it takes, and what importing costs in modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_FOLDERS = {"ditto_fast": "ditto_fast", "export": "ditto_fast/export", "kernels": "ditto_fast/kernels"}


def _modules(folder: str) -> set[str]:
    """The .py files of a package folder, as a wheel names them."""
    return {
        f"{PACKAGE_FOLDERS[folder]}/{path.relative_to(ROOT / folder).as_posix()}"
        for path in (ROOT / folder).rglob("*.py")
    }


def test_every_package_on_disk_is_listed():
    """setuptools leaves an unlisted sub-package out without a word."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    on_disk = {
        str(Path(module).parent).replace("/", ".")
        for folder in PACKAGE_FOLDERS
        for module in _modules(folder)
        if module.endswith("__init__.py")
    }
    assert listed == on_disk


def test_a_fresh_wheel_holds_the_packages_and_nothing_on_top(tmp_path: Path):
    source = tmp_path / "source"
    source.mkdir()
    for name in (*PACKAGE_FOLDERS, "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    assert set.union(*(_modules(folder) for folder in PACKAGE_FOLDERS)) == {n for n in names if n.endswith(".py")}
    assert "ditto_fast/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"ditto_fast"}


def test_encoding_needs_no_science_packages():
    """scipy and matplotlib belong to the eval extra: the encoder does without."""
    code = "import sys, ditto_fast; print({'scipy', 'matplotlib', 'ditto_fast.evaluation'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stdout + result.stderr


@pytest.mark.parametrize("name", ["kernels", "export"])
def test_no_top_level_name_is_taken(name: str):
    spec = find_spec(name)
    assert spec is None or ROOT not in Path(str(spec.origin)).parents


@pytest.mark.parametrize("name", ["kernels", "export"])
def test_the_folders_refuse_their_bare_name(name: str):
    result = subprocess.run([sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True)
    assert f"is ditto_fast.{name}, not {name}" in result.stderr


def test_the_core_never_reaches_up():
    """Arrows point down: the core imports neither export nor kernels nor what only they need.

    evaluation/with_torch is left out: it is the one folder of the core for what needs torch (a checkpoint's states
    graph, BERT-flow), and is imported by the functions that need it.
    """
    heavy = (
        "torch",
        "transformers",
        "triton",
        "optimum",
        "onnx",
        "huggingface_hub",
        "ditto_fast.export",
        "ditto_fast.kernels",
    )
    core = sorted(
        f"ditto_fast.{path.relative_to(ROOT / 'ditto_fast').with_suffix('').as_posix().replace('/', '.')}"
        for path in (ROOT / "ditto_fast").rglob("*.py")
        if path.name != "__init__.py"
        and path.parent.name not in ("integrations", "with_torch")  # an adapter's library imports what it likes
    )
    banned = set(heavy)
    code = f"import importlib, sys; [importlib.import_module(n) for n in {core}]; print({banned} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stdout + result.stderr
