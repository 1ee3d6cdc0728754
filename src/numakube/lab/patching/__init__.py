"""The four ways to change an object: JSON patch, merge patch, strategic merge patch and apply.

Everything here is pure: documents go in, documents come out, and the arguments are never changed.
"""

from numakube.lab.patching.errors import (
    InapplicablePatch,
    MalformedPatch,
    PatchError,
    PatchFailure,
    TooManyOperations,
)
from numakube.lab.patching.json_patch import json_patch
from numakube.lab.patching.merge_patch import merge_patch
from numakube.lab.patching.strategic import strategic_merge_patch

__all__ = [
    "InapplicablePatch",
    "MalformedPatch",
    "PatchError",
    "PatchFailure",
    "TooManyOperations",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
]
