"""The recorded cases: requests to send and the answers that a real server gave."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

DEFAULT_QUIET_MS = 600


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of an answer counts: elements of an array, or the keys of an object."""

    pointer: str
    values: tuple[str, ...]
    key: str | None = None
    keys: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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
    filter: Filter | None = None
    during: tuple["Step", ...] = ()
    requests: tuple["Step", ...] = ()
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


class Case(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A sequence of requests that starts on an empty server."""

    id: str
    topic: str
    steps: tuple[Step, ...]
    managed_fields: bool = False
    server: ServerOptions = ServerOptions()
    cleanup: tuple[Step, ...] = ()


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of *path*, JSON lines that may be compressed with gzip."""
    decoder = msgspec.json.Decoder(Case)
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    for line in text.splitlines():
        if line.strip():
            yield decoder.decode(line)


def own_strings(case: Case) -> frozenset[str]:
    """Return every string that the requests of *case* contain: they are input, never generated."""
    found: set[str] = set()
    for step in _all_steps(case.steps):
        body = None if step.body is UNSET else step.body
        _collect([step.path, step.query, body, step.raw_body], found)
    return frozenset(found)


def _all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
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
