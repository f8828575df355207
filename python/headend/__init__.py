"""TCP over lossy access networks, simulated: a Rust engine and the studies made with it."""

from headend._native import __version__

__all__ = ["__version__"]
