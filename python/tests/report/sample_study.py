"""A made-up study with a figure of every kind; its numbers are invented and only look like a simulator's."""

import math
import random

from headend.papers.model import Arrow, ClaimResult, Criterion, FigureResult, Series, StudyResult

COMMAND = "python -m headend.papers run tuning."


def study(**changes) -> StudyResult:
    fields = {
        "id": "sample",
        "title": "Tuning TCP for High Performance in Hybrid Fiber Coaxial Broadband Access Networks",
        "paper": "A. Author and B. Author, 1997",
        "edition": "quick",
        "command": "python -m headend.papers run tuning --quick --seed 1",
        "seed": 1,
        "machine": "x86_64, 2 cores, Linux 6.1",
        "version": "0.1.0 (commit 0123abc)",
        "started": "2026-01-02T03:04:05Z",
        "elapsed_s": 83.2,
        "figures": [lines(), both_axes_log(), quartiles(), sequence(), ladder(), equation(), table()],
    }
    return StudyResult(**(fields | changes))


def curve(label, xs, f, *, spread=0.0, group="", style="line") -> Series:
    ys = [f(x) for x in xs]
    widths = [spread * y if x else 0.0 for x, y in zip(xs, ys, strict=True)]
    lo = [y - w for y, w in zip(ys, widths, strict=True)]
    hi = [y + w for y, w in zip(ys, widths, strict=True)]
    return Series(label, list(xs), ys, lo, hi, group, style)


def lines() -> FigureResult:
    loss = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0]
    panels = ("(a) delayed ACK", "(b) no delayed ACK")
    buffers = (8, 16, 24, 32, 48)

    def throughput(buffer, panel):
        return lambda x: min(8.7, buffer * (0.36 - 0.03 * panel)) / (1 + 1.1 * x + 0.02 * buffer * x)

    return FigureResult(
        id="fig4",
        title="Loss of data packets",
        caption="Effect of downstream packet loss on a connection transferring 3 MB from a local server.",
        section="4.3",
        kind="lines",
        x_label="Data loss [%]",
        y_label="Throughput [Mbit/s]",
        series=[
            curve(f"{b} KB", loss, throughput(b, i), spread=0.09, group=panel)
            for i, panel in enumerate(panels)
            for b in buffers
        ],
        reference=[
            curve(f"{b} KB, ns-2.35", loss, lambda x, b=b, i=i: 1.04 * throughput(b, i)(x), group=panel)
            for i, panel in enumerate(panels)
            for b in buffers
        ],
        claims=[
            ClaimResult(
                id="sample.fig4.loss1",
                what="3 MB down, 8 KB socket buffer: throughput at 1% data loss relative to no loss",
                published="< 0.50",
                measured="0.553",
                interval="0.535 .. 0.571",
                verdict="differs",
                reason="The mean loses 44.7%, with 1.34 time-outs a transfer. Counted as total bits over total time it "
                "loses 48.1%, and under the rules of 1996 53.2%.",
                tolerance="An inequality: taken as it stands.",
                criteria=[
                    Criterion("kept at 1%", "", "< 0.50", 0.553, 0.535, 0.571, None, 0.5, holds=False),
                    Criterion("rules of 1996", "", "< 0.50", 0.468, 0.447, 0.49, None, 0.5, holds=True, judged=False),
                ],
            )
        ],
        command=COMMAND + "fig4 --quick --seed 1",
        runs=40,
        seed=1,
        notes=["The paper says neither whether ACKs were delayed nor what the initial window was: both are shown."],
    )


def both_axes_log() -> FigureResult:
    sizes = [10.0 * 2**i for i in range(11)]
    return FigureResult(
        id="fig8",
        title="A modem with a finite buffer",
        caption="Throughput by transfer size with a modem buffer of 10 KB and no loss on the medium.",
        section="5.2",
        kind="lines",
        x_label="Transfer size [KB]",
        y_label="Throughput [Mbit/s]",
        x_log=True,
        y_log=True,
        series=[
            curve("8 KB", sizes, lambda x: 2.9 * x / (x + 30)),
            curve("16 KB", sizes, lambda x: 5.8 * x / (x + 80)),
            curve("24 KB", sizes, lambda x: 6.9 * x / (x + 900), style="dashed"),
        ],
        reference=[curve("an unrelated curve", sizes, lambda x: 4.0 * x / (x + 400))],
        claims=[
            ClaimResult(
                id="sample.fig8.buffer",
                what="16 KB over 8 KB socket buffer for large transfers; 24 KB below 16 KB up to a size",
                published="ratio: ~2; size: 8 MB",
                measured="16 KB over 8 KB: 1.93; 24 KB worse below: 7.4 MB",
                interval="16 KB over 8 KB: exact; 24 KB worse below: exact",
                verdict="reproduced",
                reason="",
                criteria=[
                    Criterion("16 KB over 8 KB", "", "~2", 1.93, 1.93, 1.93, 1.5, 2.5, holds=True),
                    Criterion("24 KB worse below", "MB", "8", 7.4, 7.4, 7.4, 6.8, 9.2, holds=True),
                ],
            )
        ],
        command=COMMAND + "fig8",
        runs=1,
        seed=1,
    )


