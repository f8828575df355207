"""What the paper states of the DOCSIS modem, which is not simulated yet: listed, and not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headend.papers.claim import Claim, published
from headend.papers.model import FigureResult

if TYPE_CHECKING:
    from headend.papers.runner import Runner


@dataclass(frozen=True, slots=True)
class OpenClaims:
    """The claims of a paper without a measurement, and what each waits for."""

    id: str
    title: str
    paper: str
    claims: Sequence[Claim[Any]] = ()

    def produce(self, runner: Runner) -> FigureResult:
        """Lists them."""
        rows = [
            f"| `{name}` | {entry.what} | {entry.text} | not yet measured: {entry.entry['waits_for']} |"
            for name, entry in published().items()
            if name.startswith(f"{self.paper}.") and "waits_for" in entry.entry
        ]
        return FigureResult(
            id=self.id,
            title=self.title,
            caption="Claims that have no verdict, neither way.",
            section="",
            kind="table",
            x_label="",
            y_label="",
            text="\n".join(["| claim | what | published | measured |", "|---|---|---|---|", *rows]),
            command=runner.command(self.id),
            seed=runner.seed,
        )


TABLE = OpenClaims("open", "What is not yet measured", "fast")
