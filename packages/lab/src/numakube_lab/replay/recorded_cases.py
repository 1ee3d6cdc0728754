"""The recorded cases: requests to send and the answers that a real server gave.

Compare an answer with a recorded one, up to what no two servers share. A recorded answer is a
template: ``<uid:1>`` stands for a uid, the same wherever the label is the same; ``<time>``,
``<ip>`` and the like for any value of that form. A label is bound by its first match, one value
to one label, so that "the version did not change" can be told from "it did".
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube_lab_server import Json, JsonValue


DEFAULT_QUIET_MS = 600


class AnswerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of an answer counts: elements of an array, or the keys of an object."""

    pointer: str
    values: tuple[str, ...]
    key: str | None = None
    keys: bool = False


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request, or an operation on several, and the answer to it."""

    op: str = ""
    method: str = "GET"
    path: str = ""
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    body: Any = UNSET
    raw_body: str | None = None
    user: str = msgspec.field(default="admin", name="as")
    captures: dict[str, str] = {}
    poll: bool = False
    settle_ms: int = 0
    check: str = ""
    compare: str = ""
    filter: AnswerFilter | None = None
    during: tuple[RecordedStep, ...] = ()
    requests: tuple[RecordedStep, ...] = ()
    until: str = ""
    quiet_ms: int = DEFAULT_QUIET_MS
    expect_bookmarks: bool = False

    status: int | None = None
    until_status: int | None = None
    response: Any = UNSET
    response_text: str | None = None
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()
    retry_after: Any = UNSET
    events: list[Any] | UnsetType = UNSET
    closed: bool | None = None
    bookmark: Any = UNSET
    statuses: tuple[int, ...] = ()


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the server of a case is started."""

    anonymous_auth: bool = True


