"""The four ways to change an object: JSON patch, merge patch, strategic merge patch, apply.

Everything here is pure: documents go in, documents come out, and the arguments are never changed.
"""

from kube_lab_server.patching.field_changes import ApplyConflict, FieldConflict
from kube_lab_server.patching.field_sets import reset_fields
from kube_lab_server.patching.json_patch import (
    InapplicablePatch,
    MalformedPatch,
    PatchError,
    PatchFailure,
    TooManyOperations,
    check_operations,
    json_patch,
    merge_patch,
)
from kube_lab_server.patching.managed_fields import to_parent, to_scale
from kube_lab_server.patching.server_side_apply import (
    Applied,
    WriteEndpoint,
    apply,
    keep_times,
    track_update,
    with_managed_fields,
)
from kube_lab_server.patching.strategic_merge_patch import strategic_merge_patch

__all__ = [
    "Applied",
    "ApplyConflict",
    "FieldConflict",
    "InapplicablePatch",
    "MalformedPatch",
    "PatchError",
    "PatchFailure",
    "TooManyOperations",
    "WriteEndpoint",
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
