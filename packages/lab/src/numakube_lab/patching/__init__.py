"""The four ways to change an object: JSON patch, merge patch, strategic merge patch, apply.

Everything here is pure: documents go in, documents come out, and the arguments are never changed.
"""

from numakube_lab.patching.apply_conflicts import ApplyConflict, Conflict
from numakube_lab.patching.json_merge_patch import merge_patch
from numakube_lab.patching.json_patch import check_operations, json_patch
from numakube_lab.patching.managed_fields import to_parent, to_scale
from numakube_lab.patching.patch_errors import (
    InapplicablePatch,
    MalformedPatch,
    PatchError,
    PatchFailure,
    TooManyOperations,
)
from numakube_lab.patching.reset_fields import reset_fields
from numakube_lab.patching.server_side_apply import (
    Applied,
    Endpoint,
    apply,
    keep_times,
    track_update,
    with_managed_fields,
)
from numakube_lab.patching.strategic_merge_patch import strategic_merge_patch

__all__ = [
    "Applied",
    "ApplyConflict",
    "Conflict",
    "Endpoint",
    "InapplicablePatch",
    "MalformedPatch",
    "PatchError",
    "PatchFailure",
    "TooManyOperations",
    "apply",
    "check_operations",
    "json_patch",
    "keep_times",
    "merge_patch",
    "reset_fields",
    "strategic_merge_patch",
    "to_parent",
    "to_scale",
    "track_update",
    "with_managed_fields",
]