class RecordedCase(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A sequence of requests that starts on an empty server."""

    id: str
    topic: str
    steps: tuple[RecordedStep, ...]
    managed_fields: bool = False
    server: ServerOptions = ServerOptions()
    cleanup: tuple[RecordedStep, ...] = ()


def read_cases(path: Path) -> Iterator[RecordedCase]:
    """Yield the cases of *path*, JSON lines that may be compressed with gzip."""
    decoder = msgspec.json.Decoder(RecordedCase)
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    for line in text.splitlines():
        if line.strip():
            yield decoder.decode(line)


def own_strings(case: RecordedCase) -> frozenset[str]:
    """Return every string that the requests of *case* contain: they are input, never generated."""
    found: set[str] = set()
    for step in _all_steps(case.steps):
        body = None if step.body is UNSET else step.body
        _collect([step.path, step.query, body, step.raw_body], found)
    return frozenset(found)


def _all_steps(steps: tuple[RecordedStep, ...]) -> Iterator[RecordedStep]:
    for step in steps:
        yield step
        yield from _all_steps(step.during)
        yield from _all_steps(step.requests)


def _collect(value: object, found: set[str]) -> None:
    match value:
        case str():
            found.add(value)
        case dict():
            for key, item in value.items():
                found.add(key)
                _collect(item, found)
        case list():
            for item in value:
                _collect(item, found)
        case _:
            pass


_ABSENT: Final = object()

# Years up to 2024 are input of a case and stand as they are.
_TIME: Final = r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d"
_SUFFIX: Final = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_UID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_FORMS: Final = {
    "rv": r"\d+",
    "uid": _UID,
    "continue": r"[A-Za-z0-9_=-]+",
    "time": _TIME + "Z",
    "microtime": _TIME + r"\.\d+Z",
    "ip": r"[0-9a-f.:]+",
    "port": r"\d+",
    "token": r".+",
    "address": r"[^\"]+",
    "age": rf"(?:\d+[smhdy])+|{_TIME}Z",
    "text": r".*",
    "dump": r".*",
    "diff": r".*",
    "ptr": r"0x[0-9a-f]+",
}

_TOKEN: Final = re.compile(r"<(rv|uid):(\d+)>|<name:([^>]*)>|<(" + "|".join(_FORMS) + r")>")

_MANAGED_ORDER: Final = ("operation", "manager", "apiVersion", "subresource")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer departs from the recorded one."""

    path: str
    wanted: object
    got: object

    def __str__(self) -> str:
        wanted = "nothing" if self.wanted is _ABSENT else repr(self.wanted)
        got = "nothing" if self.got is _ABSENT else repr(self.got)
        return f"{self.path or '/'}: wanted {wanted}, got {got}"


@dataclass
class Labels:
    """The values that the labels of a case stand for."""

    values: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def bind(self, label: str, value: str) -> bool:
        """Bind *label* to *value*; false if one of them is bound otherwise."""
        key = label.partition(":")[0] + " " + value
        return (
            self.values.setdefault(label, value) == value
            and self.labels.setdefault(key, label) == label
        )

    def copy(self) -> Labels:
        """Return an independent copy, for an attempt that may fail."""
        return Labels(dict(self.values), dict(self.labels))


@dataclass
class Matcher:
    """Compares the answers of one case.

    Attributes:
        own: the strings of the case's own requests, which are never generated values.
        managed_fields: whether ``metadata.managedFields`` counts.
    """

    own: frozenset[str]
    managed_fields: bool
    labels: Labels = field(default_factory=Labels)

    def differences(
        self, wanted: JsonValue, got: JsonValue, *, contains: bool = False
    ) -> list[Difference]:
        """Return where *got* departs from *wanted*; labels stay bound only if nowhere."""
        before = self.labels
        self.labels = before.copy()
        found = list(self._compare("", wanted, prepare(got, self.managed_fields), contains))
        if found:
            self.labels = before
        return found

    def _compare(
        self, path: str, wanted: JsonValue, got: JsonValue, contains: bool
    ) -> Iterator[Difference]:
        match wanted, got:
            case dict(), dict():
                yield from self._compare_objects(path, wanted, got, contains)
            case list(), list():
                yield from self._compare_arrays(path, wanted, got, contains)
            case _:
                if not self._same(wanted, got):
                    yield Difference(path, wanted, got)

    def _compare_objects(
        self,
        path: str,
        wanted: Json,
        got: Json,
        contains: bool,
    ) -> Iterator[Difference]:
        for key in sorted(wanted.keys() | got.keys()):
            where = f"{path}/{key}"
            if key not in got:
                yield Difference(where, wanted[key], _ABSENT)
            elif key in wanted:
                yield from self._compare(where, wanted[key], got[key], contains)
            elif not contains:
                yield Difference(where, _ABSENT, got[key])

    def _compare_arrays(
        self,
        path: str,
        wanted: list[JsonValue],
        got: list[JsonValue],
        contains: bool,
    ) -> Iterator[Difference]:
        for index in range(max(len(wanted), len(got))):
            where = f"{path}/{index}"
            if index >= len(got):
                yield Difference(where, wanted[index], _ABSENT)
            elif index >= len(wanted):
                yield Difference(where, _ABSENT, got[index])
            else:
                yield from self._compare(where, wanted[index], got[index], contains)

    def _same(self, wanted: object, got: object) -> bool:
        if isinstance(wanted, bool) != isinstance(got, bool):
            return False
        if wanted == got:
            return True
        if not isinstance(wanted, str) or "<" not in wanted or isinstance(got, bool):
            return False
        return isinstance(got, str | int) and self._matches(wanted, str(got))

    def _matches(self, template: str, text: str) -> bool:
        pattern, labels = _compile(template)
        found = re.fullmatch(pattern, text, re.DOTALL)
        if found is None or (text in self.own and template.startswith("<uid")):
            return False
        return all(
            self.labels.bind(label, value)
            for label, value in zip(labels, found.groups(), strict=True)
        )


def _compile(template: str) -> tuple[str, list[str]]:
    """Return the pattern of *template*, with a group for each label, and the labels."""
    parts: list[str] = []
    labels: list[str] = []
    end = 0
    for token in _TOKEN.finditer(template):
        parts.append(re.escape(template[end : token.start()]))
        end = token.end()
        labelled, number, prefix, form = token.groups()
        if labelled:
            parts.append(f"({_FORMS[labelled]})")
            labels.append(f"{labelled}:{number}")
        elif prefix is not None:
            parts.append(re.escape(prefix) + _SUFFIX)
        else:
            parts.append(f"(?:{_FORMS[form]})")
    return "".join(parts) + re.escape(template[end:]), labels


def prepare(value: JsonValue, managed_fields: bool) -> JsonValue:
    """Return an answer with its ``managedFields`` in recorded order, or without them."""
    if isinstance(value, list):
        return [prepare(item, managed_fields) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: prepare(item, managed_fields) for key, item in value.items()}
    metadata = result.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        entries = metadata.pop("managedFields")
        if managed_fields:
            metadata["managedFields"] = sorted(entries, key=_managed_key)
    return result


def _managed_key(entry: dict[str, str]) -> tuple[str, ...]:
    return tuple(entry.get(name, "") for name in _MANAGED_ORDER)
