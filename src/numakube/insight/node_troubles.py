"""What keeps pods from a node as a whole, in the words of ``kubectl get nodes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.api.nodes import Node

NOT_READY: Final = "NotReady"
CORDONED: Final = "SchedulingDisabled"


def troubles_of(node: Node | None) -> tuple[str, ...]:
    """Return why *node* takes no pods, or no new ones; empty if nothing is known against it."""
    if node is None:
        return ()
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "True")
    return (*((NOT_READY,) if ready != "True" else ()), *((CORDONED,) * node.spec.unschedulable))
