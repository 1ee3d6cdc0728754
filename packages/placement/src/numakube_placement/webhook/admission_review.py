"""The answer to one AdmissionReview (admission.k8s.io/v1): a pure function of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import Wire, always, convert, decode, encode
from numakube.api.koordinator.keys import ALLOTMENT, NO_ALLOTMENT
from numakube.api.pod import Pod
from numakube.errors import MalformedObject, NumakubeError
from numakube.values.safe_text import quoted
from numakube_placement.koordinator.annotation_checks import findings_in, pod_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

UNPROCESSABLE: Final = 422
FORBIDDEN: Final = 403
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})
_LONGEST_WARNING: Final = 256
"""API servers cut what is longer."""


class AdmissionRequest(Wire, frozen=True):
    """What is to be done with an object; ``old_object`` is what it has been."""

    uid: str
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class FieldCause(Wire, frozen=True):
    """What is wrong with one field."""

    field: str = ""
    message: str = ""
    reason: str = always("FieldValueInvalid")


class Details(Wire, frozen=True):
    """Everything that is wrong, and with what."""

    kind: str = ""
    name: str = ""
    causes: tuple[FieldCause, ...] = ()


class RefusalStatus(Wire, frozen=True):
    """Why an object is refused."""

    message: str
    reason: str = always("Invalid")
    code: int = 0
    details: Details = Details()


class AdmissionResponse(Wire, frozen=True):
    """The answer; warnings are shown to the client that sent the object.

    Attributes:
        patch: operations in base64, of the form that ``patch_type`` says.
    """

    uid: str
    allowed: bool
    status: RefusalStatus | None = None
    warnings: tuple[str, ...] = ()
    patch: str = ""
    patch_type: str = ""


class AdmissionReview(Wire, frozen=True):
    """A question, or the answer to it."""

    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None
    api_version: str = always(API_VERSION)
    kind: str = always(KIND)


def read_review(body: bytes) -> AdmissionRequest:
    """Return the question in *body*.

    Raises:
        MalformedObject: there is none.
    """
    review = decode(AdmissionReview, body, KIND)
    if review.api_version != API_VERSION or review.kind != KIND:
        found = f"{review.api_version} {review.kind}"
        raise MalformedObject(KIND, f"{found} is not {API_VERSION} {KIND}", path="apiVersion")
    if review.request is None:
        raise MalformedObject(KIND, "is required", path="request")
    return review.request


def write_review(response: AdmissionResponse) -> bytes:
    """Return the answer as it goes back."""
    return encode(AdmissionReview(response=response))


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
        found = [problem for problem in _problems(tree) if problem not in known]
    except NumakubeError as error:
        # The API server has read it; that we cannot is no fault of the object.
        return _warned(
            request.uid, (f"numakube cannot read this {_kind(tree)}: {quoted(str(error))}",)
        )
    return _refused(request.uid, tree, found) if found else _warned(request.uid, ())


def judge_allotment(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a pod that says what it was given.

    API servers ask here only about writers who are neither schedulers nor kubelets; they can look
    up rights.
    """
    old, new = (_annotations_of(tree) for tree in (request.old_object, request.object))
    added = [
        key
        for key in ALLOTMENT
        if new.get(key, NO_ALLOTMENT) not in (NO_ALLOTMENT, old.get(key, ""))
    ]
    if not added:
        return AdmissionResponse(uid=request.uid, allowed=True)
    message = f"only schedulers may write {' and '.join(added)}: leave it out, a scheduler adds it"
    status = RefusalStatus(message=message, reason="Forbidden", code=FORBIDDEN)
    return AdmissionResponse(uid=request.uid, allowed=False, status=status)


def _annotations_of(tree: dict[str, Any] | None) -> dict[str, str]:
    metadata = (tree or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _kind(tree: dict[str, Any]) -> str:
    return "pod" if tree.get("kind") == "Pod" else "object"


def _problems(tree: dict[str, Any]) -> tuple[str, ...]:
    pod = convert(Pod, tree)
    return () if pod.metadata.deletion_timestamp else pod_problems(pod)


def _warned(uid: str, findings: Sequence[str]) -> AdmissionResponse:
    warnings = tuple(finding[:_LONGEST_WARNING] for finding in findings)
    return AdmissionResponse(uid=uid, allowed=True, warnings=warnings)


def _refused(uid: str, tree: dict[str, Any], findings: Sequence[str]) -> AdmissionResponse:
    causes = []
    for finding in findings:
        field, _, message = finding.partition(": ")
        causes.append(FieldCause(field=field, message=message))
    meta = tree["metadata"]
    details = Details(
        kind="Pod",
        name=str(meta.get("name") or meta.get("generateName", "")),
        causes=tuple(causes),
    )
    status = RefusalStatus(message="; ".join(findings), code=UNPROCESSABLE, details=details)
    return AdmissionResponse(uid=uid, allowed=False, status=status)
