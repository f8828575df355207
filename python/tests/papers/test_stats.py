import numpy as np
import pytest

from headend.papers import stats


def test_students_t_agrees_with_the_tables():
    # Fisher's table, two-sided 5%.
    for degrees, published in ((1, 12.706), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045), (99, 1.984)):
        assert stats.student_t95(degrees) == pytest.approx(published, rel=1e-3), degrees


def test_the_interval_of_a_mean_covers_the_truth_in_about_95_of_100_samples():
    rng = np.random.default_rng(4)
    covered = sum((estimate := stats.mean(rng.normal(10.0, 3.0, 12))).lo <= 10.0 <= estimate.hi for _ in range(1000))
    assert 930 <= covered <= 970, f"seed 4: {covered} of 1000"


@pytest.mark.parametrize("q", [0.25, 0.5, 0.75])
def test_the_interval_of_a_quantile_covers_it_in_at_least_95_of_100_samples_of_a_skewed_law(q):
    rng = np.random.default_rng(5)
    truth = -np.log(1.0 - q)
    covered = sum(
        (estimate := stats.quantile(rng.exponential(1.0, 60), q)).lo <= truth <= estimate.hi for _ in range(1000)
    )
    assert 935 <= covered <= 995, f"seed 5: {covered} of 1000"


def test_a_ratio_of_means_encloses_the_true_ratio_and_not_an_absurd_one():
    rng = np.random.default_rng(6)
    ratio = stats.ratio_of_means(rng.normal(6.0, 1.0, 200), rng.normal(3.0, 1.0, 200))
    assert ratio.lo < 2.0 < ratio.hi, f"seed 6: {ratio}"
    assert ratio.hi < 2.5


def test_runs_without_chance_have_an_exact_mean():
    assert stats.mean([3.0, 3.0, 3.0]) == stats.Estimate(3.0, 3.0, 3.0)
    assert stats.harmonic_mean([2.0]).hi == 2.0


def test_a_harmonic_mean_is_total_bits_over_total_time():
    # Two transfers of 12 bits, at 6 bit/s and 2 bit/s: 24 bits in 8 s.
    assert stats.harmonic_mean([6.0, 2.0]).value == pytest.approx(3.0)


def test_the_share_of_no_hits_is_still_uncertain():
    share = stats.proportion([False] * 20)
    assert share.value == 0.0
    assert 0.1 < share.hi < 0.25


def test_the_same_data_give_the_same_interval():
    rng = np.random.default_rng(7)
    data = rng.exponential(1.0, 50)
    assert stats.harmonic_mean(data + 1.0) == stats.harmonic_mean(data + 1.0)


@pytest.mark.parametrize("sample", [[], [1.0, float("nan")], [[1.0]]])
def test_a_sample_that_is_none_is_refused(sample):
    with pytest.raises(ValueError, match="a sample"):
        stats.mean(sample)
