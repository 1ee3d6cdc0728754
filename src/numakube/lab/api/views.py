"""The other shapes of objects that clients ask for: tables and bare metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.lab.api.rendering import stored_text

if TYPE_CHECKING:
    from numakube.lab.api.call import Call
    from numakube.lab.api.store import ChangeType, Stored
    from numakube.lab.kinds import Json


class EventView:
    """Writes the events of a watch in the representation that its client asked for."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def event(self, kind: ChangeType, stored: Stored) -> bytes:
        """Return the line that tells of *stored*."""
        text = stored_text(self._call.resource, stored)
        return b'{"type":"%s","object":%s}\n' % (kind.value.encode(), text)

    def bookmark(self, version: int, annotations: Json | None) -> bytes:
        """Return the line of a bookmark."""
        metadata: Json = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._call.resource.kind
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        obj |= self._call.rules.empty()
        return b'{"type":"BOOKMARK","object":%s}\n' % msgspec.json.encode(obj)
