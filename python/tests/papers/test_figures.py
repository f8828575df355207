import json
import math
from typing import Any

import pytest
from fake import FakeSimulator

from headend.papers import reference
from headend.papers.claim import published
from headend.papers.figure import SweepFigure
from headend.papers.model import FigureResult, StudyResult
from headend.papers.runner import Runner, scenarios
from headend.papers.study import PAPERS, UnknownFigureError, choose, run_figures
from headend.papers.units import abscissa

TUNING = PAPERS["tuning"]
SWEEPS = [figure for figure in TUNING.figures if isinstance(figure, SweepFigure)]
ALL_SWEEPS = [
    pytest.param(paper.id, figure, id=f"{paper.id}.{figure.id}")
    for paper in (TUNING, PAPERS["proxies"])
    for figure in paper.figures
    if isinstance(figure, SweepFigure)
]


def produce(paper: str, figure: Any, **options: Any) -> FigureResult:
    return figure.produce(Runner(paper=paper, edition="quick", runs_asked=5, simulate=FakeSimulator(), **options))


@pytest.mark.parametrize(("paper", "figure"), ALL_SWEEPS)
def test_every_swept_figure_runs_and_judges_its_claims(paper, figure):
    result = produce(paper, figure)
    assert result.series, "a figure shows something"
    assert {claim.id for claim in result.claims} == {claim.id for claim in figure.claims}
    for series in result.series:
        assert len(series.x) == len(series.y) == len(series.lo) == len(series.hi) > 0
        assert all(map(math.isfinite, [*series.y, *series.lo, *series.hi]))
        assert all(lo <= y <= hi for lo, y, hi in zip(series.lo, series.y, series.hi, strict=True))
    for claim in result.claims:
        assert claim.verdict == "reproduced" or claim.reason, f"{claim.id} differs without a reason"


def test_every_claim_of_the_file_is_judged_by_exactly_one_figure():
    judged = [claim.id for paper in PAPERS.values() for figure in paper.figures for claim in figure.claims]
    assert sorted(judged) == sorted(published())


@pytest.mark.parametrize(("paper", "figure"), ALL_SWEEPS)
def test_points_without_chance_are_run_once(paper, figure):
    simulate = FakeSimulator()
    figure.data(Runner(paper=paper, runs_asked=7, simulate=simulate))
    for call in simulate.calls:
        ((path, values),) = call["sweep"].items()
        packet = 1460 if "buffer" in path else None
        exact = [figure.exact(abscissa(value, packet)) for value in values]
        assert call["runs"] == (1 if all(exact) else 7)
        assert len(set(exact)) == 1


def test_figures_that_share_a_line_run_it_once():
    simulate = FakeSimulator()
    runner = Runner(paper="tuning", runs_asked=3, simulate=simulate)
    (figure,) = (figure for figure in SWEEPS if figure.id == "fig13")
    figure.data(runner)
    before = len(simulate.calls)
    figure.data(runner)
    assert len(simulate.calls) == before


def test_a_study_goes_to_json_and_back_unchanged():
    figures = [figure for figure in SWEEPS if figure.id in ("fig3", "fig18")]
    runner = Runner(paper="tuning", runs_asked=4, simulate=FakeSimulator())
    study = run_figures(TUNING, figures, runner, "test", lambda _: None)
    assert StudyResult.from_json(study.to_json()) == study


def test_a_study_that_is_not_one_is_refused_by_the_name_of_the_field():
    study = run_figures(TUNING, [], Runner(paper="tuning", simulate=FakeSimulator()), "test", lambda _: None)
    text = json.loads(study.to_json())
    text["edition"] = "rushed"
    with pytest.raises(ValueError, match=r"study\.edition: expected one of 'quick', 'full', found 'rushed'"):
        StudyResult.from_json(json.dumps(text))


@pytest.mark.parametrize(
    ("name", "count"), [("tuning", len(TUNING.figures)), ("tuning.fig4", 1), ("eq52", 1), ("fig4-today", 1)]
)
def test_figures_are_chosen_by_paper_or_by_name(name, count):
    ((paper, figures),) = choose([name])
    assert paper.id == "tuning"
    assert len(figures) == count


def test_an_unknown_figure_is_refused_with_what_there_is():
    with pytest.raises(UnknownFigureError, match=r"'fig99'.*tuning\.fig4\b"):
        choose(["fig17", "fig99"])


def test_a_name_that_two_papers_have_is_refused_with_the_choice():
    with pytest.raises(UnknownFigureError, match=r"'fig5': say tuning\.fig5 or proxies\.fig5"):
        choose(["fig5"])
    assert [(paper.id, [figure.id for figure in figures]) for paper, figures in choose(["fig3", "proxies.fig5"])] == [
        ("tuning", ["fig3"]),
        ("proxies", ["fig5"]),
    ]


@pytest.mark.parametrize(("paper", "figure"), ALL_SWEEPS)
def test_every_scenario_file_of_a_figure_is_there(paper, figure):
    for name in {figure.scenario, *(line.scenario or figure.scenario for line in figure.lines)}:
        assert (scenarios(paper) / f"{name}.toml").is_file(), name


def test_reference_curves_carry_an_interval_where_chance_has_a_part():
    series = reference.series("p1_fig04", "8KB delack=1 iw=1", "8 KB")
    by_x = dict(zip(series.x, zip(series.lo, series.y, series.hi, strict=True), strict=True))
    lo, y, hi = by_x[0.0]
    assert lo == y == hi == pytest.approx(2.96035)
    lo, y, hi = by_x[2.0]
    assert lo < y < hi


@pytest.mark.parametrize(
    ("value", "packet", "expected"),
    [
        ("1.5%", None, 1.5),
        ("300KB", None, 300),
        ("3MB", None, 3000),
        ("8760B", 1460, 6),
        (7, None, 7),
        ("20ms", None, 0.02),
    ],
)
def test_values_of_a_scenario_stand_on_the_axis_in_the_figures_unit(value, packet, expected):
    assert abscissa(value, packet) == pytest.approx(expected)


@pytest.mark.parametrize("value", ["many", "1 furlong", None, True])
def test_a_value_that_is_no_quantity_has_no_place_on_an_axis(value):
    with pytest.raises(ValueError, match="not a number with a unit"):
        abscissa(value)
