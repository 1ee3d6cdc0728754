"""Conflicts of server-side apply: fields that others own and that would get another value.

A client that calls itself ``kubectl`` may change fields that others own if the annotation in which
kubectl keeps what it applied proves that it set them itself; the annotation is then kept up to
date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.patching.field_changes import compare
from numakube_lab.patching.field_sets import FieldSet, difference, intersection, paths, union
from numakube_lab.patching.patch_errors import PatchError, PatchFailure
from numakube_lab.patching.path_elements import render
from numakube_lab.patching.set_fields import field_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.patching.field_changes import Comparison
    from numakube_lab.patching.managed_fields import Manager, Shares
    from numakube_lab.patching.server_side_apply import Endpoint


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field and one of its owners."""

    manager: Manager
    path: str

    @property
    def message(self) -> str:
        """The message of the cause in the answer."""
        return f"conflict with {self.manager}"


class ApplyConflict(PatchError):
    """Others own what was applied: the answer is 409, with a cause for each conflict."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(_describe(conflicts))
        self.conflicts = conflicts


def require_no_conflict(shares: Shares, changes: Comparison, actor: Manager) -> None:
    """Make sure that nothing changes that managers other than *actor* own.

    Raises:
        ApplyConflict: something does.
    """
    changed = union(changes.modified, changes.added)
    contested = {
        manager: fields
        for manager, share in shares.items()
        if manager != actor and (fields := intersection(share.fields, changed))
    }
    if contested:
        raise ApplyConflict(_conflicts_of(contested))


def _conflicts_of(contested: Mapping[Manager, FieldSet]) -> tuple[Conflict, ...]:
    """Return a conflict for each place of each set.

    The server takes the managers in no particular order; here the last name comes first.
    """
    managers = sorted(contested, key=lambda manager: manager.identifier(), reverse=True)
    return tuple(
        Conflict(manager, render(path))
        for manager in managers
        for path in paths(contested[manager])
    )


def _describe(conflicts: tuple[Conflict, ...]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: {only.message}: {only.path}"
    lines = []
    managers = {conflict.manager for conflict in conflicts}
    for manager in sorted(managers, key=lambda manager: manager.identifier()):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {conflict.path}" for conflict in conflicts if conflict.manager == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


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
