"""R. Cohen and S. Ramanathan, "Using Proxies to Enhance TCP Performance over Hybrid Fiber Coaxial Networks"."""

from typing import Any

from headend.papers.figure import Figure
from headend.papers.proxies import factors, loss, split, today

TITLE = "Using Proxies to Enhance TCP Performance over Hybrid Fiber Coaxial Networks"
PAPER = "R. Cohen, Technion, and S. Ramanathan, Hewlett-Packard Laboratories"

FIGURES: tuple[Figure[Any], ...] = (*split.FIGURES, *loss.FIGURES, *factors.FIGURES, *today.FIGURES)
"""In the order of the paper, then what goes beyond it."""
