"""The tables of a scenario as classes, a typed attribute for each field; `headend.Scenario` is made of them.

Made from the reader's own table of fields, by `HEADEND_BLESS=1 cargo test -p headend-scenario published`: change nothing here.
A rate is text such as "25Mbit/s", a size "8KB", a span of time "20ms", a probability "1%" or 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from headend.section import Section, Tables

__all__ = ["Root", "Node", "Side", "Tcp", "Personality", "Link", "Direction", "Channel", "DocsisChannel", "Modem", "Loss", "Rate", "Delay", "Flow", "Size", "Socket", "Queue", "Circuit"]


class Root(Section):
    """A table of a scenario: top level."""

    _kind: ClassVar[str] = "scenario"
    _fields: ClassVar[tuple[str, ...]] = ("title", "seed", "runs", "duration", "start_jitter", "host_jitter", "nodes", "links", "flows", "circuits", "interval", "personalities", "sweep",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"nodes": ("tables", "Node"), "links": ("tables", "Link"), "flows": ("tables", "Flow"), "circuits": ("tables", "Circuit"), "personalities": ("tables", "Personality")}

    title: str | None
    """One line for people."""
    seed: int | None
    """Seed of the first run. Run `r` of every point, from 0, uses `seed + r`. Default: 1."""
    runs: int | None
    """Runs of every point, each with a seed of its own. Default: 1."""
    duration: str | None
    """Limit in virtual time; a run ends earlier when every flow has ended. Default: 1000s."""
    start_jitter: str | None
    """Flows begin later by a random time of up to this, another in each run. Default: 0, and 1 ms in `headend compare`."""
    host_jitter: str | None
    """Packets take longer by a random time of up to this on each plain link, as small delays of hosts vary. Simulated only: real hosts have their own. Default: 0, and 20 us in `headend compare`."""
    nodes: Tables[Node]
    """Hosts, routers and proxies, by name. Required."""
    links: Tables[Link]
    """What joins the nodes, by name. Required."""
    flows: Tables[Flow]
    """Who sends what to whom, by name. Without any it is links alone: `headend emulate` takes them, and nothing else does."""
    circuits: Tables[Circuit]
    """Circuits of TCP decoupling between routers, by name."""
    interval: str | None
    """With it, a table says what each flow and link did in each such span of time. Default: no table of intervals."""
    personalities: Tables[Personality]
    """Personalities of the scenario's own, by name."""
    sweep: dict[str, Any] | None
    """Fields to vary: lists of values by path. Every combination is a point."""

    def __init__(
        self,
        *,
        title: str | None = None,
        seed: int | None = None,
        runs: int | None = None,
        duration: str | None = None,
        start_jitter: str | None = None,
        host_jitter: str | None = None,
        nodes: Mapping[str, Node | Mapping[str, Any]] | None = None,
        links: Mapping[str, Link | Mapping[str, Any]] | None = None,
        flows: Mapping[str, Flow | Mapping[str, Any]] | None = None,
        circuits: Mapping[str, Circuit | Mapping[str, Any]] | None = None,
        interval: str | None = None,
        personalities: Mapping[str, Personality | Mapping[str, Any]] | None = None,
        sweep: dict[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class Node(Section):
    """A table of a scenario: nodes."""

    _kind: ClassVar[str] = "node"
    _fields: ClassVar[tuple[str, ...]] = ("kind", "count", "personality", "tcp", "relay", "limit", "local_link", "local", "remote",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"tcp": ("table", "Tcp"), "local": ("table", "Side"), "remote": ("table", "Side")}

    kind: Literal["host", "router", "proxy"] | None
    """A host runs connections and applications; a router passes packets on. A proxy splits the connections of the flows that go `via` it, and passes on other packets as a router. Default: host."""
    count: int | None
    """How many of these nodes there are: `pc` then stands for `pc-0`, `pc-1` and so on, and a link or a flow that names `pc[]` is one for each of them. Default: one, of just that name."""
    personality: str | None
    """With kind host: The host's TCP, by name. Default: linux."""
    tcp: Tcp
    """With kind host: What differs from the personality, on this host, as a sender and as a receiver."""
    relay: Literal["buffer", "store"] | None
    """With kind proxy: `buffer`: what arrives on one side is queued for the other, whose full socket buffer holds it back. `store`: what arrives is stored, and no sender waits for the other side. Default: buffer."""
    limit: str | None
    """With kind proxy: With `relay = 'buffer'`: bytes that the proxy may hold for each connection and direction, beyond the socket buffers. Default: 0B."""
    local_link: str | None
    """With kind proxy: The link that leads to the subscribers. Connections over it are local, all others remote. Required."""
    local: Side
    """With kind proxy: The proxy's TCP towards the subscribers."""
    remote: Side
    """With kind proxy: The proxy's TCP towards the servers."""

    def __init__(
        self,
        *,
        kind: Literal["host", "router", "proxy"] | None = None,
        count: int | None = None,
        personality: str | None = None,
        tcp: Tcp | Mapping[str, Any] | None = None,
        relay: Literal["buffer", "store"] | None = None,
        limit: str | None = None,
        local_link: str | None = None,
        local: Side | Mapping[str, Any] | None = None,
        remote: Side | Mapping[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class Side(Section):
    """A table of a scenario: local and remote."""

    _kind: ClassVar[str] = "side"
    _fields: ClassVar[tuple[str, ...]] = ("personality", "tcp",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"tcp": ("table", "Tcp")}

    personality: str | None
    """The TCP of this side, by name. Default: linux."""
    tcp: Tcp
    """What differs from the personality."""

    def __init__(
        self,
        *,
        personality: str | None = None,
        tcp: Tcp | Mapping[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class Tcp(Section):
    """A table of a scenario: tcp."""

    _kind: ClassVar[str] = "tcp"
    _fields: ClassVar[tuple[str, ...]] = ("mss", "headers", "initial_window_segments", "initial_ssthresh_segments", "abc_limit_segments", "socket_buffer", "send_buffer", "receive_buffer", "window_scaling", "timestamps", "sack", "ecn", "dupack_threshold", "limited_transmit", "recovery", "controller", "hystart", "fast_alpha", "fast_gamma_percent", "fast_update_rounds", "fast_check_seconds", "vegas_alpha", "vegas_beta", "vegas_gamma", "backfill_without", "window_in_segments", "frto", "undo_spurious", "rto_tick", "rto_heartbeat", "rto_initial", "rto_min", "rto_min_on_variance", "rto_max", "rto_backoff_max", "delayed_ack", "quick_acks", "delayed_ack_timeout", "delayed_ack_timeout_max", "delayed_ack_heartbeat", "delayed_ack_gap_fill_at_once", "delayed_ack_out_of_order_at_once", "window_update", "idle_restart", "nagle", "era", "era_repeat", "era_halve_usable", "era_floor_segments", "era_fast_retransmit_backs_off", "era_nearest_tick", "era_restart_at_initial_window", "era_inflate_when_refused", "era_handshake_ack_opens_window",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    mss: str | None
    """Maximum segment size offered and used; options come off the payload (RFC 6691). Default: the personality's."""
    headers: Literal["ipv4", "uncounted"] | None
    """What a packet's length counts: `ipv4` as on a real link, `uncounted` nothing on data and 40 bytes on a segment without data, as in ns and the papers. Default: the personality's."""
    initial_window_segments: int | Literal["rfc6928"] | None
    """Initial window in segments; `rfc6928`: min(10 MSS, max(2 MSS, 14600 B)). Default: the personality's."""
    initial_ssthresh_segments: int | Literal["unlimited"] | None
    """Window at which slow start ends before any loss was seen, in segments; `unlimited`: none (RFC 5681 s3.1). Default: the personality's."""
    abc_limit_segments: int | Literal["unlimited"] | None
    """Most that one ACK adds to the window in slow start, in segments: 1 (RFC 5681), 2 (RFC 3465), `unlimited` for all that it acknowledges (Linux). Default: the personality's."""
    socket_buffer: str | None
    """Both buffers at once: `send_buffer` and `receive_buffer`. Default: the personality's."""
    send_buffer: str | None
    """Send buffer: bytes written and not yet acknowledged. Default: the personality's."""
    receive_buffer: str | None
    """Receive buffer: the largest window ever offered. Default: the personality's."""
    window_scaling: bool | None
    """Offer window scaling (RFC 7323, section 2). Default: the personality's."""
    timestamps: bool | None
    """Offer timestamps (RFC 7323, section 3). Default: the personality's."""
    sack: bool | None
    """Offer selective acknowledgements (RFC 2018). Default: the personality's."""
    ecn: Literal["off", "accept", "request"] | None
    """Explicit congestion notification (RFC 3168), so that queues can mark packets instead of dropping them: `request` it when opening a connection and accept it, `accept` it if the peer asks for it, or `off`. Default: the personality's."""
    dupack_threshold: int | None
    """Duplicate ACKs that mean a loss: 3 (RFC 5681), 1 is the tuning paper's 'super' fast retransmit. Default: the personality's."""
    limited_transmit: bool | None
    """Send new data on the first two duplicate ACKs (RFC 3042). Default: the personality's."""
    recovery: Literal["tahoe", "reno", "newreno", "sack", "rack-tlp"] | None
    """How losses are found and repaired. `tahoe`: Fast retransmit, then slow start (4.3BSD-Tahoe, 1988). `reno`: Fast retransmit and fast recovery, left at the first new ACK (4.3BSD-Reno; RFC 5681). `newreno`: Fast recovery that stays until all that was sent before it is acknowledged (RFC 6582). `sack`: Scoreboard and pipe (RFC 2018, RFC 6675) with proportional rate reduction (RFC 6937, RFC 9937). `rack-tlp`: Time-based detection and tail-loss probes (RFC 8985) with proportional rate reduction. Default: the personality's."""
    controller: Literal["reno", "cubic", "fast", "vegas", "bbr", "bbr3", "backfill"] | None
    """Congestion control. `reno`: Half of the window after a loss, a segment more each round trip (RFC 5681). `cubic`: A window that follows a cubic of the time since the last loss (RFC 9438). `fast`: A window that keeps a set number of its own packets in the queues of its path (Jin, Wei and Low 2004). `vegas`: Between alpha and beta packets of its own in the queues of its path (Brakmo and Peterson 1995). `bbr`: A pace and a window that follow a model of the path's rate and delay (Cardwell, Cheng et al. 2016, version 1). `bbr3`: BBR with bounds that follow from losses, version 3 (draft-ietf-ccwg-bbr-06). `backfill`: The larger of a CUBIC window, which sees every loss, and one that fills the line as long as the queue is short. Default: the personality's."""
    hystart: Literal["off", "classic", "plus-plus"] | None
    """With `controller = 'cubic'`: How slow start ends before a loss: `classic` as in Linux, `plus-plus` as in RFC 9406. Default: the personality's."""
    fast_alpha: int | Literal["auto"] | None
    """With `controller = 'fast'`: The number of its own packets that the flow aims to have in the queues of its path; `auto` is 20, and as many more as it sends in 2 ms. Default: the personality's."""
    fast_gamma_percent: int | None
    """With `controller = 'fast'`: The share of the way to its aim that the window goes with every update, in percent. Default: the personality's."""
    fast_update_rounds: int | None
    """With `controller = 'fast'`: Round trips from one update of the window to the next. Default: the personality's."""
    fast_check_seconds: int | None
    """With `controller = 'fast'`: Seconds after which a base round trip that was not seen again is checked with the queue drained, as a longer route asks for; 0 never checks, as published. Default: the personality's."""
    vegas_alpha: int | None
    """With `controller = 'vegas'`: The window grows with fewer packets of its own in the queues of its path. Default: the personality's."""
    vegas_beta: int | None
    """With `controller = 'vegas'`: The window shrinks with more packets of its own in the queues of its path. Default: the personality's."""
    vegas_gamma: int | None
    """With `controller = 'vegas'`: Slow start ends with more packets of its own in the queues of its path. Default: the personality's."""
    backfill_without: Literal["none", "thinning", "look", "probe", "alpha", "ceiling", "haste", "plateau", "pacing"] | None
    """With `controller = 'backfill'`: The guard of the law that is switched off, in studies of what each is for. Default: the personality's."""
    window_in_segments: bool | None
    """Windows in whole segments, computed as Linux does, and not in bytes, as the RFCs do. Default: the personality's."""
    frto: bool | None
    """Take a time-out back that turns out to have been spurious (RFC 5682); with `rack-tlp` only. Default: the personality's."""
    undo_spurious: bool | None
    """Take a reduction of the window back when timestamps (RFC 3522) or D-SACK (RFC 3708) show that its retransmissions were spurious; with `rack-tlp` only. Default: the personality's."""
    rto_tick: str | None
    """Clock granularity of the retransmission timer: round trips are measured in whole ticks (RFC 6298, section 4). Default: the personality's."""
    rto_heartbeat: bool | None
    """Retransmission timers fire on the ticks of a free-running clock (BSD), and not exactly when due. Default: the personality's."""
    rto_initial: str | None
    """RTO before the first measurement (RFC 6298, section 2.1). Default: the personality's."""
    rto_min: str | None
    """Smallest RTO (RFC 6298, section 2.4). Default: the personality's."""
    rto_min_on_variance: bool | None
    """`rto_min` bounds the variance term instead of the sum, as Linux does. Default: the personality's."""
    rto_max: str | None
    """Largest RTO after back-off (RFC 6298, section 2.5). Default: the personality's."""
    rto_backoff_max: int | None
    """Largest back-off factor (BSD and ns: 64). Default: the personality's."""
    delayed_ack: int | None
    """Acknowledge at once when this many segments wait: 2 (RFC 5681), 1 turns delayed ACK off. Default: the personality's."""
    quick_acks: int | None
    """So many of the first segments are acknowledged one by one, and again after a long pause (Linux: 17). Default: the personality's."""
    delayed_ack_timeout: str | None
    """Longest delay of an ACK. Default: the personality's."""
    delayed_ack_timeout_max: str | None
    """Where segments come far apart the delay grows with their distance up to this, but not beyond a round trip (Linux: 200 ms); at most `delayed_ack_timeout`: it is fixed. Default: the personality's."""
    delayed_ack_heartbeat: bool | None
    """The delay ends on the ticks of a free-running clock (BSD), so that it is anything up to the time-out. Default: the personality's."""
    delayed_ack_gap_fill_at_once: bool | None
    """A segment that fills a gap, wholly or in part, is acknowledged at once (RFC 5681, section 4.2). Default: the personality's."""
    delayed_ack_out_of_order_at_once: bool | None
    """Out-of-order segments are acknowledged at once (RFC 5681, section 4.2); Tahoe's receiver delays those too. Default: the personality's."""
    window_update: Literal["two-segments", "doubled"] | None
    """When a window that opens, because the application reads, is told of without data to acknowledge: `two-segments` once it can grow by two segments or half of the buffer (4.4BSD), `doubled` once it would be twice what is still offered (Linux). Default: the personality's."""
    idle_restart: bool | None
    """Return to the restart window after an idle RTO (RFC 5681, section 4.1). Default: the personality's."""
    nagle: bool | None
    """Hold small segments back while data is unacknowledged (RFC 1122, section 4.2.3.4). Default: the personality's."""
    era: Literal["ns-2.35", "ns-1996", "bsd-4.4", "rfc"] | None
    """Loss-recovery rules of the 1990s that later RFCs settled, all at once; the `era_` fields change one. Default: the personality's."""
    era_repeat: Literal["always", "unless-timed-out", "never"] | None
    """Whether a fast retransmit may happen again in a window of data that has seen a loss (RFC 6582: `never`). Default: the personality's."""
    era_halve_usable: bool | None
    """Halve the usable window in whole segments (BSD, ns) and not the bytes in flight (RFC 5681). Default: the personality's."""
    era_floor_segments: int | None
    """Smallest window after a halving, in segments. Default: the personality's."""
    era_fast_retransmit_backs_off: bool | None
    """Every fast retransmit doubles the RTO's back-off until a fresh sample, from the next timer on (ns of December 1996, inferred). Default: the personality's."""
    era_nearest_tick: bool | None
    """Round trips are rounded to the nearest tick (ns of December 1996); else the ticks between are counted (BSD). Default: the personality's."""
    era_restart_at_initial_window: bool | None
    """After a time-out the window is the initial window and not one segment (ns of December 1996). Default: the personality's."""
    era_inflate_when_refused: bool | None
    """Duplicate ACKs beyond the threshold inflate the window even if fast retransmit was refused (ns of 1996). Default: the personality's."""
    era_handshake_ack_opens_window: bool | None
    """The ACK that ends the handshake opens the accepting end's window by a segment (BSD; tuning paper, section 6.1). Default: the personality's."""

    def __init__(
        self,
        *,
        mss: str | None = None,
        headers: Literal["ipv4", "uncounted"] | None = None,
        initial_window_segments: int | Literal["rfc6928"] | None = None,
        initial_ssthresh_segments: int | Literal["unlimited"] | None = None,
        abc_limit_segments: int | Literal["unlimited"] | None = None,
        socket_buffer: str | None = None,
        send_buffer: str | None = None,
        receive_buffer: str | None = None,
        window_scaling: bool | None = None,
        timestamps: bool | None = None,
        sack: bool | None = None,
        ecn: Literal["off", "accept", "request"] | None = None,
        dupack_threshold: int | None = None,
        limited_transmit: bool | None = None,
        recovery: Literal["tahoe", "reno", "newreno", "sack", "rack-tlp"] | None = None,
        controller: Literal["reno", "cubic", "fast", "vegas", "bbr", "bbr3", "backfill"] | None = None,
        hystart: Literal["off", "classic", "plus-plus"] | None = None,
        fast_alpha: int | Literal["auto"] | None = None,
        fast_gamma_percent: int | None = None,
        fast_update_rounds: int | None = None,
        fast_check_seconds: int | None = None,
        vegas_alpha: int | None = None,
        vegas_beta: int | None = None,
        vegas_gamma: int | None = None,
        backfill_without: Literal["none", "thinning", "look", "probe", "alpha", "ceiling", "haste", "plateau", "pacing"] | None = None,
        window_in_segments: bool | None = None,
        frto: bool | None = None,
        undo_spurious: bool | None = None,
        rto_tick: str | None = None,
        rto_heartbeat: bool | None = None,
        rto_initial: str | None = None,
        rto_min: str | None = None,
        rto_min_on_variance: bool | None = None,
        rto_max: str | None = None,
        rto_backoff_max: int | None = None,
        delayed_ack: int | None = None,
        quick_acks: int | None = None,
        delayed_ack_timeout: str | None = None,
        delayed_ack_timeout_max: str | None = None,
        delayed_ack_heartbeat: bool | None = None,
        delayed_ack_gap_fill_at_once: bool | None = None,
        delayed_ack_out_of_order_at_once: bool | None = None,
        window_update: Literal["two-segments", "doubled"] | None = None,
        idle_restart: bool | None = None,
        nagle: bool | None = None,
        era: Literal["ns-2.35", "ns-1996", "bsd-4.4", "rfc"] | None = None,
        era_repeat: Literal["always", "unless-timed-out", "never"] | None = None,
        era_halve_usable: bool | None = None,
        era_floor_segments: int | None = None,
        era_fast_retransmit_backs_off: bool | None = None,
        era_nearest_tick: bool | None = None,
        era_restart_at_initial_window: bool | None = None,
        era_inflate_when_refused: bool | None = None,
        era_handshake_ack_opens_window: bool | None = None,
    ) -> None:
        self._take(locals())


class Personality(Section):
    """A table of a scenario: personalities."""

    _kind: ClassVar[str] = "personality"
    _fields: ClassVar[tuple[str, ...]] = ("base", "mss", "headers", "initial_window_segments", "initial_ssthresh_segments", "abc_limit_segments", "socket_buffer", "send_buffer", "receive_buffer", "window_scaling", "timestamps", "sack", "ecn", "dupack_threshold", "limited_transmit", "recovery", "controller", "hystart", "fast_alpha", "fast_gamma_percent", "fast_update_rounds", "fast_check_seconds", "vegas_alpha", "vegas_beta", "vegas_gamma", "backfill_without", "window_in_segments", "frto", "undo_spurious", "rto_tick", "rto_heartbeat", "rto_initial", "rto_min", "rto_min_on_variance", "rto_max", "rto_backoff_max", "delayed_ack", "quick_acks", "delayed_ack_timeout", "delayed_ack_timeout_max", "delayed_ack_heartbeat", "delayed_ack_gap_fill_at_once", "delayed_ack_out_of_order_at_once", "window_update", "idle_restart", "nagle", "era", "era_repeat", "era_halve_usable", "era_floor_segments", "era_fast_retransmit_backs_off", "era_nearest_tick", "era_restart_at_initial_window", "era_inflate_when_refused", "era_handshake_ack_opens_window",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    base: Literal["tahoe-1988", "bsd-reno-1996", "hfc-tuned", "newreno", "sack", "linux"] | None
    """The built-in personality from which this one differs. Default: linux."""
    mss: str | None
    """Maximum segment size offered and used; options come off the payload (RFC 6691). Default: the personality's."""
    headers: Literal["ipv4", "uncounted"] | None
    """What a packet's length counts: `ipv4` as on a real link, `uncounted` nothing on data and 40 bytes on a segment without data, as in ns and the papers. Default: the personality's."""
    initial_window_segments: int | Literal["rfc6928"] | None
    """Initial window in segments; `rfc6928`: min(10 MSS, max(2 MSS, 14600 B)). Default: the personality's."""
    initial_ssthresh_segments: int | Literal["unlimited"] | None
    """Window at which slow start ends before any loss was seen, in segments; `unlimited`: none (RFC 5681 s3.1). Default: the personality's."""
    abc_limit_segments: int | Literal["unlimited"] | None
    """Most that one ACK adds to the window in slow start, in segments: 1 (RFC 5681), 2 (RFC 3465), `unlimited` for all that it acknowledges (Linux). Default: the personality's."""
    socket_buffer: str | None
    """Both buffers at once: `send_buffer` and `receive_buffer`. Default: the personality's."""
    send_buffer: str | None
    """Send buffer: bytes written and not yet acknowledged. Default: the personality's."""
    receive_buffer: str | None
    """Receive buffer: the largest window ever offered. Default: the personality's."""
    window_scaling: bool | None
    """Offer window scaling (RFC 7323, section 2). Default: the personality's."""
    timestamps: bool | None
    """Offer timestamps (RFC 7323, section 3). Default: the personality's."""
    sack: bool | None
    """Offer selective acknowledgements (RFC 2018). Default: the personality's."""
    ecn: Literal["off", "accept", "request"] | None
    """Explicit congestion notification (RFC 3168), so that queues can mark packets instead of dropping them: `request` it when opening a connection and accept it, `accept` it if the peer asks for it, or `off`. Default: the personality's."""
    dupack_threshold: int | None
    """Duplicate ACKs that mean a loss: 3 (RFC 5681), 1 is the tuning paper's 'super' fast retransmit. Default: the personality's."""
    limited_transmit: bool | None
    """Send new data on the first two duplicate ACKs (RFC 3042). Default: the personality's."""
    recovery: Literal["tahoe", "reno", "newreno", "sack", "rack-tlp"] | None
    """How losses are found and repaired. `tahoe`: Fast retransmit, then slow start (4.3BSD-Tahoe, 1988). `reno`: Fast retransmit and fast recovery, left at the first new ACK (4.3BSD-Reno; RFC 5681). `newreno`: Fast recovery that stays until all that was sent before it is acknowledged (RFC 6582). `sack`: Scoreboard and pipe (RFC 2018, RFC 6675) with proportional rate reduction (RFC 6937, RFC 9937). `rack-tlp`: Time-based detection and tail-loss probes (RFC 8985) with proportional rate reduction. Default: the personality's."""
    controller: Literal["reno", "cubic", "fast", "vegas", "bbr", "bbr3", "backfill"] | None
    """Congestion control. `reno`: Half of the window after a loss, a segment more each round trip (RFC 5681). `cubic`: A window that follows a cubic of the time since the last loss (RFC 9438). `fast`: A window that keeps a set number of its own packets in the queues of its path (Jin, Wei and Low 2004). `vegas`: Between alpha and beta packets of its own in the queues of its path (Brakmo and Peterson 1995). `bbr`: A pace and a window that follow a model of the path's rate and delay (Cardwell, Cheng et al. 2016, version 1). `bbr3`: BBR with bounds that follow from losses, version 3 (draft-ietf-ccwg-bbr-06). `backfill`: The larger of a CUBIC window, which sees every loss, and one that fills the line as long as the queue is short. Default: the personality's."""
    hystart: Literal["off", "classic", "plus-plus"] | None
    """With `controller = 'cubic'`: How slow start ends before a loss: `classic` as in Linux, `plus-plus` as in RFC 9406. Default: the personality's."""
    fast_alpha: int | Literal["auto"] | None
    """With `controller = 'fast'`: The number of its own packets that the flow aims to have in the queues of its path; `auto` is 20, and as many more as it sends in 2 ms. Default: the personality's."""
    fast_gamma_percent: int | None
    """With `controller = 'fast'`: The share of the way to its aim that the window goes with every update, in percent. Default: the personality's."""
    fast_update_rounds: int | None
    """With `controller = 'fast'`: Round trips from one update of the window to the next. Default: the personality's."""
    fast_check_seconds: int | None
    """With `controller = 'fast'`: Seconds after which a base round trip that was not seen again is checked with the queue drained, as a longer route asks for; 0 never checks, as published. Default: the personality's."""
    vegas_alpha: int | None
    """With `controller = 'vegas'`: The window grows with fewer packets of its own in the queues of its path. Default: the personality's."""
    vegas_beta: int | None
    """With `controller = 'vegas'`: The window shrinks with more packets of its own in the queues of its path. Default: the personality's."""
    vegas_gamma: int | None
    """With `controller = 'vegas'`: Slow start ends with more packets of its own in the queues of its path. Default: the personality's."""
    backfill_without: Literal["none", "thinning", "look", "probe", "alpha", "ceiling", "haste", "plateau", "pacing"] | None
    """With `controller = 'backfill'`: The guard of the law that is switched off, in studies of what each is for. Default: the personality's."""
    window_in_segments: bool | None
    """Windows in whole segments, computed as Linux does, and not in bytes, as the RFCs do. Default: the personality's."""
    frto: bool | None
    """Take a time-out back that turns out to have been spurious (RFC 5682); with `rack-tlp` only. Default: the personality's."""
    undo_spurious: bool | None
    """Take a reduction of the window back when timestamps (RFC 3522) or D-SACK (RFC 3708) show that its retransmissions were spurious; with `rack-tlp` only. Default: the personality's."""
    rto_tick: str | None
    """Clock granularity of the retransmission timer: round trips are measured in whole ticks (RFC 6298, section 4). Default: the personality's."""
    rto_heartbeat: bool | None
    """Retransmission timers fire on the ticks of a free-running clock (BSD), and not exactly when due. Default: the personality's."""
    rto_initial: str | None
    """RTO before the first measurement (RFC 6298, section 2.1). Default: the personality's."""
    rto_min: str | None
    """Smallest RTO (RFC 6298, section 2.4). Default: the personality's."""
    rto_min_on_variance: bool | None
    """`rto_min` bounds the variance term instead of the sum, as Linux does. Default: the personality's."""
    rto_max: str | None
    """Largest RTO after back-off (RFC 6298, section 2.5). Default: the personality's."""
    rto_backoff_max: int | None
    """Largest back-off factor (BSD and ns: 64). Default: the personality's."""
    delayed_ack: int | None
    """Acknowledge at once when this many segments wait: 2 (RFC 5681), 1 turns delayed ACK off. Default: the personality's."""
    quick_acks: int | None
    """So many of the first segments are acknowledged one by one, and again after a long pause (Linux: 17). Default: the personality's."""
    delayed_ack_timeout: str | None
    """Longest delay of an ACK. Default: the personality's."""
    delayed_ack_timeout_max: str | None
    """Where segments come far apart the delay grows with their distance up to this, but not beyond a round trip (Linux: 200 ms); at most `delayed_ack_timeout`: it is fixed. Default: the personality's."""
    delayed_ack_heartbeat: bool | None
    """The delay ends on the ticks of a free-running clock (BSD), so that it is anything up to the time-out. Default: the personality's."""
    delayed_ack_gap_fill_at_once: bool | None
    """A segment that fills a gap, wholly or in part, is acknowledged at once (RFC 5681, section 4.2). Default: the personality's."""
    delayed_ack_out_of_order_at_once: bool | None
    """Out-of-order segments are acknowledged at once (RFC 5681, section 4.2); Tahoe's receiver delays those too. Default: the personality's."""
    window_update: Literal["two-segments", "doubled"] | None
    """When a window that opens, because the application reads, is told of without data to acknowledge: `two-segments` once it can grow by two segments or half of the buffer (4.4BSD), `doubled` once it would be twice what is still offered (Linux). Default: the personality's."""
    idle_restart: bool | None
    """Return to the restart window after an idle RTO (RFC 5681, section 4.1). Default: the personality's."""
    nagle: bool | None
    """Hold small segments back while data is unacknowledged (RFC 1122, section 4.2.3.4). Default: the personality's."""
    era: Literal["ns-2.35", "ns-1996", "bsd-4.4", "rfc"] | None
    """Loss-recovery rules of the 1990s that later RFCs settled, all at once; the `era_` fields change one. Default: the personality's."""
    era_repeat: Literal["always", "unless-timed-out", "never"] | None
    """Whether a fast retransmit may happen again in a window of data that has seen a loss (RFC 6582: `never`). Default: the personality's."""
    era_halve_usable: bool | None
    """Halve the usable window in whole segments (BSD, ns) and not the bytes in flight (RFC 5681). Default: the personality's."""
    era_floor_segments: int | None
    """Smallest window after a halving, in segments. Default: the personality's."""
    era_fast_retransmit_backs_off: bool | None
    """Every fast retransmit doubles the RTO's back-off until a fresh sample, from the next timer on (ns of December 1996, inferred). Default: the personality's."""
    era_nearest_tick: bool | None
    """Round trips are rounded to the nearest tick (ns of December 1996); else the ticks between are counted (BSD). Default: the personality's."""
    era_restart_at_initial_window: bool | None
    """After a time-out the window is the initial window and not one segment (ns of December 1996). Default: the personality's."""
    era_inflate_when_refused: bool | None
    """Duplicate ACKs beyond the threshold inflate the window even if fast retransmit was refused (ns of 1996). Default: the personality's."""
    era_handshake_ack_opens_window: bool | None
    """The ACK that ends the handshake opens the accepting end's window by a segment (BSD; tuning paper, section 6.1). Default: the personality's."""

    def __init__(
        self,
        *,
        base: Literal["tahoe-1988", "bsd-reno-1996", "hfc-tuned", "newreno", "sack", "linux"] | None = None,
        mss: str | None = None,
        headers: Literal["ipv4", "uncounted"] | None = None,
        initial_window_segments: int | Literal["rfc6928"] | None = None,
        initial_ssthresh_segments: int | Literal["unlimited"] | None = None,
        abc_limit_segments: int | Literal["unlimited"] | None = None,
        socket_buffer: str | None = None,
        send_buffer: str | None = None,
        receive_buffer: str | None = None,
        window_scaling: bool | None = None,
        timestamps: bool | None = None,
        sack: bool | None = None,
        ecn: Literal["off", "accept", "request"] | None = None,
        dupack_threshold: int | None = None,
        limited_transmit: bool | None = None,
        recovery: Literal["tahoe", "reno", "newreno", "sack", "rack-tlp"] | None = None,
        controller: Literal["reno", "cubic", "fast", "vegas", "bbr", "bbr3", "backfill"] | None = None,
        hystart: Literal["off", "classic", "plus-plus"] | None = None,
        fast_alpha: int | Literal["auto"] | None = None,
        fast_gamma_percent: int | None = None,
        fast_update_rounds: int | None = None,
        fast_check_seconds: int | None = None,
        vegas_alpha: int | None = None,
        vegas_beta: int | None = None,
        vegas_gamma: int | None = None,
        backfill_without: Literal["none", "thinning", "look", "probe", "alpha", "ceiling", "haste", "plateau", "pacing"] | None = None,
        window_in_segments: bool | None = None,
        frto: bool | None = None,
        undo_spurious: bool | None = None,
        rto_tick: str | None = None,
        rto_heartbeat: bool | None = None,
        rto_initial: str | None = None,
        rto_min: str | None = None,
        rto_min_on_variance: bool | None = None,
        rto_max: str | None = None,
        rto_backoff_max: int | None = None,
        delayed_ack: int | None = None,
        quick_acks: int | None = None,
        delayed_ack_timeout: str | None = None,
        delayed_ack_timeout_max: str | None = None,
        delayed_ack_heartbeat: bool | None = None,
        delayed_ack_gap_fill_at_once: bool | None = None,
        delayed_ack_out_of_order_at_once: bool | None = None,
        window_update: Literal["two-segments", "doubled"] | None = None,
        idle_restart: bool | None = None,
        nagle: bool | None = None,
        era: Literal["ns-2.35", "ns-1996", "bsd-4.4", "rfc"] | None = None,
        era_repeat: Literal["always", "unless-timed-out", "never"] | None = None,
        era_halve_usable: bool | None = None,
        era_floor_segments: int | None = None,
        era_fast_retransmit_backs_off: bool | None = None,
        era_nearest_tick: bool | None = None,
        era_restart_at_initial_window: bool | None = None,
        era_inflate_when_refused: bool | None = None,
        era_handshake_ack_opens_window: bool | None = None,
    ) -> None:
        self._take(locals())


class Link(Section):
    """A table of a scenario: links."""

    _kind: ClassVar[str] = "link"
    _fields: ClassVar[tuple[str, ...]] = ("kind", "between", "rate", "processing", "delay", "detour", "detour_start", "detour_end", "queue", "loss", "jitter", "reorder", "reorder_by", "duplicate", "corrupt", "header_compression", "header_copies", "header_repeats", "one_way", "back", "down", "up", "modem_buffer", "lan", "shares", "channel", "modem",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"rate": ("part", "Rate"), "delay": ("part", "Delay"), "queue": ("part", "Queue"), "loss": ("part", "Loss"), "back": ("table", "Direction"), "down": ("table", "Channel"), "up": ("table", "Channel"), "channel": ("table", "DocsisChannel"), "modem": ("table", "Modem")}

    kind: Literal["plain", "cable", "docsis"] | None
    """A plain link is a queue, a rate, losses and a delay in each direction. A cable link is the papers' path: two channels, a modem with a buffer and an Ethernet behind it. A docsis link is a modem that asks its headend for each burst, alone on its channel or with others. Default: plain."""
    between: Sequence[str] | None
    """The two nodes it joins. The first is the headend's side of a cable or docsis link; the second the subscriber's. Required."""
    rate: str | Sequence[Sequence[Any]] | Rate | Mapping[str, Any] | None
    """With kind plain: How fast packets are served, from the first node to the second. Required."""
    processing: str | None
    """With kind plain: Each packet's service takes longer by a random time, uniform from zero to this: what a processor takes for it. Default: 0s."""
    delay: str | Sequence[Sequence[Any]] | Delay | Mapping[str, Any] | None
    """Propagation one way, the same in each direction. On a plain link it may change. Default: 0s."""
    detour: str | None
    """With kind plain: How much longer the way there is from `detour_start` to `detour_end`, as after a route has failed. Packets do not overtake one another when it gets shorter again. Default: 0s."""
    detour_start: str | None
    """With kind plain: When the way gets longer. Default: 0s."""
    detour_end: str | None
    """With kind plain: When it gets shorter again. Default: 3600s."""
    queue: str | Queue | Mapping[str, Any] | None
    """With kind plain: How much may wait for service; the packet in service is not counted. What does not fit is dropped, and with a table also some of what would. Default: unlimited."""
    loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None
    """With kind plain: Packets lost on the medium, after service. Default: 0%."""
    jitter: str | None
    """With kind plain: Each packet takes longer by a random time, uniform from zero to this, and none overtakes another. Default: 0s."""
    reorder: float | str | None
    """With kind plain: The chance that a packet is held for `reorder_by` behind the link, so that those behind it overtake it. Default: 0%."""
    reorder_by: str | None
    """With kind plain: How long such a packet is held. Default: 5ms."""
    duplicate: float | str | None
    """With kind plain: The chance that a packet arrives twice. One that arrives twice is repeated by no other link. Default: 0%."""
    corrupt: float | str | None
    """With kind plain: The chance that a bit of a packet is wrong. Its receiver finds that out by the checksum and throws it away. Default: 0%."""
    header_compression: Literal["none", "vj", "twice"] | None
    """With kind plain: What headers of control TCPs become on the medium. `vj`: what changed since the one before (RFC 1144); what follows a lost one is lost as well, until one is sent again. `twice`: the far end guesses what the lost one was (thesis section 4.9). Default: none."""
    header_copies: int | None
    """With kind plain: How many copies of each header of a control TCP follow it on the medium, where it is lost only if all of them are (thesis section 4.9). Unlike the `copies` of a circuit, these hide no drop: the queue has one of each. Default: 0."""
    header_repeats: int | None
    """With kind plain: How often a header of a control TCP that the medium has lost is sent again (thesis section 4.9). The far end asks when it would have arrived, and holds those behind it; what it asks takes the way back's time, no room, and is never lost. Default: 0."""
    one_way: bool | None
    """With kind plain: Routes lead over it only from the first node to the second, as on a ring whose packets all go round one way. Default: false."""
    back: Direction
    """With kind plain: What differs from the second node to the first."""
    down: Channel
    """With kind cable: The downstream channel, headend to modem. Required."""
    up: Channel
    """With kind cable: The upstream channel, modem to headend. Required."""
    modem_buffer: str | None
    """With kind cable: The modem's buffer towards the Ethernet; the packet in transmission is counted. What does not fit is dropped. Default: unlimited."""
    lan: str | None
    """With kind cable: The Ethernet between modem and subscriber, each direction. Default: 10Mbit/s."""
    shares: str | None
    """With kind docsis: The docsis link on whose channel this modem is, too; its `channel` and `delay` hold. Empty: this link has a channel of its own."""
    channel: DocsisChannel
    """With kind docsis: The channels, and how the headend hands them out."""
    modem: Modem
    """With kind docsis: The modem and what its subscriber may use."""

    def __init__(
        self,
        *,
        kind: Literal["plain", "cable", "docsis"] | None = None,
        between: Sequence[str] | None = None,
        rate: str | Sequence[Sequence[Any]] | Rate | Mapping[str, Any] | None = None,
        processing: str | None = None,
        delay: str | Sequence[Sequence[Any]] | Delay | Mapping[str, Any] | None = None,
        detour: str | None = None,
        detour_start: str | None = None,
        detour_end: str | None = None,
        queue: str | Queue | Mapping[str, Any] | None = None,
        loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None = None,
        jitter: str | None = None,
        reorder: float | str | None = None,
        reorder_by: str | None = None,
        duplicate: float | str | None = None,
        corrupt: float | str | None = None,
        header_compression: Literal["none", "vj", "twice"] | None = None,
        header_copies: int | None = None,
        header_repeats: int | None = None,
        one_way: bool | None = None,
        back: Direction | Mapping[str, Any] | None = None,
        down: Channel | Mapping[str, Any] | None = None,
        up: Channel | Mapping[str, Any] | None = None,
        modem_buffer: str | None = None,
        lan: str | None = None,
        shares: str | None = None,
        channel: DocsisChannel | Mapping[str, Any] | None = None,
        modem: Modem | Mapping[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class Direction(Section):
    """A table of a scenario: back."""

    _kind: ClassVar[str] = "direction"
    _fields: ClassVar[tuple[str, ...]] = ("rate", "processing", "delay", "queue", "loss", "jitter", "reorder", "reorder_by", "duplicate", "corrupt", "header_compression", "header_copies", "header_repeats",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"rate": ("part", "Rate"), "delay": ("part", "Delay"), "queue": ("part", "Queue"), "loss": ("part", "Loss")}

    rate: str | Sequence[Sequence[Any]] | Rate | Mapping[str, Any] | None
    """How fast packets are served. Default: the link's `rate`."""
    processing: str | None
    """The longest that a processor takes for a packet. Default: the link's `processing`."""
    delay: str | Sequence[Sequence[Any]] | Delay | Mapping[str, Any] | None
    """Propagation. Default: the link's `delay`."""
    queue: str | Queue | Mapping[str, Any] | None
    """How much may wait for service. Default: the link's `queue`."""
    loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None
    """Packets lost on the medium, after service. Default: the link's `loss`."""
    jitter: str | None
    """The longest random time that a packet takes longer. Default: the link's `jitter`."""
    reorder: float | str | None
    """The chance that a packet is held and overtaken. Default: the link's `reorder`."""
    reorder_by: str | None
    """How long such a packet is held. Default: the link's `reorder_by`."""
    duplicate: float | str | None
    """The chance that a packet arrives twice. Default: the link's `duplicate`."""
    corrupt: float | str | None
    """The chance that a bit of a packet is wrong. Default: the link's `corrupt`."""
    header_compression: Literal["none", "vj", "twice"] | None
    """What headers of control TCPs become on the medium. Default: the link's `header_compression`."""
    header_copies: int | None
    """Copies of headers on the medium. Default: the link's `header_copies`."""
    header_repeats: int | None
    """How often a lost header is sent again. Default: the link's `header_repeats`."""

    def __init__(
        self,
        *,
        rate: str | Sequence[Sequence[Any]] | Rate | Mapping[str, Any] | None = None,
        processing: str | None = None,
        delay: str | Sequence[Sequence[Any]] | Delay | Mapping[str, Any] | None = None,
        queue: str | Queue | Mapping[str, Any] | None = None,
        loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None = None,
        jitter: str | None = None,
        reorder: float | str | None = None,
        reorder_by: str | None = None,
        duplicate: float | str | None = None,
        corrupt: float | str | None = None,
        header_compression: Literal["none", "vj", "twice"] | None = None,
        header_copies: int | None = None,
        header_repeats: int | None = None,
    ) -> None:
        self._take(locals())


class Channel(Section):
    """A table of a scenario: down and up."""

    _kind: ClassVar[str] = "channel"
    _fields: ClassVar[tuple[str, ...]] = ("rate", "queue", "loss",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"loss": ("part", "Loss")}

    rate: str | None
    """How fast packets are served. Required."""
    queue: str | None
    """How much may wait before the channel; the packet in service is not counted. Default: unlimited."""
    loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None
    """Packets lost on the channel, after service. Default: 0%."""

    def __init__(
        self,
        *,
        rate: str | None = None,
        queue: str | None = None,
        loss: float | str | Sequence[Sequence[Any]] | Loss | Mapping[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class DocsisChannel(Section):
    """A table of a scenario: channel."""

    _kind: ClassVar[str] = "docsis-channel"
    _fields: ClassVar[tuple[str, ...]] = ("down", "interleaving", "symbols", "modulation", "slot_ticks", "map_interval", "look_ahead", "processing", "opportunities", "fill", "backoff_start", "backoff_end", "access",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    down: str | None
    """The downstream channel, which all modems share: 64-QAM in 6 MHz. Default: 26.97Mbit/s."""
    interleaving: str | None
    """What interleaving adds to the downstream channel's delay, for data and MAPs alike: 64-QAM and a depth of 32. Default: 980us."""
    symbols: int | None
    """Symbols per second of the upstream channel: 160,000 times 1, 2, 4, 8 or 16. Default: 1280000."""
    modulation: Literal["qpsk", "16qam"] | None
    """2 or 4 bits in an upstream symbol. Default: qpsk."""
    slot_ticks: int | None
    """A mini-slot, in ticks of 6.25 us: a power of two. With the other defaults it carries 16 bytes. Default: 8."""
    map_interval: str | None
    """From one MAP to the next; whole mini-slots. Default: 2ms."""
    look_ahead: str | None
    """From a MAP's departure to the first mini-slot that it describes; whole mini-slots. Default: 4ms."""
    processing: str | None
    """From the end of a request until a MAP can have the grant. Default: 0s."""
    opportunities: int | None
    """Request opportunities at the start of each MAP that has room. Default: 2."""
    fill: bool | None
    """Mini-slots that nobody was granted are request opportunities too. Default: true."""
    backoff_start: int | None
    """A first request waits for one of so many opportunities, as a power of two. Default: 0."""
    backoff_end: int | None
    """The window doubles with every request lost, up to this power of two. Default: 4."""
    access: Literal["contention", "polled", "free"] | None
    """`contention`: modems share the request opportunities. `polled`: they have them in turn. `free`: nobody asks, and what comes is sent when the channel is free; no such modem exists. Default: contention."""

    def __init__(
        self,
        *,
        down: str | None = None,
        interleaving: str | None = None,
        symbols: int | None = None,
        modulation: Literal["qpsk", "16qam"] | None = None,
        slot_ticks: int | None = None,
        map_interval: str | None = None,
        look_ahead: str | None = None,
        processing: str | None = None,
        opportunities: int | None = None,
        fill: bool | None = None,
        backoff_start: int | None = None,
        backoff_end: int | None = None,
        access: Literal["contention", "polled", "free"] | None = None,
    ) -> None:
        self._take(locals())


class Modem(Section):
    """A table of a scenario: modem."""

    _kind: ClassVar[str] = "modem"
    _fields: ClassVar[tuple[str, ...]] = ("down_rate", "down_burst", "down_granularity", "down_delay_max", "up_rate", "up_burst", "up_granularity", "grant_calendar", "up_buffer", "burst_max", "piggyback", "concatenation", "fragmentation",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    down_rate: str | None
    """The downstream rate, of Ethernet frames, by a token bucket. Default: the channel's."""
    down_burst: str | None
    """That bucket. Default: 1522B."""
    down_granularity: str | None
    """What must wait for its tokens is released at the next multiple of this; `'0s'`: at once. Default: 0s."""
    down_delay_max: str | None
    """A packet that would wait longer for its tokens, or without `down_rate` for the channel, is dropped. Default: 512ms."""
    up_rate: str | None
    """The rate of the frames that the headend grants, likewise. Default: the channel's."""
    up_burst: str | None
    """That bucket. Default: 1522B."""
    up_granularity: str | None
    """What must wait for its tokens is released at the next multiple of this; `'0s'`: at once. Default: 0s."""
    grant_calendar: str | None
    """The upstream flow is granted at most once in each such stretch of time; `'0s'`: whenever it asks. Default: 0s."""
    up_buffer: str | None
    """The modem's buffer for what waits to be sent. Default: unlimited."""
    burst_max: str | None
    """The largest burst, with its MAC headers. A single packet may be longer. Default: 1600B."""
    piggyback: bool | None
    """A burst asks for the next. Default: true."""
    concatenation: bool | None
    """A burst carries several packets. Default: true."""
    fragmentation: bool | None
    """The modem asks for more than a burst, and gets it in several. Default: false."""

    def __init__(
        self,
        *,
        down_rate: str | None = None,
        down_burst: str | None = None,
        down_granularity: str | None = None,
        down_delay_max: str | None = None,
        up_rate: str | None = None,
        up_burst: str | None = None,
        up_granularity: str | None = None,
        grant_calendar: str | None = None,
        up_buffer: str | None = None,
        burst_max: str | None = None,
        piggyback: bool | None = None,
        concatenation: bool | None = None,
        fragmentation: bool | None = None,
    ) -> None:
        self._take(locals())


class Loss(Section):
    """A table of a scenario: loss."""

    _kind: ClassVar[str] = "loss"
    _fields: ClassVar[tuple[str, ...]] = ("model", "rate", "good_to_bad", "bad_to_good", "loss_good", "loss_bad", "packets", "trace", "at_end",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    model: Literal["bernoulli", "bit", "gilbert-elliott", "list", "trace"] | None
    """`bernoulli`: Each packet is lost with the same chance, as a probability alone says. `bit`: Each bit is wrong with the same chance, and a packet is lost with any of its bits. `gilbert-elliott`: Packets are lost in bursts, by a medium that is good or bad. `list`: The packets named are lost. `trace`: The chance that was recorded. Default: trace."""
    rate: float | str | None
    """With model bernoulli or bit: `bernoulli`: Chance of loss of a packet. `bit`: Chance that a bit is wrong. Required."""
    good_to_bad: float | str | None
    """With model gilbert-elliott: Chance, at each packet, of leaving the good state. Required."""
    bad_to_good: float | str | None
    """With model gilbert-elliott: Chance, at each packet, of leaving the bad state. Required."""
    loss_good: float | str | None
    """With model gilbert-elliott: Chance of loss in the good state. Default: 0%."""
    loss_bad: float | str | None
    """With model gilbert-elliott: Chance of loss in the bad state. Default: 100%."""
    packets: Sequence[int] | None
    """With model list: Numbers of the lost packets, from 1, as they pass. Required."""
    trace: str | None
    """With model trace: A recording with a column `loss_percent` or `loss_share`, relative to the scenario's folder. Required."""
    at_end: Literal["repeat", "hold"] | None
    """With model trace: When the recording has ended it starts again (`repeat`), or its last value holds (`hold`). Default: repeat."""

    def __init__(
        self,
        *,
        model: Literal["bernoulli", "bit", "gilbert-elliott", "list", "trace"] | None = None,
        rate: float | str | None = None,
        good_to_bad: float | str | None = None,
        bad_to_good: float | str | None = None,
        loss_good: float | str | None = None,
        loss_bad: float | str | None = None,
        packets: Sequence[int] | None = None,
        trace: str | None = None,
        at_end: Literal["repeat", "hold"] | None = None,
    ) -> None:
        self._take(locals())


class Rate(Section):
    """A table of a scenario: rate."""

    _kind: ClassVar[str] = "rate"
    _fields: ClassVar[tuple[str, ...]] = ("model", "trace", "opportunity", "at_end",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    model: Literal["trace"] | None
    """`trace`: A link that was recorded. Default: trace."""
    trace: str | None
    """A recording, relative to the scenario's folder: a table with a column such as `rate_mbps`, or one in mahimahi's format, with on each line a time in milliseconds at which the link can deliver 1500 bytes. After the last it starts again. Required."""
    opportunity: str | None
    """What a line of mahimahi's format is good for; CellReplay's are for 1400 bytes. Default: 1500B."""
    at_end: Literal["repeat", "hold"] | None
    """When the recording has ended it starts again (`repeat`), or its last value holds (`hold`). Default: repeat."""

    def __init__(
        self,
        *,
        model: Literal["trace"] | None = None,
        trace: str | None = None,
        opportunity: str | None = None,
        at_end: Literal["repeat", "hold"] | None = None,
    ) -> None:
        self._take(locals())


class Delay(Section):
    """A table of a scenario: delay."""

    _kind: ClassVar[str] = "delay"
    _fields: ClassVar[tuple[str, ...]] = ("model", "trace", "span", "at_end", "overtake", "least", "most", "mean", "deviation", "shape",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    model: Literal["trace", "uniform", "normal", "pareto", "samples"] | None
    """`trace`: The delay that was recorded. `uniform`: Each packet's delay is drawn evenly between two bounds, independent of the others. `normal`: Each packet's delay is drawn from a normal distribution (as the sum of twelve even draws), independent of the others. `pareto`: Each packet's delay is drawn from a Pareto distribution, independent of the others: above `x` with the chance `(least / x)^shape`. `samples`: Each packet takes one of the delays that were measured, independent of the others. Default: trace."""
    trace: str | None
    """With model trace or samples: `trace`: A recording, relative to the scenario's folder: a table with a column such as `delay_ms`; delays in milliseconds, one a line (LeoReplayer's); or times and delays in milliseconds (CellReplay's). `samples`: A recording as of `trace`, whose lines are drawn, each as likely; their times do not matter. Required."""
    span: str | None
    """With model trace: How long each line of LeoReplayer's format holds. Default: 10ms."""
    at_end: Literal["repeat", "hold"] | None
    """With model trace: When the recording has ended it starts again (`repeat`), or its last value holds (`hold`). Default: repeat."""
    overtake: bool | None
    """A packet that takes less time than one before it overtakes it. Otherwise it waits for it. Default: false."""
    least: str | None
    """With model uniform or normal or pareto: `uniform`: The shortest delay. `normal`: The shortest delay. `pareto`: The shortest delay, longer than none. Default: 0s."""
    most: str | None
    """With model uniform or pareto: `uniform`: The longest delay. `pareto`: The longest delay: what would be more is it. Required."""
    mean: str | None
    """With model normal: The mean delay. Required."""
    deviation: str | None
    """With model normal: The standard deviation. Required."""
    shape: int | None
    """With model pareto: The exponent. The mean is `least shape / (shape - 1)`, but for `most`. Default: 3."""

    def __init__(
        self,
        *,
        model: Literal["trace", "uniform", "normal", "pareto", "samples"] | None = None,
        trace: str | None = None,
        span: str | None = None,
        at_end: Literal["repeat", "hold"] | None = None,
        overtake: bool | None = None,
        least: str | None = None,
        most: str | None = None,
        mean: str | None = None,
        deviation: str | None = None,
        shape: int | None = None,
    ) -> None:
        self._take(locals())


class Flow(Section):
    """A table of a scenario: flows."""

    _kind: ClassVar[str] = "flow"
    _fields: ClassVar[tuple[str, ...]] = ("kind", "from", "to", "start", "stagger", "count", "via", "bytes", "arrivals", "load", "handshake", "whole_segments", "socket", "request", "header", "header_apart", "sizes", "pause", "answer_after", "answer_spread", "rate", "packet", "on", "off", "over", "rates", "frame_interval", "key_every", "key_size", "deadline", "stale", "stale_after", "gmb", "vmss", "queue", "program", "server", "at",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"bytes": ("part", "Size"), "socket": ("table", "Socket")}

    kind: Literal["bulk", "ftp-get", "http-get", "requests", "datagrams", "media", "program"] | None
    """`bulk`: `from` connects and sends. `ftp-get`: the server `from` opens the data connection to its client `to` and sends. `http-get`: the client `to` connects to the server `from` and asks, and is answered on the same connection. `requests`: the same again and again, each with a connection of its own and a row in the results. `datagrams`: packets at a rate, with no regard to anything. `media`: frames at a rate, each with a deadline, and a row in a table of their own (chapter 5 of the decoupling thesis). `program`: programs of your own run at the two ends: between real hosts only (`headend lab`). Default: bulk."""
    from_: str | None
    """The host that sends the data. Required."""
    to: str | None
    """The host that receives the data. Required."""
    start: str | None
    """When the flow starts. Default: 0s."""
    stagger: str | None
    """Each instance starts later by a random time, uniform from zero to this. Default: 0s."""
    count: int | None
    """How many of these flows there are. Default: 1."""
    via: str | None
    """With kind bulk or ftp-get or http-get: The proxy at which the connection ends that one of the two opens, and which connects on to the other. Empty: one connection from end to end."""
    bytes: str | Size | Mapping[str, Any] | None
    """With kind bulk or ftp-get or http-get: How much data; `unlimited` lasts until the duration ends. With a table, each instance has a size of its own. Default: unlimited."""
    arrivals: str | None
    """With kind bulk or ftp-get or http-get: The mean time from one instance to the next. They come from `start` on until the duration ends, as a Poisson process, and take the place of `count`. Default: all instances start when the flow does."""
    load: str | None
    """With kind bulk or ftp-get or http-get: The data that instances ask for, per time: they come as with `arrivals`, as often as this load and their mean size say. Default: what `arrivals` says."""
    handshake: bool | None
    """With kind bulk: If `false`, the connections are established beforehand, as in ns. Default: true."""
    whole_segments: bool | None
    """With kind bulk or ftp-get: The last segment is padded to a full one, as in ns; goodput counts `bytes`. Default: false."""
    socket: Socket
    """With kind bulk or ftp-get: With it, even empty: the data go through a reliable decoupling socket (chapter 4 of the thesis). The hosts' TCPs only control errors, and a circuit from `from` to `to` says when they send. Each has a row in the table of circuits. Default: a plain TCP."""
    request: str | None
    """With kind http-get or requests: Length of the request. Default: 300B."""
    header: str | None
    """With kind http-get: Length of the response header, sent before `bytes` and not counted in them. Default: 250B."""
    header_apart: bool | None
    """With kind http-get: The header leaves in a segment of its own, as from the servers of 1996 (tuning paper, section 6.1). Default: true."""
    sizes: Sequence[str] | None
    """With kind requests: What is asked for, in turns; each instance begins at another. Required."""
    pause: str | None
    """With kind requests: From the end of one connection to the beginning of the next. Default: 0s."""
    answer_after: str | None
    """With kind requests: What the server takes from a request to its answer. Default: 0s."""
    answer_spread: str | None
    """With kind requests: Each answer begins later by a random time, uniform from zero to this. Default: 0s."""
    rate: str | None
    """With kind datagrams: How fast packets are sent, headers included. Required."""
    packet: str | None
    """With kind datagrams or media: A packet, headers included; of media the largest, over TCP without meaning. Default: 1500B."""
    on: str | None
    """With kind datagrams: How long packets are sent before each pause of `off`. Default: always."""
    off: str | None
    """With kind datagrams: How long none are sent then. Default: 0s."""
    over: Literal["circuit", "udp", "tcp"] | None
    """With kind media: What carries the frames. `circuit`: datagrams through an unreliable decoupling socket, a circuit between the two hosts with one control TCP of theirs. `udp`: datagrams that leave as soon as they are made. `tcp`: a connection. Connections are established beforehand. Default: circuit."""
    rates: Sequence[str] | None
    """With kind media: Rates at which frames can be made, ascending, headers not included. Of several the source begins with the lowest, and chooses by how much it reads is waiting to leave: a lower one when that takes more than a quarter of the `deadline`, a higher one after 2 s in which it took less than a frame's time. With `udp` there is nothing to read, and one rate. Required."""
    frame_interval: str | None
    """With kind media: From one frame to the next. Default: 40ms."""
    key_every: int | None
    """With kind media: Every so-many-th frame is a key frame, which can be larger. Default: 1."""
    key_size: int | None
    """With kind media: How many times as large as the others; the rate is that of all together. Default: 1."""
    deadline: str | None
    """With kind media: A frame that is whole at the other end later than so long after it was made is late. Default: 200ms."""
    stale: Literal["keep", "withdraw", "replace"] | None
    """With kind media: What the source does, whenever it has made a frame, with those that wait and are stale. `keep`: nothing. `withdraw`: it takes them back. `replace`: and the new one takes the place of the first. Over TCP, only what the send buffer has not begun to take can be taken back, and `replace` is `withdraw`. With `udp` nothing waits. Default: withdraw."""
    stale_after: str | None
    """With kind media: A frame that has waited so long is stale if nothing of it has left; otherwise it is after the `deadline`. Default: half of the `deadline`."""
    gmb: str | None
    """With kind media: With `over = 'circuit'`: the minimum rate, headers included, sent with no regard to congestion. Default: nothing guaranteed."""
    vmss: str | None
    """With kind media: With `over = 'circuit'`: bytes of datagrams for each header packet. Default: 1500B."""
    queue: str | None
    """With kind media: With `over = 'circuit'`: how much may wait to leave. A frame that finds no room is skipped. Default: 100 packets."""
    program: Sequence[str] | None
    """With kind program: The client's program and its arguments, such as `['curl', 'http://{server}:{port}/']`; no shell reads them. In each `{client}` and `{server}` stand for the addresses of the two ends, and `{port}` for a port that no other flow has. It runs from the flow's start until it ends or the run does. Required."""
    server: Sequence[str] | None
    """With kind program: The program at the other end, likewise. It runs before the run begins, and as long as the client. If `{port}` is among its words the run waits until it listens there. Default: nothing is started there."""
    at: Literal["to", "from"] | None
    """With kind program: The end that is the client and runs `program`. Bytes are counted from `from` to `to` either way. Default: to."""

    def __init__(
        self,
        *,
        kind: Literal["bulk", "ftp-get", "http-get", "requests", "datagrams", "media", "program"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        start: str | None = None,
        stagger: str | None = None,
        count: int | None = None,
        via: str | None = None,
        bytes: str | Size | Mapping[str, Any] | None = None,
        arrivals: str | None = None,
        load: str | None = None,
        handshake: bool | None = None,
        whole_segments: bool | None = None,
        socket: Socket | Mapping[str, Any] | None = None,
        request: str | None = None,
        header: str | None = None,
        header_apart: bool | None = None,
        sizes: Sequence[str] | None = None,
        pause: str | None = None,
        answer_after: str | None = None,
        answer_spread: str | None = None,
        rate: str | None = None,
        packet: str | None = None,
        on: str | None = None,
        off: str | None = None,
        over: Literal["circuit", "udp", "tcp"] | None = None,
        rates: Sequence[str] | None = None,
        frame_interval: str | None = None,
        key_every: int | None = None,
        key_size: int | None = None,
        deadline: str | None = None,
        stale: Literal["keep", "withdraw", "replace"] | None = None,
        stale_after: str | None = None,
        gmb: str | None = None,
        vmss: str | None = None,
        queue: str | None = None,
        program: Sequence[str] | None = None,
        server: Sequence[str] | None = None,
        at: Literal["to", "from"] | None = None,
    ) -> None:
        self._take(locals())


class Size(Section):
    """A table of a scenario: size."""

    _kind: ClassVar[str] = "size"
    _fields: ClassVar[tuple[str, ...]] = ("model", "cdf", "mean", "least", "most", "median",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    model: Literal["cdf", "web-search", "data-mining", "pareto", "log-normal"] | None
    """`cdf`: Sizes as they were recorded. `web-search`: Flows of a cluster for web search (Alizadeh et al. 2010, figure 4): half below 73 KB, the mean 1.7 MB. `data-mining`: Flows of a cluster for data mining (Greenberg et al. 2009, figure 2): half below 1.1 KB, the mean 12.7 MB. `pareto`: Sizes with a heavy tail: of those above some size, the share above its double is always the same. `log-normal`: Sizes whose logarithms are normal. Default: cdf."""
    cdf: str | None
    """With model cdf: A file, named relative to the scenario's folder: on each line a size in bytes and the share of all transfers, from 0 to 1, that are no larger. Both ascend, and the last share is 1; between two lines every size is as likely. Required."""
    mean: str | None
    """With model pareto or log-normal: `pareto`: The mean size, from which the shape follows. `log-normal`: The mean size, from which the spread follows. Required."""
    least: str | None
    """With model pareto: The smallest size. Required."""
    most: str | None
    """With model pareto: The largest size. Required."""
    median: str | None
    """With model log-normal: The size that half of all do not reach. Required."""

    def __init__(
        self,
        *,
        model: Literal["cdf", "web-search", "data-mining", "pareto", "log-normal"] | None = None,
        cdf: str | None = None,
        mean: str | None = None,
        least: str | None = None,
        most: str | None = None,
        median: str | None = None,
    ) -> None:
        self._take(locals())


class Socket(Section):
    """A table of a scenario: socket."""

    _kind: ClassVar[str] = "socket"
    _fields: ClassVar[tuple[str, ...]] = ("controls", "vmss", "copies", "queue", "personality", "tcp",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"tcp": ("table", "Tcp")}

    controls: int | None
    """How many control TCPs there are. Default: 1."""
    vmss: str | None
    """Bytes of data packets for each header packet. Default: 1500B."""
    copies: int | None
    """How many copies follow each header packet, which is lost only if all of them are (thesis section 4.9). The control TCPs must have timestamps. Default: 0."""
    queue: int | None
    """How many segments may wait for the circuit in its tunnel queue (figure 21 of the thesis), into which the host's TCP sends as fast as it can. With 0 each segment is made when it may leave. Default: 0."""
    personality: str | None
    """The control TCPs, by name. Default: linux."""
    tcp: Tcp
    """What differs from the personality. Segments are of `vmss`, and buffers without limit, whatever it says."""

    def __init__(
        self,
        *,
        controls: int | None = None,
        vmss: str | None = None,
        copies: int | None = None,
        queue: int | None = None,
        personality: str | None = None,
        tcp: Tcp | Mapping[str, Any] | None = None,
    ) -> None:
        self._take(locals())


class Queue(Section):
    """A table of a scenario: queue."""

    _kind: ClassVar[str] = "queue"
    _fields: ClassVar[tuple[str, ...]] = ("model", "buffer", "counts", "min", "max", "max_chance", "weight_bits", "departure", "marks", "headers", "unmarked", "threshold", "target", "interval", "flows", "quantum", "threshold_l4s", "range_l4s",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}

    model: Literal["drop-tail", "red", "header-drop", "occupancy-drop", "codel", "fq-codel", "pie", "dualpi2"] | None
    """`drop-tail`: What does not fit is dropped. `red`: Random early detection (Floyd and Jacobson 1993). `header-drop`: The routers of TCP decoupling, which drop header packets first (section 2.2.7 of the thesis). `occupancy-drop`: As `header-drop`, by all bytes that wait (section 2.3.1 of the thesis). `codel`: Drops as packets leave, ever more often, while all have waited longer than the target for an interval (RFC 8289). `fq-codel`: Flows take turns, new ones first, and each has a CoDel of its own (RFC 8290). `pie`: Drops as packets come, with a probability that is adjusted until they wait for the target (RFC 8033). `dualpi2`: Two coupled queues: one with hardly a wait for L4S traffic, which is marked, one for all other (RFC 9332). Required."""
    buffer: str | None
    """`drop-tail`: How much may wait. `red`: How many packets may wait. `header-drop`: How many bytes may wait. `occupancy-drop`: How many bytes may wait: a size, larger than the `threshold`. `codel`: How much may wait at all. `fq-codel`: How much may wait at all, of all flows together. What is too much is dropped from the head of the longest queue. `pie`: How much may wait at all. `dualpi2`: How much may wait at all, in both queues together. Default: unlimited."""
    counts: Literal["packets", "bytes"] | None
    """With model red: What the queue's length is. With `bytes`, `min` and `max` are packets of 1500 bytes, and a smaller one counts less; the chance of a drop is the same for all lengths (RFC 7141). Default: packets."""
    min: int | None
    """With model red: From this average number of packets on some are dropped. Default: 5."""
    max: int | None
    """With model red: From this average on, all are. Default: 15."""
    max_chance: float | str | None
    """With model red: Chance of a drop just below `max`. Default: 2%."""
    weight_bits: int | None
    """With model red or header-drop or occupancy-drop: `red`: The average follows the queue with the weight 2^-`weight_bits` at each packet that has to wait. `header-drop`: The average of waiting headers follows their number with the weight 2^-`weight_bits` at each header that comes. `occupancy-drop`: What decides follows the waiting bytes with the weight 2^-`weight_bits` at each header that comes; 0 is those bytes themselves, which is what the thesis goes by. Default: `red`: 9; `header-drop`: the logarithm of `headers`; `occupancy-drop`: 0."""
    departure: str | None
    """With model red: How long a packet takes to leave: so fast the average falls while the queue is empty. Default: 1ms."""
    marks: bool | None
    """With model red or codel or fq-codel or pie: `red`: Packets of connections that use ECN are marked where others are dropped early (RFC 3168, section 7); from `max` on, and where nothing more may wait, these too are dropped. `codel`: Packets of connections that use ECN are marked where others are dropped (RFC 3168, section 7). `fq-codel`: Packets of connections that use ECN are marked where others are dropped (RFC 3168, section 7). `pie`: Packets of connections that use ECN are marked where others are dropped, unless that befalls a tenth of all and more (RFC 8033, section 5.1). Default: true."""
    headers: int | None
    """With model header-drop: Header packets that may wait, HP_Th; from half as many on some are dropped. Required."""
    unmarked: Literal["data", "header"] | None
    """With model header-drop or occupancy-drop: What a packet of no circuit counts as (section 3.8.4 of the thesis). Default: data."""
    threshold: str | None
    """With model occupancy-drop: From this average of waiting bytes on some header packets are dropped, all of them when the `buffer` is full. Required."""
    target: str | None
    """With model codel or fq-codel or pie or dualpi2: The wait that a standing queue may have. Default: `codel` and `fq-codel`: 5ms; `pie` and `dualpi2`: 15ms."""
    interval: str | None
    """With model codel or fq-codel: A time in which some packet should have waited less than the target: a round trip, at the worst. Default: 100ms."""
    flows: int | None
    """With model fq-codel: Queues that flows are spread over by their addresses and ports. Default: 1024."""
    quantum: str | None
    """With model fq-codel: How much a flow sends before the next has its turn. Default: 1514B."""
    threshold_l4s: str | None
    """With model dualpi2: From this wait on packets of L4S are marked. Default: 800us."""
    range_l4s: str | None
    """With model dualpi2: So far above it all of them are; `0s` makes the ramp a step. Default: 400us."""

    def __init__(
        self,
        *,
        model: Literal["drop-tail", "red", "header-drop", "occupancy-drop", "codel", "fq-codel", "pie", "dualpi2"] | None = None,
        buffer: str | None = None,
        counts: Literal["packets", "bytes"] | None = None,
        min: int | None = None,
        max: int | None = None,
        max_chance: float | str | None = None,
        weight_bits: int | None = None,
        departure: str | None = None,
        marks: bool | None = None,
        headers: int | None = None,
        unmarked: Literal["data", "header"] | None = None,
        threshold: str | None = None,
        target: str | None = None,
        interval: str | None = None,
        flows: int | None = None,
        quantum: str | None = None,
        threshold_l4s: str | None = None,
        range_l4s: str | None = None,
    ) -> None:
        self._take(locals())


class Circuit(Section):
    """A table of a scenario: circuits."""

    _kind: ClassVar[str] = "circuit"
    _fields: ClassVar[tuple[str, ...]] = ("from", "to", "flows", "implementation", "loss_signal", "losses", "mtu", "delays", "controls", "vmss", "copies", "gmb", "personality", "tcp", "queue", "drops", "threshold", "user_rtt", "exempt_percent", "classes", "weights",)
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {"tcp": ("table", "Tcp")}

    from_: str | None
    """The router at which packets enter. Required."""
    to: str | None
    """The router at which they leave; packets that pass `from` on a way over `to` enter. Required."""
    flows: Sequence[str] | None
    """Only packets of these flows enter, data as well as acknowledgements. Default: all flows."""
    implementation: Literal["decoupling", "encapsulation", "byte-stream"] | None
    """How users' packets cross (section 3.4 of the thesis). `decoupling`: as they are, with header packets of control TCPs behind them. `encapsulation`: each in a segment of one TCP connection. `byte-stream`: one after another as the data of one TCP connection, each with its length in two bytes before it. The last two have no `controls`, `vmss`, `copies` and `gmb`. Default: decoupling."""
    loss_signal: Literal["headers", "in-band"] | None
    """What tells of congestion. `headers`: the loss of header packets, as in the thesis, for routers that know of them. `in-band`: the loss of users' packets themselves, each in a numbered datagram that takes 36 bytes more; there are no header packets, so no `vmss` and no `copies`, and `controls` says how many TCPs the circuit stands for. For routers that know of no headers. Default: headers."""
    losses: Literal["all", "delayed"] | None
    """With `loss_signal = 'in-band'`: which losses are congestion. `all`, or only those next to which the one-way delay was high (`delayed`): the others are damage, unless more than a tenth is lost. Not for a path whose queue drops early, or holds less than two milliseconds: there a circuit takes nearly all of what it shares. Default: all."""
    mtu: str | None
    """The longest packet on the way, for an `implementation` with packets of its own: longer ones go in fragments. Default: 1500B."""
    delays: bool | None
    """Whether to note how long each user's packet takes, and in which order they come: for the columns from `passed` on. Default: false."""
    controls: int | None
    """How many control TCPs there are. Default: 1."""
    vmss: str | None
    """Bytes of users' packets for each header packet. Default: 1500B."""
    copies: int | None
    """How many copies follow each header packet, which is lost only if all of them are (thesis section 4.9). The control TCPs must have timestamps. Default: 0."""
    gmb: str | None
    """The guaranteed minimum bandwidth: sent with no regard to congestion. Default: nothing guaranteed."""
    personality: str | None
    """The control TCPs or the one connection, by name. Default: linux."""
    tcp: Tcp
    """What differs from the personality. Segments are of `vmss` (of one packet, if each is in one), and buffers without limit, whatever it says."""
    queue: str | None
    """How much may wait to enter. Default: 100 packets."""
    drops: Literal["tail", "early", "fair"] | None
    """What is dropped of what waits. `tail`: what does not fit. `early`: some packets before that, by random early detection. `fair`: a packet of each flow when the circuit's window shrinks, and none of a flow that has just lost one (section 3.6 of the thesis). The last two need a `queue` in packets. Default: tail."""
    threshold: int | None
    """With `drops = 'early'` or `'fair'`: nothing is dropped that has room while fewer packets wait. Default: 10."""
    user_rtt: str | None
    """With `drops = 'fair'`: the longest round trip of users; a flow silent for longer is not active. Default: 500ms."""
    exempt_percent: int | None
    """With `drops = 'fair'`: how many packets of a flow pass after one was dropped, K of section 3.6, in hundredths of those that it sends until it is as fast as before. Default: 50."""
    classes: Sequence[Sequence[str]] | None
    """Flows that wait apart, a list of them for each class, the most urgent class first: a packet leaves when no class before its own has one. What is in no list waits in a last class. `queue` and `drops` hold for each. Default: one class."""
    weights: Sequence[int] | None
    """Classes take turns instead, and share the circuit's bytes in proportion to these: a number for each of `classes`. What is in no list has 1. Default: absolute priority."""

    def __init__(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        flows: Sequence[str] | None = None,
        implementation: Literal["decoupling", "encapsulation", "byte-stream"] | None = None,
        loss_signal: Literal["headers", "in-band"] | None = None,
        losses: Literal["all", "delayed"] | None = None,
        mtu: str | None = None,
        delays: bool | None = None,
        controls: int | None = None,
        vmss: str | None = None,
        copies: int | None = None,
        gmb: str | None = None,
        personality: str | None = None,
        tcp: Tcp | Mapping[str, Any] | None = None,
        queue: str | None = None,
        drops: Literal["tail", "early", "fair"] | None = None,
        threshold: int | None = None,
        user_rtt: str | None = None,
        exempt_percent: int | None = None,
        classes: Sequence[Sequence[str]] | None = None,
        weights: Sequence[int] | None = None,
    ) -> None:
        self._take(locals())
