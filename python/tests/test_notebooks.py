"""The notebooks run from the first cell to the last, and what they assert holds."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("svg")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_five_notebooks():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_the_repository(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    space: dict[str, object] = {}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{path.name} cell {number}", "exec"), space)
