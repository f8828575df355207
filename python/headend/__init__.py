"""TCP over lossy access networks, simulated: a Rust engine and the studies made with it."""

from headend._native import ScenarioError, SimulationError, __version__
from headend.results import Capture, Definition, Result, Table, columns
from headend.scenario import Scenario
from headend.simulation import run
from headend.store import Store, scan

__all__ = [
    "Capture",
    "Definition",
    "Result",
    "Scenario",
    "ScenarioError",
    "SimulationError",
    "Store",
    "Table",
    "__version__",
    "columns",
    "run",
    "scan",
]