def quartiles() -> FigureResult:
    loss = [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0]
    rows = (("(a) 30 KB", 1.5, 0.18), ("(b) 300 KB", 2.8, 0.6))
    return FigureResult(
        id="fig7",
        title="Spread over runs",
        caption="Distribution of throughput over one hundred runs.",
        section="4.4",
        kind="quartiles",
        x_label="Data loss [%]",
        y_label="Throughput [Mbit/s]",
        series=[
            Series(
                "median",
                loss,
                [top * math.exp(-rate * x) for x in loss],
                [top * math.exp(-rate * x) * (1 if x == 0 else 0.4) for x in loss],
                [top - (top - top * math.exp(-rate * x)) * 0.55 for x in loss],
                group,
            )
            for group, top, rate in rows
        ],
        command=COMMAND + "fig7",
        runs=100,
        seed=1,
    )


def sequence() -> FigureResult:
    rng = random.Random(7)
    series = []
    for group, loss in (("(a) 1% loss", 0.01), ("(b) 3% loss", 0.03)):
        sent, again, t = Series("sent", [], [], [], [], group), Series("retransmitted", [], [], [], [], group), 0.0
        for number in range(1, 1201):
            point = (t, float(number))
            _add(sent, *point)
            if rng.random() < loss:
                t += 1.5 if rng.random() < 0.3 else 0.03
                _add(again, t, float(number))
            if number % 2 == 0:  # two leave at the same instant
                t += 0.004
        series += [sent, again]
    return FigureResult(
        id="fig5",
        title="A transfer packet by packet",
        caption="When each packet was sent; a gap is a time-out.",
        section="4.3",
        kind="sequence",
        x_label="Time [s]",
        y_label="Packet",
        series=series,
        claims=[
            ClaimResult(
                id="sample.fig5.timeouts",
                what="time-outs in one transfer at 1% and at 3% loss",
                published="at 1pct: 1; at 3pct: 11",
                measured="1.2; 10.9",
                interval="0.9 .. 1.5; 10.1 .. 11.7",
                verdict="reproduced",
                reason="",
            )
        ],
        command=COMMAND + "fig5",
        runs=1,
        seed=7,
    )


def _add(series, x, y):
    for column, value in zip((series.x, series.y, series.lo, series.hi), (x, y, y, y), strict=True):
        column.append(value)


def ladder() -> FigureResult:
    def data(t, number, *, lost=False, kind="data", group=""):
        received = None if lost else t + 0.0108
        return Arrow(t, received, "server", "PC", f"data {number}", kind, group)

    def ack(t, number, group=""):
        return Arrow(t, t + 0.0100, "PC", "server", f"ACK {number}", "ack", group)

    normal, tuned = "(a) fast retransmit", "(b) super fast retransmit"
    arrows = []
    for group in (normal, tuned):
        arrows += [data(0.0004 * (n - 11), n, lost=n in (11, 14), group=group) for n in range(11, 17)]
        arrows += [ack(0.0112 + 0.0012 * i, 11, group) for i in range(4)]
        arrows.append(data(0.0236 if group == normal else 0.0212, 11, kind="retransmission", group=group))
    arrows.append(ack(0.0344, 14, normal))
    arrows.append(data(1.5444, 14, kind="retransmission", group=normal))
    arrows.append(ack(1.5552, 17, normal))
    arrows.append(ack(0.0320, 14, tuned))
    arrows.append(data(0.0421, 14, kind="retransmission", group=tuned))
    arrows.append(ack(0.0529, 17, tuned))
    return FigureResult(
        id="fig16",
        title="Two losses in a window of eight",
        caption="Packets 11 and 14 are lost.",
        section="6.4",
        kind="ladder",
        y_label="Time [s]",
        ladder=arrows,
        command=COMMAND + "fig16",
        runs=1,
        seed=1,
    )


def equation() -> FigureResult:
    return FigureResult(
        id="eq-buffer",
        title="How large a socket buffer a modem can take",
        caption="The model of section 5.2.",
        section="5.2",
        kind="derivation",
        text="A window of `B` packets arrives at 25 Mbit/s and leaves at 10 Mbit/s, so the modem must hold\n\n"
        "    C >= (B - 1) (1 - 10/25)\n    7 >= (B - 1) 0.6\n    B <= 12.67 packets of 1460 B = 18.5 KB\n\n"
        "| buffer | packets | time-out |\n|---|---|---|\n| 16 KB | 11 | no |\n| 24 KB | 17 | yes |\n",
        command=COMMAND + "eq-buffer",
        seed=1,
    )


def table() -> FigureResult:
    return FigureResult(
        id="acks",
        title="Acknowledgements lost",
        caption="Throughput with the remedies.",
        section="7",
        kind="table",
        text="| ACK loss | throughput |\n|---|---|\n| 0% | 8.1 Mbit/s |\n| 20% | 6.2 Mbit/s |\n",
        command=COMMAND + "acks",
        runs=100,
        seed=1,
    )
