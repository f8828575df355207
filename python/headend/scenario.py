"""Scenarios built and edited from Python."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from headend import _native
from headend.fields import Root
from headend.results import Result


class Scenario(Root):
    """A network, what is sent over it, and what is varied: a scenario file as an object.

        scenario = headend.Scenario.load("scenarios/hfc.toml")
        scenario.nodes["server"].personality = "linux"
        scenario.links["cable"].down.loss = 0.01
        result = scenario.run()

    Tables within it are classes of `headend.fields`, or dicts with the same fields. What can be wrong with a field by
    itself and with fields together is checked by `check`, `to_toml` and `run`: each names the field. What `sweep`
    varies stands above the field itself: `scenario.sweep = None` ends it.
    """

    _file: ClassVar[str | None] = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The scenario of a file; comments are not kept.

        Raises OSError if it cannot be read, and ScenarioError, with file, line and field, if it is no scenario.
        """
        _native.toml("path", os.fspath(path))
        made = cls._of(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        object.__setattr__(made, "_file", os.fspath(path))
        return made

    @classmethod
    def parse(cls, text: str) -> Self:
        """The scenario that TOML text describes. Raises ScenarioError as `load`."""
        _native.toml("toml", text)
        return cls._of(tomllib.loads(text))

    def copy(self) -> Self:
        """A scenario that can be changed without changing this one."""
        made = self._of(self.to_dict())
        object.__setattr__(made, "_file", self._file)
        return made

    def check(self) -> None:
        """Raise ScenarioError, naming the field, if this is no scenario that can be run."""
        self.to_toml()

    def to_toml(self) -> str:
        """The scenario as the text of a file. Raises ScenarioError as `check`."""
        return _native.toml("json", json.dumps(self.to_dict(), allow_nan=False), self._file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scenario to a file that `headend sim` reads. Raises ScenarioError as `check`, and OSError."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def run(
        self,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as in headend.run
        sweep: Mapping[str, Sequence[Any]] | None = None,
        runs: int | None = None,
        seed: int | None = None,
        threads: int | None = None,
        trace: bool = False,
        progress: Callable[[int, int], None] | bool | None = None,
    ) -> Result:
        """Simulate it; arguments, results and exceptions are those of `headend.run`."""
        from headend.simulation import run

        return run(self, set=set, sweep=sweep, runs=runs, seed=seed, threads=threads, trace=trace, progress=progress)

    def __repr__(self) -> str:
        tables = ((name, getattr(self, name)) for name in ("nodes", "links", "flows", "circuits", "sweep"))
        parts = "; ".join(f"{name} {', '.join(table)}" for name, table in tables if table)
        return f"Scenario({self.title or 'untitled'!r}: {parts or 'empty'})"
