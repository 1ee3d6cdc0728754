"""Taking over from client-side apply: the annotation in which kubectl keeps what it applied.

A client that calls itself ``kubectl`` may change fields that others own if the annotation proves
that it set them itself before; afterwards the annotation is kept up to date.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.patching.comparison import compare
from numakube_lab.patching.field_sets import difference, paths
from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.patching.path_elements import render
from numakube_lab.patching.set_fields import field_set

if TYPE_CHECKING:
    from numakube_lab.patching.conflicts import ApplyConflict
    from numakube_lab.patching.server_side_apply import Endpoint

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_CLIENT: Final = "kubectl"


def allowed_conflicts(
    conflict: ApplyConflict, live: dict[str, Any], *, manager: str, endpoint: Endpoint
) -> bool:
    """Tell whether the annotation allows every conflict."""
    if manager != _CLIENT:
        return False
    try:
        config = json.loads(_annotation(live) or "null")
    except ValueError:
        return False
    if not isinstance(config, dict) or config.get("apiVersion") != endpoint.gvk.api_version:
        return False
    try:
        changes = compare(endpoint.root, config, live)
        owned = field_set(endpoint.root, config)
    except PatchFailure:
        return False
    for changed in (changes.modified, changes.added, changes.removed):
        owned = difference(owned, changed)
    mine = {render(path) for path in paths(owned)}
    return all(item.path in mine for item in conflict.conflicts)


def with_last_applied(obj: dict[str, Any], config: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return *obj* with the annotation renewed, if it has one and the client is kubectl."""
    if manager != _CLIENT or not _annotation(obj):
        return obj
    metadata = obj["metadata"]
    text = json.dumps(_bare(config), separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**metadata["annotations"], ANNOTATION: text}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _annotation(obj: dict[str, Any]) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION) or "")


def _bare(config: dict[str, Any]) -> dict[str, Any]:
    metadata = config.get("metadata") or {}
    if metadata.get("annotations") is None:
        return config
    annotations = {k: v for k, v in metadata["annotations"].items() if k != ANNOTATION}
    return {**config, "metadata": {**metadata, "annotations": annotations}}
