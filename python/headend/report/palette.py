"""Colours and markers of curves, the same in the page and in the SVG files.

Eight hues that stay apart for the common kinds of colour blindness and keep 3:1 against their background, once for a
light page and once for a dark one. The page knows a colour by its CSS variable; a curve also has a marker of its own,
so that colour never carries the meaning alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """One colour: the CSS variable without its dashes, and its value on a light and on a dark page."""

    name: str
    light: str
    dark: str


CURVES = (
    Ink("c0", "#0b66b0", "#6cb4f5"),  # blue
    Ink("c1", "#c9480f", "#ff9466"),  # vermilion
    Ink("c2", "#0a8465", "#43c9a2"),  # green
    Ink("c3", "#8a3f9c", "#cf9ee6"),  # purple
    Ink("c4", "#9a6b00", "#e3b649"),  # ochre
    Ink("c5", "#3f4757", "#c3cad6"),  # slate
    Ink("c6", "#2a8fb5", "#8adcf0"),  # sky
    Ink("c7", "#c0417f", "#f58fbe"),  # rose
)
TEXT = Ink("text", "#1b1f24", "#e6e8eb")
SOFT = Ink("soft", "#59616b", "#9aa3ad")
LINE = Ink("line", "#d9dde2", "#343a42")
PAUSE = Ink("pause", "#f6f0e2", "#2c2920")
GOOD = Ink("good", "#0a7d5c", "#43c9a2")
BAD = Ink("bad", "#b4470f", "#ff9b6b")
PAGE = Ink("page", "#fcfcfb", "#15181c")
CARD = Ink("card", "#ffffff", "#1b1f24")
WASH = Ink("wash", "#f3f4f5", "#23282e")
LINK = Ink("link", "#0b5aa0", "#7dbdf7")

ALL = (*CURVES, TEXT, SOFT, LINE, PAUSE, GOOD, BAD, PAGE, CARD, WASH, LINK)

MARKERS = ("circle", "square", "triangle", "diamond", "down", "plus", "cross", "star")


def variables(dark: bool) -> str:
    """The palette as CSS declarations."""
    return "".join(f"--{ink.name}:{ink.dark if dark else ink.light};" for ink in ALL)
