"""A row of a reference table as a scenario of ours: which file, and what of it the row's columns say."""

from __future__ import annotations

from collections.abc import Mapping

from headend.papers import reference
from headend.papers.reference import Row
from headend.papers.runner import Settings

HANDSHAKE = frozenset({"p1_fig06_07", "p1_fig18"})
"""Tables in which the sender of the data connects first.

ns-2.35 does so with a SYN, which can be lost and which it counts among the packets sent. The harness of the 1996 rules
starts its transfer after one propagation round trip, in which nothing is lost.
"""

BACK_OFF: Mapping[str, Settings] = {
    "ns2": {"rto_max": "60s", "rto_backoff_max": 1 << 16},
    "ns96": {"rto_max": "1000s", "rto_backoff_max": 64},
}
"""ns-2.35 backs off until the timeout is `maxrto_` (60 s; `rfc2988_ true`); ns of 1996 up to 64 times, without a limit
in seconds. BSD, and so our figures, do both: 64 times and 64 s. Only the highest losses get so far."""

STAGGER = "20ms"
"""ns-2's three connections start at random within a round trip."""

VIA = {"sf": "store", "bf": "buffer"}
"""How a row of the proxies paper says what its proxy does."""


TUNING: Mapping[str, float | str | None] = {"rloss": 0, "remrtt_s": None, "proxy": "none"}
PROXIES: Mapping[str, float | str | None] = {
    "win_pkts": 15,
    "iw": 1,
    "delack": 1,
    "wire_B": 536,
    "rtt_s": 0.02,
    "cmq": None,
    "nconn": 1,
}
"""What the papers' files have as these columns say, and no row sets."""


def scenario(row: Row) -> tuple[str, Settings]:
    """The name of the file, and its fields that the row's columns set.

    Raises ValueError for a row that is of something else than the file.
    """
    if row.fig.startswith("p1_"):
        _hold(row, TUNING)
        return "reference", _cable(row)
    _hold(row, PROXIES)
    if row.series.startswith("local alone"):
        _hold(row, {"uloss": 0, "rloss": 0, "proxy": "none"})
        return "fig11_local", {**_sender(row, "proxy"), "links.cable.down.loss": percent(row.dloss)}
    return ("fig11_remote" if row.series.startswith("remote alone") else "reference"), _split(row)


def _hold(row: Row, columns: Mapping[str, float | str | None]) -> None:
    for column, value in columns.items():
        if (found := getattr(row, column)) != value:
            raise ValueError(
                f"{row.fig}: {row.series} at {row.x:g} has {column} {found!r}, and the paper's scenario files {value!r}"
            )


def packets_of_another(row: Row) -> int:
    """How many packets our count has beyond the row's: a split connection's row counts those over the cable alone.

    Nothing is lost on the Internet in any of them, so each leaves the server once.
    """
    return 0 if row.proxy not in VIA else -(-int(row.bytes) // int(row.wire_B))


def percent(chance: float) -> str:
    """A probability as a scenario has it."""
    return f"{round(chance * 100, 6):g}%"


def _cable(row: Row) -> Settings:
    """The tuning paper's: a server at the headend, and a PC."""
    mss, headers = _packet(row)
    size = f"{mss}B"
    return {
        **_sender(row, "server"),
        "nodes.server.tcp.headers": headers,
        "nodes.pc.tcp.headers": headers,
        "nodes.server.tcp.mss": size,
        "nodes.pc.tcp.mss": size,
        "nodes.server.tcp.initial_window_segments": int(row.iw),
        "nodes.pc.tcp.receive_buffer": f"{int(row.win_pkts) * mss}B",
        "nodes.pc.tcp.delayed_ack": 2 if row.delack else 1,
        "links.cable.down.loss": percent(row.dloss),
        "links.cable.up.loss": percent(row.uloss),
        "links.cable.delay": _one_way(row.rtt_s),
        "links.cable.modem_buffer": "unlimited" if row.cmq is None else f"{int(row.cmq)} packets",
        "flows.get.bytes": f"{int(row.bytes)}B",
        "flows.get.handshake": row.fig in HANDSHAKE and row.sim == "ns2",
        "flows.get.count": int(row.nconn),
        "flows.get.stagger": "0s" if row.nconn == 1 else STAGGER,
    }


def _split(row: Row) -> Settings:
    """The proxies paper's: a server on the Internet, a proxy at the headend, and a PC."""
    if row.remrtt_s is None:
        raise ValueError(f"{row.fig}: {row.series} at {row.x:g} has no round trip to the server")
    internet: Settings = {
        "links.internet.delay": _one_way(row.remrtt_s),
        "links.internet.loss": percent(row.rloss),
        "links.internet.back.loss": "0%",
        "flows.get.bytes": f"{int(row.bytes)}B",
    }
    if row.series.startswith("remote alone"):
        return {**_sender(row, "server"), **internet}
    cable: Settings = {"links.cable.down.loss": percent(row.dloss), "links.cable.up.loss": percent(row.uloss)}
    if row.proxy not in VIA:
        return {**_sender(row, "server"), **internet, **cable}
    prompt: Settings = {"nodes.proxy.remote.tcp.delayed_ack": 1} if "no delack at proxy" in row.series else {}
    wide: Settings = {"nodes.proxy.local.tcp.initial_window_segments": 2} if "iw2 local" in row.series else {}
    return {
        **{f"nodes.server.tcp.{field}": value for field, value in {**BACK_OFF[row.sim], **_era(row)}.items()},
        **_sender(row, "proxy.local"),
        **internet,
        **cable,
        **prompt,
        **wide,
        # "The remote window restarts at 1 after an idle RTO" (README of the tables, of buffer and forward).
        "nodes.server.tcp.idle_restart": row.proxy == "bf",
        "flows.get.via": "proxy",
        "nodes.proxy.relay": VIA[row.proxy],
    }


def _sender(row: Row, node: str) -> Settings:
    """What the row says of the sender whose packets may be lost."""
    tick_ms = round(row.tick_s * 1000)
    fields = {
        **_era(row),
        "dupack_threshold": int(row.numdup),
        "rto_tick": f"{tick_ms}ms",
        "rto_min": f"{2 * tick_ms}ms",
        **BACK_OFF[row.sim],
    }
    return {f"nodes.{node}.tcp.{field}": value for field, value in fields.items()}


def _era(row: Row) -> Settings:
    return {"era": reference.ERA[row.sim]}


def _one_way(round_trip_s: float) -> str:
    return f"{round(round_trip_s * 1e6 / 2)}us"


def _packet(row: Row) -> tuple[int, str]:
    """Payload, and whether headers are counted: only Figure 14's table has both."""
    if row.series.startswith("MSS "):
        payload = int(row.series.split()[1])
        return payload, "uncounted" if payload == row.wire_B else "ipv4"
    return int(row.wire_B), "uncounted"
