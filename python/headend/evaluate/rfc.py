"""The sections of RFC 9743 and the metrics of RFC 5166, and what of an evaluation answers each."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from headend.evaluate.cases import cases


@dataclass(frozen=True, slots=True)
class Section:
    """A section that asks for an evaluation."""

    number: str
    title: str
    open: str = ""
    """What of it is not run, and why."""

    def cases(self, ran: Collection[str]) -> list[str]:
        """The cases that are for it, of those that were run."""
        return [case.id for case in cases("full") if self.number in case.sections and case.id in ran]


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric of RFC 5166."""

    number: str
    title: str
    metrics: tuple[str, ...] = ()
    open: str = ""


@cache
def sections() -> tuple[Section, ...]:
    """The sections of RFC 9743, in order."""
    return tuple(Section(**table) for table in _declared()["section"])


@cache
def asked() -> tuple[Asked, ...]:
    """The metrics of RFC 5166, in order."""
    return tuple(
        Asked(table["number"], table["title"], tuple(table.get("metrics", ())), table.get("open", ""))
        for table in _declared()["metric"]
    )


def _declared() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(resources.files("headend.evaluate").joinpath("rfc.toml").read_text(encoding="utf-8"))
