"""Conflicts of server-side apply: fields that others own and that would get another value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube_lab.patching.field_sets import FieldSet, paths
from numakube_lab.patching.patch_errors import PatchError
from numakube_lab.patching.path_elements import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.patching.managers import Manager


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
    """Others own what was applied: the client is told so with 409, a cause for each conflict."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(_describe(conflicts))
        self.conflicts = conflicts


def conflicts_of(contested: Mapping[Manager, FieldSet]) -> tuple[Conflict, ...]:
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
