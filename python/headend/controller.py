"""What a congestion control in Python is: `headend.run(scenario, controllers={"mine": Mine})`."""

from __future__ import annotations

from typing import Protocol

from headend._native import Ack, Loss, Setup

__all__ = ["Ack", "Controller", "Loss", "Setup"]


class Controller(Protocol):
    """The controller of one connection.

    A class is called with a `Setup` for each connection: `mss_bytes` and `initial_window_bytes`. After that, and after
    each call of a method, `window` is looked at, and `pacing_rate` if there is one: the bit/s at which to spread
    packets, or None for bursts. Both are of payload. A method `on_idle` is called, if there is one, when the connection
    was idle for longer than its retransmission time-out.
    """

    window: float
    """The congestion window in bytes, one segment at least."""

    def on_ack(self, ack: Ack) -> None:
        """New data was acknowledged: `now_s`, `acked_bytes`, `in_flight_bytes` before it, `rtt_s` if it gave a sample.

        `may_grow` is false in loss recovery; `window_limited` is true if the window, and not the application or the
        peer, bounded what was in flight (RFC 7661 s4.1).
        """

    def on_loss(self, loss: Loss) -> None:
        """Losses were found, once for each window of data: `now_s`, `in_flight_bytes`. A mark counts as one."""

    def on_timeout(self, loss: Loss) -> None:
        """The retransmission timer expired; `repeated` is true if it did for the same data before (RFC 5681 s3.1)."""
