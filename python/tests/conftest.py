"""What tests of several parts share."""

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def headend_binary():
    """The command that was built last, of either profile; tests that need it fail where there is none."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for profile in ("release", "debug") if (path := target / profile / "headend").exists()]
    assert built, f"no headend below {target}: cargo build"
    return max(built, key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; tests that need one are skipped where there is none."""
    if not CHROMIUM.exists():
        pytest.skip("no Chromium: as root, apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()
