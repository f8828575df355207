import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import headend

ROOT = Path(__file__).parents[2]


def test_the_package_has_the_version_of_the_native_module():
    assert headend.__version__ == headend._native.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", headend.__version__)


def test_pages_name_the_rust_that_the_workspace_needs_and_the_version():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Rust {workspace['rust-version']} or later" in (ROOT / page).read_text(), page
    assert f"\nversion: {workspace['version']}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(("said", "words"), [("echo cargo 1.65.0", "this is Rust 1.65.0"), ("exit 1", "no cargo")])
def test_an_old_compiler_is_told_of_before_anything_is_built(tmp_path, said, words):
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\n{said}\n")
    cargo.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / "scripts" / "rust-version"], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "rustc-web" in done.stderr
