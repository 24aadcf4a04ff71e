"""The package is what its sources and its page say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import espalier
from conftest import ROOT

if TYPE_CHECKING:
    from conftest import System

PAGES = ("README.md", "docs/clients.md", "clients/python/README.md")
PACKAGE = ROOT / "clients" / "python"


WITHOUT_NUMPY = """
from espalier import Client

with Client("http://127.0.0.1:50051") as client:
    answer = client.generate("small", "2 + 3 =", max_tokens=2, logprobs=1)
    assert answer.tokens[1].logprob <= 0
    try:
        answer.logprobs
    except ModuleNotFoundError as error:
        print(error)
"""


def blocks(page: Path) -> list[str]:
    """Those that can be run."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run(python: Path, code: str, system: System) -> str:
    command = [str(python), "-W", "error", "-c", code.replace("http://127.0.0.1:50051", system.gateway)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def test_the_generated_modules_are_those_of_the_protocol(tmp_path: Path) -> None:
    subprocess.run([PACKAGE / "generate", "--python", sys.executable, tmp_path], check=True)
    committed = PACKAGE / "src" / "espalier" / "v1"
    made = {file.name: file.read_text() for file in (tmp_path / "espalier" / "v1").iterdir()}
    assert made == {file.name: file.read_text() for file in committed.glob("*_pb2.py*")}, "run clients/python/generate"
    assert len(made) == 6


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, system: System) -> None:
    examples = blocks(ROOT / page)
    assert examples
    for example in examples:
        assert run(Path(sys.executable), example, system).strip(), example


def test_the_examples_are_typed(tmp_path: Path) -> None:
    for number, code in enumerate(code for page in PAGES for code in blocks(ROOT / page)):
        (tmp_path / f"example{number}.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_wheel_works_where_nothing_else_is_installed(tmp_path: Path, system: System) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", os.environ["ESPALIER_WHEEL"]], check=True)
    assert "tokens per round" in run(python, blocks(PACKAGE / "README.md")[0], system)
    assert "'numpy'" in run(python, WITHOUT_NUMPY, system)


def test_all_that_is_exported_is_there() -> None:
    assert sorted(espalier.__all__) == espalier.__all__
    exported = [getattr(espalier, name) for name in espalier.__all__]
    assert all(one.__doc__ for one in exported if isinstance(one, type))


def test_it_says_that_it_is_typed() -> None:
    assert (Path(espalier.__file__).parent / "py.typed").exists()
