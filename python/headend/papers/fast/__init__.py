"""L. Andrew, I. Atov, D. Kennedy, B. Wydrowski, "Evaluation of FAST TCP in Low-Speed DOCSIS-based Access Networks"."""

from headend.papers.fast import open_claims, simple, windows
from headend.papers.figure import Study

TITLE = "Evaluation of FAST TCP in Low-Speed DOCSIS-based Access Networks"
PAPER = "L. L. H. Andrew, I. Atov, D. Kennedy and B. Wydrowski, TENCON 2005"

FIGURES: tuple[Study, ...] = (
    simple.FIG4,
    *windows.ONE_FLOW,
    simple.FIG9,
    simple.FIG10,
    windows.FIG11,
    windows.EQUATION,
    open_claims.TABLE,
)
"""In the order of the paper; on the simple link, the DOCSIS ones being open."""
