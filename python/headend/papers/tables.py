"""Tables of Markdown for the book: a study's claims, a lab's goals, the comparison with ns-2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headend.papers.claim import interval, number
from headend.papers.figure import markdown
from headend.papers.model import ClaimResult, Criterion, FigureResult, StudyResult
from headend.papers.validate import Comparison

RULES = {"ns2": "ns-2.35", "ns96": "1996"}
"""Loss-recovery rules by the reference tables' name for them."""


def claims(study: StudyResult) -> str:
    """The judged numbers of every claim, then what was run."""
    rows = [
        f"| {row} |"
        for claim in study.claims()
        for row in _rows(claim, [one for one in claim.criteria if one.judged], study.id)
    ]
    held = sum(claim.verdict == "reproduced" for claim in study.claims())
    head = "| claim | what | published | measured | 95% interval | |"
    return f"{markdown(head, rows)}\n{held} of {len(study.claims())} claims are reproduced. {_taken(study)}"


def goals(study: StudyResult) -> str:
    """Every goal of a lab, then what was run."""
    rows = [
        f"| {claim.what} | {claim.published} | {claim.measured} | {claim.interval} | "
        f"{'met' if claim.verdict == 'reproduced' else '**missed**'} |"
        for claim in study.claims()
    ]
    return f"{markdown('| what | goal | measured | 95% interval | |', rows)}\n{_taken(study)}"


def lines(figure: FigureResult) -> str:
    """The curves of a figure, a row each."""
    xs = sorted({x for series in figure.series for x in series.x})
    rows = []
    for series in figure.series:
        at = dict(zip(series.x, series.y, strict=True))
        rows.append(f"| {series.label} | {' | '.join(number(at[x]) if x in at else '' for x in xs)} |")
    return markdown(f"| {figure.x_label}: | {' | '.join(f'{x:g}' for x in xs)} |", rows)


def ns2(compared: Sequence[Comparison], command: str) -> str:
    """How many rows agree, by what is random in them and by the rules of loss recovery, and which do not."""
    rows = []
    for exact, what in ((True, "without media loss"), (False, "with media loss")):
        for sim, rules in RULES.items():
            chosen = [one for one in compared if one.exact == exact and one.sim == sim]
            agree = sum(one.verdict == "agrees" for one in chosen)
            rows.append(f"| {what}, rules of {rules} | {len(chosen)} | {agree} |")
    agree = sum(one.verdict == "agrees" for one in compared)
    rows.append(f"| all | {len(compared)} | {agree} |")
    differing = [one for one in compared if one.verdict == "differs"]
    text = markdown("| rows | in all | agree |", rows)
    if differing:
        head = "| differs: table, curve, abscissa | rules | ns-2 [Mbit/s] | here | by |"
        text += f"\n{markdown(head, [_differs(one) for one in differing])}"
    return f"{text}\nWritten by `{_plain(command)}`."


def _differs(one: Comparison) -> str:
    return (
        f"| {one.fig}, {one.series}, {one.x:g} | {RULES[one.sim]} | {number(one.reference_mbps)} | "
        f"{number(one.measured_mbps)} | {100 * one.off:+.1f}% |"
    )


MANY = 6
"""Of a claim with more numbers than that only those are shown that do not hold."""


def _rows(claim: ClaimResult, judged: Sequence[Criterion], study: str) -> Iterable[str]:
    name = f"`{claim.id.removeprefix(f'{study}.')}`"
    verdict = "reproduced" if claim.verdict == "reproduced" else "**differs**"
    shown = judged
    if len(judged) > MANY:
        shown = [one for one in judged if not one.holds]
        yield f"{name} | {len(judged) - len(shown)} of {len(judged)} numbers hold | | | | {verdict}"
        name = verdict = ""
    for one in shown:
        measured = number(one.measured, one.unit) + ("" if one.holds else " *")
        yield f"{name} | {one.what} | {one.published} | {measured} | {interval(one)} | {verdict}"
        name = verdict = ""


def _taken(study: StudyResult) -> str:
    day = study.started.partition("T")[0]
    # A simulation yields the same on any machine.
    told = f"seed {study.seed}" if study.subject == "paper" else study.machine
    return f"Written by `{_plain(study.command)}` on {day} ({told}, {study.version})."


def _plain(command: str) -> str:
    """Without what does not matter to the results."""
    return re.sub(r" --(?:page|out|threads|worst)[ =]\S+", "", command)
