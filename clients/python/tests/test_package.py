"""The package is what its sources and its page say."""

from __future__ import annotations

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

PACKAGE = ROOT / "clients" / "python"


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_generated_modules_are_those_of_the_protocol(tmp_path: Path) -> None:
    subprocess.run([PACKAGE / "generate", "--python", sys.executable, tmp_path], check=True)
    committed = PACKAGE / "src" / "espalier" / "v1"
    made = {file.name: file.read_text() for file in (tmp_path / "espalier" / "v1").iterdir()}
    assert made == {file.name: file.read_text() for file in committed.glob("*_pb2.py*")}, "run clients/python/generate"
    assert len(made) == 6


@pytest.mark.parametrize("page", [PACKAGE / "README.md", ROOT / "docs" / "clients.md"], ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, system: System) -> None:
    examples = blocks(page)
    assert examples
    for example in examples:
        code = example.replace("http://127.0.0.1:50051", system.gateway)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{example}\n{done.stderr}"
        assert done.stdout.strip(), example


def test_all_that_is_exported_is_there() -> None:
    assert sorted(espalier.__all__) == espalier.__all__
    assert all(getattr(espalier, name).__doc__ or name in ("Event", "Prompt") for name in espalier.__all__)


def test_it_says_that_it_is_typed() -> None:
    assert (Path(espalier.__file__).parent / "py.typed").exists()
