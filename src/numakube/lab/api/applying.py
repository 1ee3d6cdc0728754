"""Server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.lab.api.refusals import unsupported_media_type

if TYPE_CHECKING:
    from numakube.lab.api.call import Call, Reply
    from numakube.lab.api.options import WriteOptions
    from numakube.lab.api.state import State


def apply_patch(state: State, call: Call, options: WriteOptions) -> Reply:
    """Handle an apply patch."""
    del state, call, options
    raise unsupported_media_type("apply is not served")
