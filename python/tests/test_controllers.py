"""Congestion controls written in Python."""

import runpy
import traceback
from pathlib import Path

import pytest

import headend

EXAMPLE = Path(__file__).parents[2] / "examples/controllers/aimd.py"
EXAMPLES = runpy.run_path(str(EXAMPLE))
SCENARIO, AIMD = EXAMPLES["SCENARIO"], EXAMPLES["Aimd"]
SHORT = {"duration": "3s", "nodes.server.personality": "mine"}


class Fixed:
    """Ten segments, whatever happens."""

    def __init__(self, setup):
        self.window = 10 * setup.mss_bytes

    def on_ack(self, ack):
        pass

    def on_loss(self, loss):
        pass

    def on_timeout(self, loss):
        pass


def goodput(make, **settings):
    result = headend.run(SCENARIO, controllers={"mine": make}, set=SHORT | settings, seed=1)
    return result.flows["goodput_bps"][0]


def test_the_example_does_what_the_engines_reno_does_and_gentle_gets_more(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    rates = {line.split()[0]: float(line.split()[1]) for line in capsys.readouterr().out.splitlines()}
    assert 0 < rates["aimd"] < rates["gentle"] < 10
    reno = {"nodes.server.tcp.controller": "reno", "nodes.server.tcp.window_in_segments": False}
    found = headend.run(SCENARIO, set=reno, runs=3).flows["goodput_bps"].mean() / 1e6
    assert rates["aimd"] == pytest.approx(found, rel=0.15)


def test_a_fixed_window_fills_a_round_trip_once():
    # Ten segments of 1448 bytes each 40 ms and the time that they take on the line.
    assert goodput(Fixed, **{"links.line.loss": "0%"}) == pytest.approx(10 * 1448 * 8 / 0.0413, rel=0.05)


def test_a_pacing_rate_is_kept():
    class Paced(Fixed):
        def __init__(self, setup):
            self.window = 100 * setup.mss_bytes
            self.pacing_rate = 2e6

    assert goodput(Paced, **{"links.line.loss": "0%"}) == pytest.approx(2e6, rel=0.05)


def test_the_same_controller_gives_the_same_run_again():
    assert goodput(AIMD) == goodput(AIMD)


def test_an_error_of_a_controller_reaches_its_author_with_the_line():
    class Broken(Fixed):
        def on_loss(self, loss):
            raise ArithmeticError(f"at {loss.now_s:.1f} s")

    with pytest.raises(ArithmeticError, match=r"at \d") as raised:
        goodput(Broken)
    assert 'raise ArithmeticError(f"at' in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("window", "error", "said"),
    [
        (100, ValueError, "must be from one segment"),
        (float("nan"), ValueError, "must be from one segment"),
        ("much", TypeError, "window is a number of bytes"),
    ],
)
def test_a_window_that_is_none_is_refused(window, error, said):
    class Wrong(Fixed):
        def __init__(self, setup):
            super().__init__(setup)
            self.window = window

    with pytest.raises(error, match=said):
        goodput(Wrong)


def test_a_class_without_a_method_is_refused_when_it_is_needed():
    class Deaf:
        def __init__(self, setup):
            self.window = setup.initial_window_bytes

    with pytest.raises(AttributeError, match="on_ack"):
        goodput(Deaf)


def test_a_controller_has_a_name_that_a_personality_can_have():
    with pytest.raises(ValueError, match="linux"):
        headend.run(SCENARIO, controllers={"linux": Fixed})
