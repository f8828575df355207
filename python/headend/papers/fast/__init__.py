"""L. Andrew, I. Atov, D. Kennedy, B. Wydrowski, "Evaluation of FAST TCP in Low-Speed DOCSIS-based Access Networks"."""

from typing import Any

from headend.papers.fast import ablation, ping, throughput, windows
from headend.papers.figure import Figure

TITLE = "Evaluation of FAST TCP in Low-Speed DOCSIS-based Access Networks"
PAPER = "L. L. H. Andrew, I. Atov, D. Kennedy and B. Wydrowski, TENCON 2005"

FIGURES: tuple[Figure[Any], ...] = (
    ping.FIG2,
    throughput.FIG4,
    *windows.ONE_FLOW,
    throughput.FIG9,
    throughput.FIG10,
    windows.FIG11,
    windows.EQUATION,
    *ablation.FIGURES,
)
"""In the order of the paper, and then what its authors asked for: where the modem's delay comes from."""
