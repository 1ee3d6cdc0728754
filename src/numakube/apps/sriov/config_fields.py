"""Reading objects of the configuration: keys in any case, values of the right kind, and complaints.

Go's JSON decoder, which has read these files so far, takes keys in any case, lets the last of
several win, takes ``null`` for nothing said, and refuses values of the wrong kind. So do we; what
it ignores (keys that it does not know) is remarked upon.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.sriov.config_types import Remark
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KINDS: Final = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
_SHOWN: Final = 60


class WrongKind(ConfigError):
    """A value is of the wrong kind; the text says where."""


class Fields:
    """The members of one object."""

    def __init__(self, where: str, tree: Mapping[str, Any]) -> None:
        """Take the members.

        Args:
            where: what the object is called in complaints.
            tree: its members; of keys that differ in case only, the last that says something
                counts.
        """
        self.where = where
        self._members: dict[str, tuple[str, Any]] = {}
        for key, value in tree.items():
            if value is not None or key.casefold() not in self._members:
                self._members[key.casefold()] = key, value
        self._known: list[str] = []

    def get(self, key: str) -> object:
        """Return the value at *key*; ``None`` if there is none."""
        self._known.append(key)
        return self._members.get(key.casefold(), (key, None))[1]

    def has(self, key: str) -> bool:
        """Tell whether something is said at *key*."""
        return self.get(key) is not None

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self.get(key)
        return default if value is None else expect(value, str, self.at(key))

    def switch(self, key: str) -> bool:
        """Return whether something is on."""
        return bool(self.maybe_switch(key))

    def maybe_switch(self, key: str) -> bool | None:
        """Return whether something is on; ``None`` if nothing is said."""
        value = self.get(key)
        return None if value is None else expect(value, bool, self.at(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        found = self.items(key)
        return tuple(text_or_null(one, f"{self.at(key)}[{n}]") for n, one in enumerate(found))

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.get(key)
        return [] if value is None else expect(value, list, self.at(key))

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return an object as it is."""
        value = self.get(key)
        return {} if value is None else expect(value, dict, self.at(key))

    def pairs(self, key: str) -> Mapping[str, str]:
        """Return an object whose values are strings."""
        found = self.mapping(key)
        return {name: text_or_null(one, f"{self.at(key)}.{name}") for name, one in found.items()}

    def at(self, key: str) -> str:
        """Return what the value at *key* is called in complaints."""
        return f"{self.where}: {key}"

    def unknown(self, beside: Iterable[str] = ()) -> list[Remark]:
        """Return remarks on unknown keys, with the nearest one that exists."""
        known = {key.casefold(): key for key in (*self._known, *beside)}
        remarks = []
        for folded, (key, _) in self._members.items():
            if folded not in known:
                near = difflib.get_close_matches(folded, known, n=1)
                hint = f" (is {known[near[0]]!r} meant?)" if near else ""
                remarks.append(Remark(self.where, f"unknown key {key!r} is ignored{hint}"))
        return remarks


def text_or_null(value: object, where: str) -> str:
    """Return a string; ``null`` stands for the empty one, as in Go.

    Raises:
        WrongKind: it is neither.
    """
    return "" if value is None else expect(value, str, where)


def expect(value: object, kind: type, where: str) -> Any:  # noqa: ANN401 - of that kind
    """Return *value*, which must be of *kind*.

    Raises:
        WrongKind: it is not.
    """
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        shown = json.dumps(value, default=str)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise WrongKind(f"{where}: must be {_KINDS[kind]}, not {shown}")
    return value
