"""An evaluation as tables: for the terminal, and as a card in Markdown."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headend.evaluate.cases import Case, cases
from headend.evaluate.metrics import METRICS
from headend.evaluate.rfc import asked, sections
from headend.evaluate.runner import RUNS, Evaluation, Found, Row, Value

COLOUR = {"run": "green", "in part": "yellow", "not run": "red"}


def shown(value: Value, digits: int) -> str:
    """The mean, half of its interval, and in how many runs it happened if not in all."""
    if value.mean is None:
        return f"never (of {value.runs})"
    text = f"{value.mean:.{digits}f}"
    if value.hi is None or value.hi - value.mean >= 0.5 * 10**-digits:
        text += f" ± {value.hi - value.mean:.{digits}f}" if value.hi is not None else ""
    return text if value.happened == value.runs else f"{text} ({value.happened} of {value.runs})"


def heading(row: Row) -> str:
    """A metric with its unit."""
    return f"{row.metric.what} [{row.metric.unit}]" if row.metric.unit else row.metric.what


def state(number: str, evaluation: Evaluation) -> str:
    """Whether a section is run, in part, or not."""
    section = next(one for one in sections() if one.number == number)
    if not section.cases(evaluation.ran()):
        return "not run"
    return "in part" if section.open else "run"


def why_not(number: str, evaluation: Evaluation) -> str:
    """Why a section is not run, or not whole."""
    section = next(one for one in sections() if one.number == number)
    whole = section.cases({case.id for case in cases("full")})
    in_real_time = section.cases({case.id for case in cases("live")}) or not evaluation.request.is_live
    why = "Its cases were not asked for." if in_real_time else "Its cases are run in the simulator only."
    left_out = whole and not section.cases(evaluation.ran())
    return " ".join(filter(None, [why if left_out else "", section.open]))


def show(evaluation: Evaluation, console: Console) -> None:
    """Every case as a table, and every section of RFC 9743."""
    console.print(f"[bold]{escape(title(evaluation))}[/]")
    console.print(about(evaluation), markup=False)
    for found in evaluation.found:
        case = found.case
        console.print()
        console.print(f"[bold]{escape(case.id)}[/] (section {', '.join(case.sections)}): {escape(case.title)}")
        console.print(case.why, markup=False, style="dim")
        table = Table(show_edge=False, pad_edge=False)
        varies = len(case.points) > 1
        for name in (*(["point"] if varies else []), "metric"):
            table.add_column(name, overflow="fold")
        for name in evaluation.request.headings:
            table.add_column(name, justify="right", overflow="fold")
        last = ""
        for row in found.rows:
            point = row.point.text if row.point.text != last else ""
            last = row.point.text
            cells = [shown(value, row.metric.digits) for value in row.values]
            table.add_row(*map(escape, [*([point] if varies else []), heading(row), *cells]))
        console.print(table)
    console.print()
    table = Table(title="RFC 9743", title_justify="left", show_edge=False, pad_edge=False)
    for name in ("section", "title", "", "what is not run, and why"):
        table.add_column(name, overflow="fold")
    for section in sections():
        word = state(section.number, evaluation)
        reason = why_not(section.number, evaluation)
        table.add_row(section.number, escape(section.title), f"[{COLOUR[word]}]{word}[/]", escape(reason))
    console.print(table)


def title(evaluation: Evaluation) -> str:
    """The evaluation in a line."""
    subject, *others = evaluation.request.headings
    return f"{subject}, beside {' and '.join(others)}" if others else subject


def about(evaluation: Evaluation) -> str:
    """What the figures are."""
    request = evaluation.request
    runs = request.runs or RUNS[request.edition]
    if request.is_live:
        late = f" The machine did not keep up with the links in {evaluation.late} runs." if evaluation.late else ""
        each = "1 run" if runs == 1 else f"{runs} runs"
        return (
            f"The controls of the kernel, Linux {platform.release()}, in real time between hosts in network "
            f"namespaces, over emulated links: means of {each} of each point, ± half of Student's 95% interval. "
            f"Another time brings other figures.{late} Cases that are not here are run in the simulator only."
        )
    return (
        f"Simulated in virtual time, {request.edition} edition: means of {runs} runs unless a case has its own number, "
        f"seeds from {request.seed}, ± half of Student's 95% interval; none where all runs agree in what is shown."
    )


def card(evaluation: Evaluation) -> str:
    """The whole evaluation in Markdown, below a title of its own."""
    lines = [about(evaluation), "", f"    {evaluation.request.command}", ""]
    lines += ["### Sections of RFC 9743", "", *rfc_table(evaluation), ""]
    for found in evaluation.found:
        lines += [
            f"### {found.case.title}",
            "",
            f"{_sections(found.case)}, case `{found.case.id}`. {found.case.why}",
            "",
        ]
        lines += [*case_table(evaluation, found), ""]
    return "\n".join(lines).rstrip() + "\n"


def _sections(case: Case) -> str:
    return f"Section{'s' if len(case.sections) > 1 else ''} {' and '.join(case.sections)}"


def case_table(evaluation: Evaluation, found: Found) -> Iterator[str]:
    """A case's rows."""
    varies = len(found.case.points) > 1
    names = [*(["point"] if varies else []), "metric", *evaluation.request.headings]
    yield _line(names)
    yield "|" + "---|" * (len(names) - len(evaluation.request.headings)) + "---:|" * len(evaluation.request.headings)
    for row in found.rows:
        cells = [shown(value, row.metric.digits) for value in row.values]
        yield _line([*([row.point.text] if varies else []), heading(row), *cells])


def rfc_table(evaluation: Evaluation) -> Iterator[str]:
    """Every section of RFC 9743, with its cases or why it has none."""
    yield "| section | | cases | what is not run, and why |"
    yield "|---|---|---|---|"
    for section in sections():
        ran = ", ".join(f"`{name}`" for name in section.cases(evaluation.ran()))
        number = section.number
        yield _line([f"{number} {section.title}", state(number, evaluation), ran, why_not(number, evaluation)])


def metrics_table() -> Iterator[str]:
    """Every metric of RFC 5166, with what stands for it here."""
    yield "| RFC 5166 | here | what is not run, and why |"
    yield "|---|---|---|"
    for one in asked():
        here = ", ".join(dict.fromkeys(METRICS[name].what for name in one.metrics))
        yield _line([f"{one.number} {one.title}", here, one.open])


def definitions(names: list[str]) -> Iterator[str]:
    """What each metric is, and where it comes from."""
    yield "| metric | unit | definition | source |"
    yield "|---|---|---|---|"
    for name in names:
        metric = METRICS[name]
        yield _line([metric.what, metric.unit, metric.definition, metric.source])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
