"""Section 4.3: the window and the throughput that bit errors leave to a TCP. Equations (3) to (5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headend.papers.claim import Claim, about, criterion
from headend.papers.figure import CaseFigure
from headend.papers.model import Criterion
from headend.papers.stats import Estimate


def packet_error_rate(ber: float, packet_bytes: float) -> float:
    """Equation (3): bit errors times bits. The thesis leaves out that two errors spoil a packet once."""
    return ber * packet_bytes * 8


def window(per: float) -> float:
    """Equation (4) solved for W: 1 / PER = (3/8) W^2 + (3/4) W."""
    return (-0.75 + math.sqrt(0.75**2 + 1.5 / per)) / 0.75


def throughput(window_packets: float, packet_bytes: float, rtt_s: float) -> float:
    """Equation (5) [B/s]: (3/4) W PS / RTT + (3/2) PS / RTT."""
    return (0.75 * window_packets + 1.5) * packet_bytes / rtt_s


@dataclass(frozen=True, slots=True)
class Worked:
    """The numbers of the thesis's examples."""

    per_576: float
    w_576: float
    w_52: float
    w_rs2: float
    mat: float


def work_out() -> Worked:
    """Both examples: 3e-5 and 576 bytes; 2e-6, 1500 bytes and 100 ms."""
    w_rs2 = window(packet_error_rate(2e-6, 52))
    return Worked(
        per_576=packet_error_rate(3e-5, 576),
        w_576=window(packet_error_rate(3e-5, 576)),
        w_52=window(packet_error_rate(3e-5, 52)),
        w_rs2=w_rs2,
        mat=throughput(w_rs2, 1500, 0.1),
    )


def _measure(worked: Worked) -> list[Criterion]:
    return [
        criterion("PER, 576 B", "0.14", Estimate.exact(worked.per_576), about(0.14, 0.01)),
        criterion("W, 576 B", "about 4", Estimate.exact(worked.w_576), about(4, 1)),
        criterion("W, 52 B", "about 14", Estimate.exact(worked.w_52), about(14, 1)),
        criterion("W, BER 2e-6", "56", Estimate.exact(worked.w_rs2), about(56, 1)),
        criterion("MAT", "652500 B/s", Estimate.exact(worked.mat), about(652_500, 1), unit="B/s"),
    ]


def _reason(worked: Worked, _: Sequence[Criterion]) -> str:
    windows = f"{worked.w_576:.3g}, {worked.w_52:.3g}, {worked.w_rs2:.3g}"
    return f"The equations give {worked.per_576:.3g}, {windows} and {worked.mat:.0f} B/s."


def _text(worked: Worked) -> str:
    text_4, text_14 = (8e-3 * throughput(w, 576, 0.54) for w in (4, 14))
    second_term = 8e-3 * throughput(0, 576, 0.54)
    return (
        f"PER = BER PS 8: {packet_error_rate(3e-5, 576):.3g} for 576 bytes at 3e-5, "
        f"{packet_error_rate(3e-5, 52):.3g} for 52 bytes; {packet_error_rate(2e-6, 52):.3g} for 52 bytes "
        f"at 2e-6.\n\n"
        f"1 / PER = (3/8) W² + (3/4) W: W = {worked.w_576:.3g}, {worked.w_52:.3g} and {worked.w_rs2:.3g}.\n\n"
        f"MAT = (3/4) W PS / RTT + (3/2) PS / RTT: {worked.mat:.0f} B/s for 1500 bytes and 100 ms.\n\n"
        f"For 576 bytes and 540 ms the same equation gives {text_4:.1f} kbit/s with W = 4 and {text_14:.1f} "
        f"kbit/s with W = 14, where the text has 26 and 119. Without its second term it gives "
        f"{text_4 - second_term:.1f} and {text_14 - second_term:.1f}.\n"
    )


EQUATIONS: CaseFigure[Worked] = CaseFigure(
    id="equations",
    title="What bit errors leave to a TCP",
    caption="Equations (3) to (5) with the thesis's numbers.",
    section="4.3",
    kind="derivation",
    always=0,
    run=lambda *_: work_out(),
    draw=_text,
    claims=[
        Claim(
            id="decoupling.eq345",
            measure=_measure,
            reason=_reason,
            tolerance="Within 15% or half a unit of the last printed digit: the thesis rounds on the way.",
        )
    ],
)
