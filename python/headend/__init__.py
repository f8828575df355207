"""TCP over lossy access networks, simulated: a Rust engine and the studies made with it."""

from headend._native import ScenarioError, SimulationError, __version__
from headend.results import Capture, Result, Table
from headend.simulation import run

__all__ = ["Capture", "Result", "ScenarioError", "SimulationError", "Table", "__version__", "run"]
