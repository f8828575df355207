"""Tables of the book that commands write between markers."""

import dataclasses

import pytest
from fake import FakeSimulator

from headend.papers import tables, validate
from headend.papers.runner import Runner
from headend.papers.study import PAPERS, run_figures
from headend.report import marked

PAGE = """# A page

<!-- claims tuning: written by the command above -->
what was there
<!-- end of claims tuning -->

and more
"""


@pytest.fixture(scope="module")
def study():
    figures = [figure for figure in PAPERS["tuning"].figures if figure.id in ("fig3", "fig18")]
    runner = Runner(paper="tuning", edition="quick", runs_asked=4, simulate=FakeSimulator())
    return run_figures(PAPERS["tuning"], figures, runner, "the command", lambda _: None)


def test_each_judged_number_has_a_row_and_the_command_is_named(study):
    head, rule, *rows, last = [line for line in tables.claims(study).splitlines() if line]
    judged = [one for claim in study.claims() for one in claim.criteria if one.judged]
    assert len(rows) == len(judged)
    assert {row.count("|") for row in (head, rule, *rows)} == {7}
    assert [" *" in row.split("|")[4] for row in rows] == [not one.holds for one in judged]
    assert "Written by `the command`" in last
    assert "seed 1" in last


def test_a_lab_s_goal_that_is_missed_is_marked(study):
    lab = dataclasses.replace(study, subject="lab")
    text = tables.goals(lab)
    missed = sum(claim.verdict == "differs" for claim in lab.claims())
    assert missed > 0
    assert text.count("**missed**") == missed


def test_curves_are_rows_with_a_cell_for_each_abscissa(study):
    head, _, *rows = tables.lines(study.figures[0]).splitlines()
    assert len(rows) == len(study.figures[0].series)
    assert {row.count("|") for row in rows} == {head.count("|")}


def test_rows_of_ns_2_are_counted_by_rules_and_those_that_differ_are_named():
    runner = Runner(paper="tuning", runs_asked=2, simulate=FakeSimulator())
    compared = validate.validate(runner, figures=["p1_fig03"])
    text = tables.ns2(compared, "the command")
    agree = sum(one.verdict == "agrees" for one in compared)
    assert f"| all | {len(compared)} | {agree} |" in text
    assert text.count("p1_fig03") == len(compared) - agree


def test_a_part_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    marked.write(page, "claims tuning", "a table\n")
    assert page.read_text() == PAGE.replace("what was there", "a table")


def test_a_page_without_a_place_for_the_part_is_refused_and_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(marked.MarkedError, match="claims fast"):
        marked.write(page, "claims fast", "a table")
    assert page.read_text() == PAGE


def test_of_a_claim_with_many_numbers_those_that_fail_are_shown(study):
    (claim, *_) = study.figures[0].claims
    (one,) = (of for of in claim.criteria if of.judged)
    numbers = [dataclasses.replace(one, what=f"number {i}", holds=i > 1) for i in range(9)]
    many = dataclasses.replace(claim, criteria=numbers)
    figure = dataclasses.replace(study.figures[0], claims=[many])
    text = tables.claims(dataclasses.replace(study, figures=[figure]))
    assert "7 of 9 numbers hold" in text
    assert [f"number {i}" in text for i in range(9)] == [i < 2 for i in range(9)]
