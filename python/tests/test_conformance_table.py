"""The conformance table names tests; every one must exist, and every conformance test must be named."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/reference/conformance.md"
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)\s*\(")


def rust_tests_in(place: str) -> set[str]:
    """Names of the Rust tests in a file, or in the files below a folder."""
    paths = [ROOT / place] if place.endswith(".rs") else sorted((ROOT / place).rglob("*.rs"))
    sources = [path.read_text() for path in paths]
    assert sources, f"{place} holds Rust files"
    return {name for source in sources for name in TEST.findall(source)}


def named_in_table() -> set[str]:
    """What the rows of the table quote."""
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}


def test_every_test_in_the_table_exists() -> None:
    assert named_in_table() - rust_tests_in("crates") == set()


def test_every_conformance_test_and_oracle_is_in_the_table() -> None:
    written = rust_tests_in("crates/engine/tests/conformance") | rust_tests_in("crates/sim/tests/oracles.rs")
    assert len(written) > 100
    assert written - named_in_table() == set()
