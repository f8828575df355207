"""S.-Y. Wang, "Decoupling Control From Data for TCP Congestion Control", PhD thesis, 1999."""

from typing import Any

from headend.papers.decoupling import (
    equations,
    factor,
    friendly,
    implementations,
    legacy,
    lossless,
    media,
    migration,
    protect,
    ring,
    sending,
    signals,
    sockets,
    streams,
    trunks,
    web,
)
from headend.papers.figure import Figure

TITLE = "Decoupling Control From Data for TCP Congestion Control"
PAPER = "S.-Y. Wang, PhD thesis, Harvard University, 1999"

FIGURES: tuple[Figure[Any], ...] = (
    streams.FIGURE_5,
    streams.WEIGHTS_TABLE,
    trunks.OVERHEAD,
    sending.SENDING,
    *implementations.FIGURES,
    trunks.TT1A,
    trunks.TT1B,
    trunks.TT1C,
    web.TT2,
    *ring.FIGURES,
    lossless.LOSSLESS,
    migration.PUBLIC,
    *legacy.FIGURES,
    migration.MIXED,
    friendly.FRIENDLY,
    *signals.FIGURES,
    equations.EQUATIONS,
    *sockets.FIGURES,
    factor.FACTOR,
    *protect.FIGURES,
    *media.FIGURES,
)
"""In the order of the thesis."""
