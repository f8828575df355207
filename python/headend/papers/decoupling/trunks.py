"""Sections 2.3.3 and 3.7.1: what two trunks get of a link, and what a router must hold. Figures 12 to 14."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, about, criterion, exactly, less_than, more_than, number
from headend.papers.figure import CaseFigure
from headend.papers.model import Criterion, Series
from headend.papers.runner import Settings
from headend.papers.stats import Estimate
from headend.results import Result

SCENARIO = "tt1"
TRUNKS = ("trunk1", "trunk2")
USERS = ("user1", "user2")
LINKS = ("be", "de")
"""Over which nothing goes but what the trunk sends."""
SHARE_TOLERANCE = 0.03
"""How far a trunk may lie from its guarantee and its share of the rest."""
HEADER = 52
"""Bytes of a header packet with timestamps."""
AVERAGE_WEIGHT = 0.1
"""Of a new second in the running average that is drawn; the thesis does not say which it drew."""

ALIKE: Settings = {"circuits.trunk1.vmss": "1500B", "links.ef.queue.buffer": "222656B", "duration": "600s"}
"""TT1 (c): both trunks have a VMSS of 1500 bytes, for which equation (2) gives this buffer."""
WARM: Settings = {**ALIKE, "circuits.*.tcp.initial_ssthresh_segments": 8}
"""The same with TCPs that leave slow start at alpha packets."""

Tables = dict[str, Result]
"""What was run, by the name of the case."""


def _trunks(
    name: str, cases: Mapping[str, Settings], draw: Callable[[Result], list[Series]], **rest: Any
) -> CaseFigure[Tables]:
    """The network of Figure 11 under some settings, of which the first are drawn second by second."""
    return CaseFigure(
        id=name,
        x_label="Time [s]",
        run=lambda runner, label, runs: {
            name: runner.shared(SCENARIO, settings, f"{label}: {name}", runs) for name, settings in cases.items()
        },
        draw=lambda tables: draw(next(iter(tables.values()))),
        **rest,
    )


def mean_kbytes(result: Result, user: str) -> NDArray[np.float64]:
    """What a trunk's user received in each run [KB/s]."""
    return np.asarray(result.flows.where(flow=user)["throughput_bps"] / 8e3)


def received_kbytes(result: Result, user: str) -> NDArray[np.float64]:
    """What a trunk's user received in each second of all runs [KB/s]."""
    return np.asarray(result.table("intervals").where(kind="flow", name=user)["bytes"] / 1e3)


def sent_kbytes(result: Result, link: str) -> NDArray[np.float64]:
    """What a trunk sent over its own link in each second of all runs, with its headers [KB/s]."""
    part = f"{link[0]}->{link[1]}"
    return np.asarray(result.table("intervals").where(kind="link", name=link, part=part)["bytes"] / 1e3)


def core(result: Result, column: str) -> NDArray[Any]:
    """A column of the bottleneck, a value for each run."""
    return result.links.where(link="ef", direction="e->f")[column]


def seconds(result: Result) -> list[Series]:
    """Each trunk's bandwidth in each second of the first run, and its running average."""
    shown = []
    rows = result.table("intervals").where(kind="flow", run=0)
    for trunk, user in zip(TRUNKS, USERS, strict=True):
        own = rows.where(name=user)
        x, y = own["end_s"].tolist(), (own["bytes"] / 1e3).tolist()
        average, averages = y[0], []
        for value in y:
            average += AVERAGE_WEIGHT * (value - average)
            averages.append(average)
        shown += [
            Series.exact(f"{trunk}, each second", x, y, style="points"),
            Series.exact(f"{trunk}, running average", x, averages, style="trace"),
        ]
    return shown


def occupancy(result: Result) -> list[Series]:
    """The router's buffer at the end of each second of the first run, below what equation (2) asks for."""
    rows = result.table("intervals").where(kind="link", run=0, part="e->f")
    x, y = rows["end_s"].tolist(), (rows["queue_bytes"] / 1e3).tolist()
    return [
        Series.exact("occupancy", x, y, style="points"),
        Series.exact("Required_BS", [x[0], x[-1]], [222.656, 222.656]),
    ]


