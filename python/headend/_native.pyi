import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Results", "ScenarioError", "SimulationError", "__commit__", "__version__", "run"]

__version__: str
__commit__: str

class ScenarioError(ValueError): ...
class SimulationError(RuntimeError): ...

_Column: TypeAlias = NDArray[Any] | tuple[NDArray[np.uint32], list[str]]
_Table: TypeAlias = dict[str, _Column]

@final
class Results:
    """What a sweep yields. Each table can be taken once: its memory goes to the caller."""
    @property
    def scenario(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def flows(self) -> _Table: ...
    def links(self) -> _Table: ...
    def circuits(self) -> _Table | None: ...
    def media(self) -> _Table | None: ...
    def intervals(self) -> _Table | None: ...
    def series(self) -> _Table | None: ...
    def packets(self) -> _Table | None: ...
    def captures(self) -> list[tuple[int, int, str, bytes]]: ...

def run(
    kind: Literal["path", "toml", "json"],
    text: str,
    settings: Sequence[tuple[str, str]],
    sweep: Sequence[tuple[str, Sequence[str]]],
    threads: int | None = None,
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> Results: ...
