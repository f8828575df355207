"""What tests of several parts share."""

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


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