def _shares(guaranteed: tuple[float, float], published: tuple[float, float]) -> Callable[[Tables], list[Criterion]]:
    def measure(tables: Tables) -> list[Criterion]:
        result = next(iter(tables.values()))
        criteria = []
        for trunk, user, link, gmb, share in zip(TRUNKS, USERS, LINKS, guaranteed, published, strict=True):
            slack = SHARE_TOLERANCE * share
            least = [float(of.min()) for of in (sent_kbytes(result, link), received_kbytes(result, user))]
            criteria += [
                criterion(
                    trunk,
                    f"{share:g} KB/s",
                    stats.mean(mean_kbytes(result, user)),
                    Range(share - slack, share + slack),
                    unit="KB/s",
                ),
                *(
                    criterion(
                        f"{trunk}, least second {what}",
                        f">= {gmb:g} KB/s",
                        Estimate.exact(value),
                        Range(lo=gmb),
                        unit="KB/s",
                        judged=what == "sent",
                    )
                    for what, value in zip(("sent", "received"), least, strict=True)
                ),
            ]
        return criteria

    return measure


def _shares_reason(tables: Tables, criteria: Sequence[Criterion]) -> str:
    result = next(iter(tables.values()))
    table = result.table("circuits")
    headers = [table.where(circuit=trunk)["headers"].mean() for trunk in TRUNKS]
    least = ", ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if not c.holds)
    return f"{least}. The trunks sent {headers[0]:.0f} and {headers[1]:.0f} headers, which take bandwidth as well."


ONE_CONTROL: Settings = {
    "circuits.*.controls": 1,
    "links.ef.queue.headers": 16,
    "links.ef.queue.buffer": "109664B",
}
"""One control TCP for each trunk, with HP_Th and the buffer that equations (1) and (2) give for two."""


def deviation(result: Result, user: str) -> float:
    """Of what a trunk's user receives in a second [KB/s]."""
    return float(received_kbytes(result, user).std())


def _smooth(tables: Tables) -> list[Criterion]:
    four, one = tables["(a)"], tables["one control TCP"]
    return [
        criterion(
            f"{trunk}, deviation over that with four",
            "much larger",
            Estimate.exact(deviation(one, user) / deviation(four, user)),
            more_than(1.5),
        )
        for trunk, user in zip(TRUNKS, USERS, strict=True)
    ]


TT1A = _trunks(
    name="tt1a",
    title="Shares in proportion to the guarantees",
    caption="Figure 12: guarantees of 400 and 200 KB/s, VMSS of 3000 and 1500 bytes.",
    section="3.7.1",
    cases={"(a)": {}, "one control TCP": ONE_CONTROL},
    draw=seconds,
    y_label="Bandwidth [KB/s]",
    claims=[
        Claim(
            id="decoupling.tt1a",
            measure=_shares((400, 200), (800, 400)),
            reason=_shares_reason,
            tolerance="Within 3% of the guarantee and the share of the rest, mean over runs; and no second of any "
            "run in which a trunk sent less than its guarantee. Headers are in what it sent, but there are none "
            "before the guarantee is sent. Beside it what was received: less in a second in which the router's "
            "queue grew.",
        ),
        Claim(
            id="decoupling.s3_7_1.smooth",
            measure=_smooth,
            reason=lambda _, criteria: "; ".join(f"{c.what} {number(c.measured)}" for c in criteria) + ".",
            tolerance="Of a second's bandwidth, all seconds of all runs: more than 1.5 times the standard deviation.",
        ),
    ],
    notes=[
        "Users' IP packets are counted, as they arrive. The control TCPs: BSD Reno with timestamps, a 500 ms clock."
    ],
)

TT1B = _trunks(
    name="tt1b",
    title="Shares that do not follow the guarantees",
    caption="Figure 13: guarantees of 200 and 400 KB/s, VMSS of 3000 and 1500 bytes.",
    section="3.7.1",
    cases={"(b)": {"circuits.trunk1.gmb": "1600kbit/s", "circuits.trunk2.gmb": "3200kbit/s"}},
    draw=seconds,
    y_label="Bandwidth [KB/s]",
    claims=[
        Claim(
            id="decoupling.tt1b",
            measure=_shares((200, 400), (600, 600)),
            reason=_shares_reason,
            tolerance="As for TT1 (a).",
        )
    ],
)


