"""A congestion control in Python: AIMD as in RFC 5681, and a gentler one, on a line that loses packets.

python examples/controllers/aimd.py
"""

import headend


class Aimd:
    """Additive increase, multiplicative decrease; bytes throughout."""

    decrease = 0.5

    def __init__(self, setup):
        """Begin with the initial window."""
        self.mss = setup.mss_bytes
        self.window = setup.initial_window_bytes
        self.threshold = float("inf")

    def on_ack(self, ack):
        """Slow start below the threshold; above it a segment more each round trip."""
        if not (ack.may_grow and ack.window_limited):
            return
        if self.window < self.threshold:
            self.window += ack.acked_bytes
        else:
            self.window += self.mss * ack.acked_bytes / self.window

    def on_loss(self, loss):
        """Once for each window of data that has lost something."""
        self.threshold = max(loss.in_flight_bytes * self.decrease, 2 * self.mss)
        self.window = self.threshold

    def on_timeout(self, loss):
        """Begin anew."""
        if not loss.repeated:
            self.threshold = max(loss.in_flight_bytes * self.decrease, 2 * self.mss)
        self.window = self.mss


class Gentle(Aimd):
    """A smaller decrease."""

    decrease = 0.8


SCENARIO = """
duration = "30s"
[nodes.server]
[nodes.pc]
[links.line]
between = ["server", "pc"]
rate = "10Mbit/s"
delay = "20ms"
queue = "33 packets"
loss = "0.5%"
back = { loss = "0%" }
[flows.get]
from = "server"
to = "pc"
"""

if __name__ == "__main__":
    result = headend.run(
        SCENARIO,
        controllers={"aimd": Aimd, "gentle": Gentle},
        sweep={"nodes.server.personality": ["linux", "aimd", "gentle"]},
        runs=3,
    )
    for name in ("linux", "aimd", "gentle"):
        rows = result.flows.where(**{"nodes.server.personality": name})
        print(f"{name:8}{rows['goodput_bps'].mean() / 1e6:6.2f} Mbit/s")
