"""What the webhook says to one request: a pure function of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.allotment.checking import findings_in, pod_problems
from numakube.api.codec import convert
from numakube.api.core import Pod
from numakube.apps.webhook.protocol import AdmissionResponse, Cause, Details, Status
from numakube.errors import NumakubeError
from numakube.values.printing import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.webhook.protocol import AdmissionRequest

UNPROCESSABLE: Final = 422
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})
_LONGEST_WARNING: Final = 256
"""API servers cut what is longer."""


def judge(request: AdmissionRequest) -> AdmissionResponse:
    """Return the answer to *request*.

    Only what is new is held against an update: a pod that is wrong already must still be able to
    lose a finalizer.
    """
    tree = request.object
    if tree is None or request.operation not in _OPERATIONS or request.sub_resource:
        return AdmissionResponse(uid=request.uid, allowed=True)
    try:
        if tree.get("kind") != "Pod":
            return _warned(request.uid, findings_in(tree) or ())
        known = set(_problems(request.old_object)) if request.old_object else set()
        found = [one for one in _problems(tree) if one not in known]
    except NumakubeError as error:
        # The API server has read it; that we cannot is no fault of the object.
        return _warned(
            request.uid, (f"numakube cannot read this {_kind(tree)}: {quoted(str(error))}",)
        )
    return _refused(request.uid, tree, found) if found else _warned(request.uid, ())


def _kind(tree: dict[str, Any]) -> str:
    return "pod" if tree.get("kind") == "Pod" else "object"


def _problems(tree: dict[str, Any]) -> tuple[str, ...]:
    pod = convert(Pod, tree)
    return () if pod.metadata.deletion_timestamp else pod_problems(pod)


def _warned(uid: str, findings: Sequence[str]) -> AdmissionResponse:
    warnings = tuple(one[:_LONGEST_WARNING] for one in findings)
    return AdmissionResponse(uid=uid, allowed=True, warnings=warnings)


def _refused(uid: str, tree: dict[str, Any], findings: Sequence[str]) -> AdmissionResponse:
    causes = []
    for one in findings:
        field, _, message = one.partition(": ")
        causes.append(Cause(field=field, message=message))
    meta = tree["metadata"]
    details = Details(
        kind="Pod",
        name=str(meta.get("name") or meta.get("generateName", "")),
        causes=tuple(causes),
    )
    status = Status(message="; ".join(findings), code=UNPROCESSABLE, details=details)
    return AdmissionResponse(uid=uid, allowed=False, status=status)
