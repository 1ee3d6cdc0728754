"""Patches of every kind that an API server understands, except apply (`Client.apply`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

APPLY = "application/apply-patch+yaml"
"""The type of a server-side apply; JSON is YAML, so that is what we send."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to an object, in one of the formats that servers understand."""

    content_type: str
    body: bytes


def merge_patch(change: Mapping[str, object] | msgspec.Struct) -> Patch:
    """Return a JSON merge patch (RFC 7386): None removes a field, a list replaces the old one."""
    return Patch("application/merge-patch+json", msgspec.json.encode(change))


def json_patch(operations: Sequence[Mapping[str, object]]) -> Patch:
    """Return a JSON patch (RFC 6902): operations that all succeed or change nothing."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def strategic_patch(change: Mapping[str, object] | msgspec.Struct) -> Patch:
    """Return a strategic merge patch: lists are merged by key; built-in kinds only."""
    return Patch("application/strategic-merge-patch+json", msgspec.json.encode(change))
