"""The message on a refused pod, in words that stay the same as long as the reason does.

kube-scheduler writes the texts into the pod's condition, and every write of a new text wakes the
pod and has it tried again at once. So no text has a number that moves: no free amounts, no counts,
no times. They begin with `MARK`, by which pods that we refused are found again after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.alignment_rejection import Kind, Rejection, RejectionGroup

if TYPE_CHECKING:
    from numakube.scheduling.framework.status import Status

MARK: Final = "NUMA: "
UNKNOWN_NODE: Final = f"{MARK}node is not known to the extender yet"
ON_ITS_WAY: Final = "zones are promised to another pod"


def text_of(status: Status) -> str:
    """Return the text for a refusal of the NUMA engine."""
    detail = status.detail
    if isinstance(detail, RejectionGroup):
        detail = detail.closest
    return MARK + (_words(detail) if isinstance(detail, Rejection) else status.message)


def _words(rejection: Rejection) -> str:
    subject = rejection.full_subject
    match rejection.kind:
        case Kind.BLOCKED:
            return "topology report of the node cannot be used for now"
        case (
            Kind.ANNOTATION | Kind.MISSING_DATA | Kind.WEAKER_POLICY | Kind.CLOSENESS | Kind.WAITING
        ):
            return rejection.message
        case Kind.UNREPORTED:
            return f"no zone reports {rejection.resource}"
        case Kind.NODE:
            return f"all zones together lack {rejection.resource} for {subject}"
        case Kind.SIZES:
            return f"cannot align {subject} ({rejection.reason})"
        case Kind.WHOLE_CORES:
            return f"cannot align {subject} ({rejection.resource}: not whole cores)"
        case Kind.KUBELET:
            return f"kubelet would refuse {subject} ({rejection.reason})"
        case Kind.ALIGN:
            return f"cannot align {subject} ({rejection.resource})"
