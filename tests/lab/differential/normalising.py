"""Make answers of two servers comparable: what no two servers share gets a common name.

Uids and versions are numbered in the order in which a sequence meets them, so "the same object" and
"the version did not change" stay visible; times become ``<time>``, and what the server generates of
a name ``<suffix>``. Dumps of a server's internals in messages are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from numakube_lab.replay.recorded_cases import prepare

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Times up to 2024 are those of the requests.
_TIME: Final = re.compile(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE: Final = re.compile(r"(?:\d+[smhdy])+")
_VERSION: Final = re.compile(
    r"(?<=ResourceVersion in the precondition \()\d+|(?<=ResourceVersion in record \()\d+"
    r"|(?<=ResourceVersion in precondition: )\d+|(?<=ResourceVersion in object meta: )\d+"
)
_GENERATED: Final = re.compile(r"(gen\d+-)[bcdfghjklmnpqrstvwxz2456789]{5}")
_DIFF: Final = re.compile(r"(previously negative\))\n.*", re.DOTALL)
_DUMP: Final = re.compile(
    r'Invalid value: (?:\{.*[{\[].*\}|\{"[A-Za-z]*vailable.*\}|"\{.*\}"|"map\[.*\]"): '
)
# A real server walks the fields of an applied object in random order and stops at some mistakes.
_TYPED: Final = re.compile(r"(failed to create typed patch object \([^)]*\): ).*", re.DOTALL)
GIVEN_UID: Final = "00000000-0000-4000-8000-000000000000"


@dataclass
class Normaliser:
    """Normalises the answers of one server to one sequence."""

    managed_fields: bool = False
    names: dict[str, str] = field(default_factory=dict)

    def __call__(self, document: Any) -> Any:
        """Return *document* with common names."""
        return self._value(prepare(document, self.managed_fields), "")

    def _value(self, value: Any, key: str) -> Any:
        match value:
            case dict():
                return self._object(value, key)
            case list():
                return [self._value(item, key) for item in value]
            case str():
                return self._string(value, key)
            case _:
                return value

    def _object(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        if "items" in value or value.get("kind") == "Table":
            value = value | {"metadata": _of_list(value.get("metadata", {}))}
        if key == "columnDefinitions":
            value = value | {"description": "<text>"}
        return {name: self._value(item, name) for name, item in value.items()}

    def _string(self, text: str, key: str) -> str:
        if key == "resourceVersion" and text.isdigit():
            return self._number("rv", text)
        if key == "cells" and _AGE.fullmatch(text):
            return "<age>"
        text = _TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        text = _UID.sub(self._uid, text)
        text = _VERSION.sub(lambda found: self._number("rv", found[0]), text)
        text = _GENERATED.sub(r"\1<suffix>", text)
        text = _TYPED.sub(r"\1<mistakes>", text)
        return _DUMP.sub("Invalid value: <dump>: ", _DIFF.sub(r"\1\n<diff>", text))

    def _uid(self, found: re.Match[str]) -> str:
        return found[0] if found[0] == GIVEN_UID else self._number("uid", found[0])

    def _number(self, form: str, value: str) -> str:
        known = self.names.get(f"{form} {value}")
        if known is None:
            count = sum(1 for name in self.names if name.startswith(f"{form} "))
            known = self.names[f"{form} {value}"] = f"<{form}:{count + 1}>"
        return known


def _of_list(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a list without what depends on writes elsewhere."""
    return {
        name: f"<{name}>" if name in ("resourceVersion", "continue") else value
        for name, value in metadata.items()
    }
