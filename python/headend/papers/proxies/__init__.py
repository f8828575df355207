"""R. Cohen and S. Ramanathan, "Using Proxies to Enhance TCP Performance over Hybrid Fiber Coaxial Networks"."""

from headend.papers.figure import Study
from headend.papers.proxies import factors, loss, split, today

TITLE = "Using Proxies to Enhance TCP Performance over Hybrid Fiber Coaxial Networks"
PAPER = "R. Cohen, Technion, and S. Ramanathan, Hewlett-Packard Laboratories"

FIGURES: tuple[Study, ...] = (*split.FIGURES, *loss.FIGURES, *factors.FIGURES, *today.FIGURES)
"""In the order of the paper, then what goes beyond it."""
