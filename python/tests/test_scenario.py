"""Scenarios built and edited from Python."""

import copy
import inspect
from pathlib import Path

import numpy as np
import pytest

import headend
from headend.fields import Flow, Link, Loss, Node

ROOT = Path(__file__).parents[2]


def small() -> headend.Scenario:
    return headend.Scenario(
        title="one transfer",
        duration="60s",
        nodes={"server": Node(personality="linux"), "pc": {}},
        links={"line": Link(between=["server", "pc"], rate="10Mbit/s", delay="10ms")},
        flows={"get": Flow(from_="server", to="pc", bytes="100KB")},
    )


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_is_read_and_written_as_the_same_scenario(path, tmp_path):
    read = headend.Scenario.load(path)
    assert headend.Scenario.parse(_without_recordings(read.to_toml())) == headend.Scenario.parse(
        _without_recordings(path.read_text())
    )
    if "trace =" not in read.to_toml():
        read.save(tmp_path / "again.toml")
        assert headend.Scenario.load(tmp_path / "again.toml") == read


def _without_recordings(text: str) -> str:
    """A recording is found beside its file, which text alone has none of."""
    return text.replace('"traces/', f'"{ROOT}/scenarios/traces/').replace(
        '"recordings/', f'"{ROOT}/scenarios/recordings/'
    )


def test_a_scenario_of_parts_runs_as_the_same_text_does():
    scenario = small()
    result = scenario.run()
    assert result.flows["completed"].tolist() == [1]
    assert result == headend.run(scenario.to_toml()) == headend.run(scenario)


def test_fields_are_changed_as_attributes_and_tables_appear_as_they_are_spoken_of():
    scenario = small()
    scenario.links["line"].loss = np.float64(0.02)
    scenario.links["line"].back.loss = Loss(model="bit", rate=1e-6)
    scenario.nodes["pc"].tcp.delayed_ack = 1
    scenario.nodes["router"] = {"kind": "router"}
    assert scenario.nodes["pc"].tcp.mss is None, "looking adds nothing"
    assert headend.Scenario.parse(scenario.to_toml()).to_dict() == {
        **small().to_dict(),
        "nodes": {"server": {"personality": "linux"}, "pc": {"tcp": {"delayed_ack": 1}}, "router": {"kind": "router"}},
        "links": {
            "line": {
                "between": ["server", "pc"],
                "rate": "10Mbit/s",
                "delay": "10ms",
                "loss": 0.02,
                "back": {"loss": {"model": "bit", "rate": 1e-6}},
            }
        },
    }
    del scenario.links["line"].loss
    assert scenario.links["line"].loss is None


def test_a_copy_is_changed_alone():
    scenario = small()
    for other in (scenario.copy(), copy.deepcopy(scenario)):
        assert other == scenario
        other.links["line"].rate = "1Mbit/s"
        assert scenario.links["line"].rate == "10Mbit/s"
        assert other != scenario


def test_a_sweep_takes_numpy_s_numbers_and_refuses_a_bare_text():
    losses = small().run(sweep={"links.line.loss": np.array([0.0, 0.01])}).flows
    assert losses.where(loss=0.01).rows == 1
    with pytest.raises(TypeError, match=r"links\.line\.loss: a list of values is needed"):
        small().run(sweep={"links.line.loss": "1%"})
    with pytest.raises(headend.ScenarioError, match=r"sweep\.\"links\.line\.loss\": .* a list"):
        headend.Scenario(**{**small().to_dict(), "sweep": {"links.line.loss": "1%"}}).run()


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda _: headend.Scenario(titel="x"), TypeError, "titel: a scenario has no such field; .* 'title'"),
        (lambda s: setattr(s.links["line"], "los", 1), AttributeError, "los: a link has no such field; .* 'loss'"),
        (lambda s: s.links["line"].rat, AttributeError, "did you mean 'rate'"),
        (lambda s: s.links["lin"], KeyError, "no link is called 'lin'; did you mean 'line'"),
        (lambda _: headend.Scenario(nodes={"a": {"persnality": "x"}}), headend.ScenarioError, r"nodes\.a\.persnality"),
        (lambda _: headend.Scenario(nodes={"a": 3}), TypeError, "a: a Node or a dict is needed, not 3"),
        (lambda _: headend.Scenario(nods={}), TypeError, "nods"),
    ],
)
def test_a_mistake_names_the_field_and_what_was_meant(wrong, kind, message):
    with pytest.raises(kind, match=message):
        wrong(small())


def test_a_wrong_value_is_named_before_anything_runs():
    scenario = small()
    scenario.links["line"].rate = 25e6
    for checked in (scenario.check, scenario.to_toml, scenario.run):
        with pytest.raises(
            headend.ScenarioError, match=r'links\.line\.rate: found 25000000\.0, expected a rate such as "25M'
        ):
            checked()


def test_editors_know_every_field_with_its_type():
    parameters = inspect.signature(Link).parameters
    assert set(parameters) == {"from_" if name == "from" else name for name in Link._fields}
    assert "Literal['plain'" in parameters["kind"].annotation.replace('"', "'")
    assert "loss" in dir(small().links["line"])
