"""The evaluation's own arithmetic, that its cases are scenarios, and that nothing RFC 9743 asks for is left unsaid."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headend
from headend.evaluate import cli, text
from headend.evaluate.cases import Setup, cases, disciplines
from headend.evaluate.metrics import METRICS, WINDOW_S, Outcome
from headend.evaluate.rfc import asked, sections
from headend.evaluate.runner import Evaluation, Request, Value, evaluate
from headend.report import marked

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/evaluate.md"


def outcome_of(case: str, rates: dict[str, Any], **settings: Any) -> Outcome:
    """An outcome whose flows received these rates: for each flow runs, instances, intervals."""
    chosen = next(one for one in cases("full") if one.id == case)
    setup = replace(Setup.of(chosen, chosen.points[0], "cubic"), **settings)
    outcome = Outcome(setup, SimpleNamespace(links={"run": np.zeros(1)}))  # type: ignore[arg-type]
    outcome.rate = lambda flow: np.array(rates[flow], dtype=float)  # type: ignore[method-assign]
    return outcome


def test_every_section_has_a_case_or_says_why_not() -> None:
    numbers = [section.number for section in sections()]
    assert len(set(numbers)) == len(numbers) == 27
    everything = {case.id for case in cases("full")}
    for section in sections():
        assert section.cases(everything) or section.open, section.number
    for case in cases("full"):
        assert set(case.sections) <= {*numbers, "5.1"}, case.id
        assert set(case.metrics) <= set(METRICS), case.id
    for metric in asked():
        assert metric.metrics or metric.open, metric.number
        assert set(metric.metrics) <= set(METRICS), metric.number


def test_every_point_of_every_case_is_a_scenario() -> None:
    count = 0
    for case in cases("full"):
        for point in case.points:
            setup = replace(Setup.of(case, point, "cubic"), seconds=0.1)
            headend.run(setup.scenario(), seed=1, runs=1, threads=1)
            count += 1
    assert count > 100


def test_the_quick_edition_has_every_case_of_the_full_one() -> None:
    quick, full = cases("quick"), cases("full")
    assert [case.id for case in quick] == [case.id for case in full]
    assert all(len(few.points) <= len(all_.points) for few, all_ in zip(quick, full, strict=True))


def test_every_queue_of_the_engine_with_defaults_is_tried() -> None:
    aqm = next(case for case in cases("quick") if case.id == "aqm")
    assert [point.values["line.discipline"] for point in aqm.points] == disciplines()
    assert {"drop-tail", "red"} <= set(disciplines())


def test_a_newcomer_is_fair_once_both_have_two_fifths() -> None:
    ends = np.arange(1, 901) / 10
    second = np.where(ends <= 20, 0.0, np.where(ends <= 30, 2.0, 10.0))
    outcome = outcome_of("convergence", {"own": [[25 - second]], "other": [[second]]})
    # At 10 of 25 two seconds hold it from 32 s on.
    assert METRICS["delta_fair"].of(outcome) == pytest.approx([12.0])
    outcome = outcome_of("convergence", {"own": [[0.0 * second]], "other": [[25.0 + 0.0 * second]]})
    assert np.isnan(METRICS["delta_fair"].of(outcome)).all(), "one that has everything is not fair"


def test_recovery_counts_to_the_begin_of_two_good_seconds() -> None:
    ends = np.arange(1, 901) / 10
    outcome = outcome_of("outage", {"own": [[np.where((ends > 20) & (ends <= 27), 0.0, 25.0)]]})
    assert METRICS["recovery"].of(outcome) == pytest.approx([27 - 23 - WINDOW_S * 0.1], abs=0.11)


def test_jain_and_the_least_agree_with_the_definition() -> None:
    rates = np.ones((1, 1, 900)) * np.array([[[1.0], [1.0], [4.0]]])
    outcome = outcome_of("fairness", {"own": rates})
    assert METRICS["jain"].of(outcome) == pytest.approx([36 / (3 * 18)])
    assert METRICS["least"].of(outcome) == pytest.approx([50.0])


def test_a_flow_starves_below_a_tenth_of_its_part() -> None:
    poor = np.where(np.arange(4500) < 2625, 12.5, 1.0)
    outcome = outcome_of("beside-one", {"other": [[poor]]})
    # 25 Mbit/s for two: 1 Mbit/s is less than a tenth of half of it. From 52.5 s to 90 s, of 15 s to 90 s.
    assert METRICS["other_starved"].of(outcome) == pytest.approx([50.0], abs=0.7)


def test_what_happens_in_some_runs_is_counted_and_never_is_said() -> None:
    value = Value.of([1.0, np.nan, 3.0])
    assert (value.mean, value.runs, value.happened) == (2.0, 3, 2)
    assert text.shown(value, 1).endswith("(2 of 3)")
    assert text.shown(Value.of([np.nan, np.nan]), 1) == "never (of 2)"
    assert text.shown(Value.of([2.0, 2.0]), 1) == "2.0"


def test_known_strengths_and_failures_are_found() -> None:
    only = ("bufferbloat", "blackout", "beside-one")
    request = Request("fast", beside=("cubic", "bbr"), edition="quick", only=only, runs=2)
    found = {one.case.id: one.rows for one in evaluate(request).found}

    def of(case: str, metric: str, point: str) -> Sequence[float]:
        row = next(row for row in found[case] if row.metric.name == metric and row.point.text == point)
        return [value.mean if value.mean is not None else np.nan for value in row.values]

    fast, cubic, bbr = of("bufferbloat", "queue_p95", "16 BDP")
    assert fast < 20 < bbr * 10 < 400 < cubic < 660, "CUBIC fills 640 ms, FAST keeps 20 packets: 9.6 ms"
    fast, cubic, bbr = of("beside-one", "other_kept", "beside cubic, 0.5 BDP")
    assert bbr < 50 < cubic < 150, "BBRv1 takes a short queue from CUBIC (RFC 9743 s5.1.3)"
    assert fast > 100, "and FAST gives way where CUBIC fills it"
    for packets in of("blackout", "blind_packets", ""):
        assert 2 <= packets <= 12, "a time-out that doubles sends a handful in a minute"


def test_an_evaluation_comes_again_to_the_byte_on_any_number_of_threads() -> None:
    request = Request("reno", beside=("cubic",), edition="quick", only=("random-loss",), runs=2)
    texts = {evaluate(replace(request, threads=threads)).to_json() for threads in (1, 2)}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    assert document["columns"] == ["reno", "cubic"]
    assert {row["metric"] for case in document["cases"] for row in case["rows"]} == {"used", "queue_p95"}


def test_settings_of_the_subject_make_a_column_beside_the_same_without() -> None:
    request = Request("fast", beside=("fast",), tcp={"fast_alpha": 100}, edition="quick", only=("burst-loss",), runs=2)
    (found,) = evaluate(request).found
    assert request.headings == ["fast, fast_alpha 100", "fast"]
    assert found.rows[1].values[0].mean != found.rows[1].values[1].mean


def test_a_page_a_card_and_the_values_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "reno"
    words = ["--quick", "--only", "blackout", "--only", "random-loss", "--runs", "2", "--beside", "", "--out", str(out)]
    assert cli.main([*words, "reno"]) == 0
    assert {"index.html", "study.json", "evaluation.json", "card.md"} <= {path.name for path in out.iterdir()}
    card = (out / "card.md").read_text(encoding="utf-8")
    assert "| 5.1.1 Protection Against Congestion Collapse | run | `blackout` |" in card
    assert "Its cases were not asked for." in card
    assert "sent blindly" in capsys.readouterr().out
    first = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert cli.main([*words, "reno"]) == 0
    assert first == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nemo"], "no such congestion control; there are reno, cubic"),
        (["fats"], "no such congestion control; did you mean 'fast'? There are reno, cubic"),
        (["reno", "--only", "nemo"], "there is no such case"),
        (["reno", "--set", "fast_alpha"], "expected FIELD=VALUE"),
        (["reno", "--only", "blackout", "--set", "cwnd=3"], "no such field"),
        ([], "which congestion control?"),
    ],
)
def test_a_wrong_request_is_answered(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


def test_the_page_of_the_docs_has_every_metric_as_it_is_defined() -> None:
    names = list(dict.fromkeys(name for case in cases("full") for name in case.metrics))
    assert set(names) == set(METRICS), "a metric that no case takes"
    if os.environ.get("HEADEND_BLESS"):
        marked.write(PAGE, "metrics", "\n".join(text.definitions(names)))
    page = PAGE.read_text(encoding="utf-8")
    for line in text.definitions(names):
        assert line in page, "HEADEND_BLESS=1 with this test writes the table"


def test_what_is_not_asked_for_is_not_said_to_be_run() -> None:
    nothing = Evaluation(Request("reno"), ())
    assert {text.state(section.number, nothing) for section in sections()} == {"not run"}
    assert all(text.why_not(section.number, nothing) for section in sections())


def test_cases_in_real_time_are_some_of_the_others_and_short() -> None:
    live, full = cases("live"), {case.id: case for case in cases("full")}
    assert 0 < len(live) < len(full)
    assert sum(len(case.points) for case in live) <= 15
    for case in live:
        assert case.settings["seconds"] <= 20
        assert case.metrics == full[case.id].metrics
    nothing = Evaluation(Request("bbr", edition="live"), ())
    assert text.why_not("7.9", nothing).startswith("Its cases are run in the simulator only.")
    assert text.why_not("5.1.2", nothing).startswith("Its cases were not asked for.")
