"""What the classes of `headend.fields` have in common: fields as attributes, tables within tables, mistakes by name."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from headend._native import ScenarioError

T = TypeVar("T", bound="Section")


class Section:
    """A table of a scenario: each field an attribute, None where the file would not have it.

    A table within it is there as soon as it is spoken of (`link.down.loss = "1%"`), and may be given as a dict. A field
    whose name is a word of Python's ends in an underscore: `flow.from_`.
    """

    _kind: ClassVar[str] = "section"
    _fields: ClassVar[tuple[str, ...]] = ()
    _held: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Fields that hold tables: how ("table", "tables" by name, "part": a plain value or a table), and their class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" not in vars(cls):
            return
        take = cls.__init__

        @functools.wraps(take)
        def checked(self: Section, *args: Any, **given: Any) -> None:
            for name in given:
                if (field := name.removesuffix("_")) not in cls._fields:
                    raise TypeError(cls._unknown(field))
            take(self, *args, **given)

        cls.__init__ = checked  # type: ignore[method-assign, assignment]

    def _take(self, given: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in given.items():
            if name != "self" and value is not None:
                setattr(self, name, value)

    @classmethod
    def _of(cls, given: Mapping[str, Any]) -> Self:
        made = cls()
        for name, value in given.items():
            made._put(name, value)
        return made

    def _put(self, field: str, value: Any) -> None:
        if field not in self._fields:
            raise ScenarioError(self._unknown(field))
        values: dict[str, Any] = self._values
        if value is None:
            values.pop(field, None)
            return
        try:
            values[field] = self._converted(field, value)
        except ScenarioError as error:
            raise ScenarioError(f"{field}.{error}") from None

    def _converted(self, field: str, value: Any) -> Any:
        how, name = self._held.get(field, ("", ""))
        if how == "tables":
            if not isinstance(value, Mapping):
                raise TypeError(f"{field}: a dict of tables by name is needed, not {value!r}")
            return Tables(self._class(name), value)
        if how and isinstance(value, Mapping | Section):
            return _section(self._class(name), value)
        if how == "table":
            raise TypeError(f"{field}: a {self._class(name).__name__} or a dict is needed, not {value!r}")
        return value

    def _class(self, name: str) -> type[Section]:
        found: type[Section] = getattr(sys.modules["headend.fields"], name)
        return found

    @classmethod
    def _unknown(cls, field: str) -> str:
        near = difflib.get_close_matches(field, cls._fields, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(cls._fields)}"
        return f"{field}: a {cls._kind} has no such field{hint}"

    def __setattr__(self, name: str, value: Any) -> None:
        field = name.removesuffix("_")
        if field not in self._fields:
            raise AttributeError(self._unknown(field))
        self._put(field, value)

    def __getattr__(self, name: str) -> Any:
        field = name.removesuffix("_")
        if field not in self._fields or name.startswith("_"):
            raise AttributeError(self._unknown(field) if not name.startswith("_") else name)
        values: dict[str, Any] = self._values
        if field not in values:
            how, kind = self._held.get(field, ("", ""))
            if how == "table":
                values[field] = self._class(kind)()
            elif how == "tables":
                values[field] = Tables(self._class(kind), {})
        return values.get(field)

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    def __dir__(self) -> Iterable[str]:
        return [*object.__dir__(self), *(_attribute(field) for field in self._fields)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self)._of(self.to_dict())
        memo[id(self)] = made
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Section):
            return NotImplemented
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{_attribute(name)}={value!r}" for name, value in self._said())
        return f"{type(self).__name__}({fields})"

    def _said(self) -> Iterator[tuple[str, Any]]:
        """Fields that say something: not a table that was only looked at."""
        for field in self._fields:
            value = self._values.get(field)
            if value is None or (isinstance(value, Section | Tables) and not _plain(value)):
                continue
            yield field, value

    def to_dict(self) -> dict[str, Any]:
        """The fields that are given, as `headend.run` takes them: dicts, lists, text and numbers."""
        return {field: _plain(value) for field, value in self._said()}


class Tables(dict[str, T]):
    """Tables of one kind by name, such as a scenario's links; a dict that is put in becomes one of the kind."""

    def __init__(self, kind: type[T], given: Mapping[str, T | Mapping[str, Any]]) -> None:
        super().__init__()
        self._kind = kind
        for name, value in given.items():
            self[name] = value

    def __setitem__(self, name: str, value: T | Mapping[str, Any]) -> None:
        try:
            super().__setitem__(name, _section(self._kind, value))
        except ScenarioError as error:
            raise ScenarioError(f"{name}.{error}") from None
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None

    def __missing__(self, name: str) -> T:
        near = difflib.get_close_matches(name, self, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self) or 'none'}"
        raise KeyError(f"no {self._kind._kind} is called {name!r}; {hint}")


def _section(kind: type[T], value: Any) -> T:
    if isinstance(value, kind):
        return value
    if isinstance(value, Mapping):
        return kind._of(value)
    raise TypeError(f"a {kind.__name__} or a dict is needed, not {value!r}")


def _attribute(field: str) -> str:
    return f"{field}_" if field == "from" else field


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
