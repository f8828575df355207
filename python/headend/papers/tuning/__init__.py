"""R. Cohen and S. Ramanathan, "Tuning TCP for High Performance in Hybrid Fiber Coaxial Broadband Access Networks"."""

from typing import Any

from headend.papers.figure import Figure
from headend.papers.tuning import acks, buffers, loss, remedies, sizes, today

TITLE = "Tuning TCP for High Performance in Hybrid Fiber Coaxial Broadband Access Networks"
PAPER = "R. Cohen and S. Ramanathan, Hewlett-Packard Laboratories"

FIGURES: tuple[Figure[Any], ...] = (
    *loss.FIGURES,
    *sizes.FIGURES,
    *buffers.FIGURES,
    *acks.FIGURES,
    *remedies.FIGURES,
    *today.FIGURES,
)
"""In the order of the paper, then what goes beyond it."""