def _lossless(tables: Tables) -> list[Criterion]:
    criteria = []
    for name, judged in (("(c)", True), ("threshold 8", False)):
        result, prefix = tables[name], "" if judged else f"{name}: "
        most, dropped = core(result, "queue_max_bytes"), core(result, "dropped_user")
        criteria += [
            criterion(
                f"{prefix}largest occupancy",
                "210306 B",
                stats.mean(most),
                less_than(222_656),
                unit="B",
                judged=judged,
            ),
            criterion(f"{prefix}users' packets lost", "0", stats.mean(dropped), exactly(0), judged=judged),
        ]
    return criteria


def _lossless_reason(tables: Tables, _: Sequence[Criterion]) -> str:
    cold, warm = tables["(c)"], tables["threshold 8"]
    late = cold.table("intervals").where(kind="link", part="e->f")
    settled = late["queue_bytes"][late["end_s"] > 10].max()
    lost, most = core(cold, "dropped_user").mean(), core(warm, "queue_max_bytes").max()
    return (
        f"{lost:.3g} users' packets of a run are lost, all while eight TCPs leave slow start at once: equation (2) "
        f"does not count that a TCP sends its window once more before it hears of a loss. After ten seconds no sample "
        f"is above {settled:.0f} B. With TCPs that leave slow start at alpha packets, as BSD's do that remember the "
        f"path, the largest occupancy is {most:.0f} B."
    )


TT1C = _trunks(
    name="tt1c",
    title="What the router must hold",
    caption="Figure 14: occupancy of the bottleneck's buffer in 600 seconds, guarantees of 400 and 200 KB/s.",
    section="3.7.1",
    cases={"(c)": ALIKE, "threshold 8": WARM},
    draw=occupancy,
    y_label="Occupancy [KB]",
    claims=[
        Claim(
            id="decoupling.tt1c",
            measure=_lossless,
            reason=_lossless_reason,
            tolerance="Below equation (2), which gives 222656 B; and no user's packet lost.",
        )
    ],
    notes=["All eight control TCPs begin at once, without knowing the path."],
)

ALONE: Settings = {**ALIKE, "duration": "100s", "circuits.*.gmb": "1kbit/s", "links.ef.queue.buffer": "111400B"}
"""Hardly anything is guaranteed, so that all but a thousandth has headers."""


HALF: Settings = {**ALIKE, "duration": "100s"}
"""Half of the link is guaranteed."""
LARGER: Settings = {**ALONE, "circuits.*.vmss": "6000B", "links.ef.queue.buffer": "435419B"}
"""Four times the VMSS, and the buffer that equation (2) gives for it."""


def _of_users_bytes(result: Result, overhead: NDArray[Any]) -> NDArray[np.float64]:
    table = result.table("circuits")
    return np.asarray(100 * overhead / table.by_run(table["controlled_bytes"] + table["guaranteed_bytes"]))


def header_share(result: Result) -> NDArray[np.float64]:
    """Bytes of headers for each of the users', in each run [%]."""
    table = result.table("circuits")
    return _of_users_bytes(result, HEADER * table.by_run(table["headers"]))


def acknowledgement_share(result: Result) -> NDArray[np.float64]:
    """Bytes of acknowledgements for each of the users', in each run [%]."""
    return _of_users_bytes(result, result.links.where(link="ef", direction="f->e")["delivered_bytes"])


def _overhead(tables: Tables) -> list[Criterion]:
    bare = tables["no guarantee"]
    headers, acks = header_share(bare), acknowledgement_share(bare)
    rows = (
        ("headers", 3.4, headers),
        ("acknowledgements", 1.7, acks),
        ("total", 5.1, headers + acks),
        ("headers, half of the link guaranteed", 1.7, header_share(tables["half guaranteed"])),
        ("headers, VMSS of 6000 bytes", 0.87, header_share(tables["VMSS 6000"])),
    )
    return [
        criterion(what, f"{value}%", stats.mean(measured), about(value, 0.1), unit="%")
        for what, value, measured in rows
    ]


OVERHEAD = _trunks(
    name="overhead",
    title="Control packets",
    caption="Two trunks with a VMSS of 1500 bytes: their bandwidth, without a guarantee.",
    section="2.3.3",
    cases={"no guarantee": ALONE, "half guaranteed": HALF, "VMSS 6000": LARGER},
    draw=seconds,
    y_label="Bandwidth [KB/s]",
    claims=[
        Claim(
            id="decoupling.s2_3_3",
            measure=_overhead,
            reason=lambda _, criteria: "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria) + ".",
            tolerance="Within 15% of the share of users' bytes. A larger VMSS lowers it in proportion: 52 of 6000.",
        )
    ],
)
