import math

import pytest

from headend.papers import claim as claims
from headend.papers.stats import Estimate


def judged(estimate: Estimate, accept: claims.Range):
    return claims.Claim(
        id="tuning.fig15.timer",
        measure=lambda _: [claims.criterion("gain", "~2", estimate, accept)],
        reason=lambda _, criteria: f"The gain is {criteria[0].measured:.2f}.",
        tolerance="given by the test",
    ).judge(None)


def test_a_value_within_its_range_is_reproduced_and_needs_no_reason():
    result = judged(Estimate(1.9, 1.8, 2.0), claims.about(2, 1))
    assert (result.verdict, result.reason) == ("reproduced", "")
    assert result.published == "~2"
    assert result.measured == "1.9"
    assert result.interval == "1.8 .. 2"


@pytest.mark.parametrize("absurd", [0.0, -3.0, 1.2, 2.6, 40.0, 1e9])
def test_a_value_outside_its_range_differs_and_the_reason_quotes_it(absurd):
    result = judged(Estimate.exact(absurd), claims.about(2, 1))
    assert result.verdict == "differs"
    assert f"{absurd:.2f}" in result.reason


def test_a_value_that_is_no_number_is_an_error_and_not_a_verdict():
    with pytest.raises(claims.MeasurementError, match=r"tuning\.fig15\.timer"):
        judged(Estimate.exact(math.nan), claims.Range())


def test_one_criterion_that_fails_is_enough_to_differ():
    both = claims.Claim(
        id="tuning.fig16.sfr",
        measure=lambda _: [
            claims.criterion("holds", "1", Estimate.exact(1.0), claims.exactly(1)),
            claims.criterion("fails", "0", Estimate.exact(1.0), claims.at_most(0)),
        ],
        reason=lambda _, criteria: f"{criteria[1].measured:g} and not 0.",
        tolerance="exact",
    ).judge(None)
    assert both.verdict == "differs"
    assert both.measured == "holds: 1; fails: 1"


def test_another_reading_is_shown_without_a_say_in_the_verdict():
    result = claims.Claim(
        id="tuning.fig15.timer",
        measure=lambda _: [
            claims.criterion("ours", "~2", Estimate.exact(2.0), claims.about(2, 1)),
            claims.criterion("theirs", "~2", Estimate.exact(9.0), claims.about(2, 1), judged=False),
        ],
        reason=lambda *_: "never asked",
        tolerance="",
    ).judge(None)
    assert result.verdict == "reproduced"
    assert "theirs 9 (outside the range)" in result.reason


def test_a_claim_without_a_judged_number_is_refused():
    empty = claims.Claim(id="tuning.fig15.timer", measure=lambda _: [], reason=lambda *_: "", tolerance="")
    with pytest.raises(claims.MeasurementError, match="nothing to judge"):
        empty.judge(None)


@pytest.mark.parametrize(("published", "digit", "lo", "hi"), [(2.8, 0.1, 2.38, 3.22), (0.2, 0.1, 0.15, 0.25)])
def test_the_general_tolerance_is_15_percent_or_half_a_printed_digit(published, digit, lo, hi):
    accepted = claims.about(published, digit)
    assert (accepted.lo, accepted.hi) == pytest.approx((lo, hi))


def test_the_bands_of_the_claims_file_are_read_as_ranges():
    assert claims.published()["tuning.fig5.timeouts"].band("at_3pct") == claims.Range(7.0, 16.0)


def test_a_strict_bound_is_not_accepted_itself():
    assert 1.0 not in claims.more_than(1.0)
    assert 1.0 not in claims.less_than(1.0)
    assert 1.0 in claims.at_most(1.0)
    assert math.inf not in claims.more_than(1.0)


def test_a_verdict_that_chance_could_have_turned_says_so():
    close = judged(Estimate(1.75, 1.6, 1.9), claims.about(2, 0.1))
    assert (close.verdict, "Close" in close.reason) == ("reproduced", True)
    clear = judged(Estimate(2.0, 1.9, 2.1), claims.about(2, 1))
    assert clear.reason == ""
