"""The answer to one AdmissionReview: a pod with its claim, as a JSON patch. Pure.

A webhook has no side effects: the template that the pod names is made afterwards, by what watches
pods (`template_keeper`). So a dry run gets the same answer as any other call.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import NumakubeError
from numakube.values.safe_text import quoted
from numakube_dra_driver.claims.claim_writing import (
    OFF,
    POLICY,
    SCOPE,
    LeftAlone,
    Policy,
    Scope,
    Wish,
    write_claims,
)
from numakube_placement.webhook.admission_review import AdmissionResponse, RefusalStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_dra_driver.claims.served_resources import Serving
    from numakube_placement.webhook.admission_review import AdmissionRequest

JSON_PATCH: Final = "JSONPatch"
UNPROCESSABLE: Final = 422
_LONGEST_WARNING: Final = 256
"""API servers cut what is longer."""


def answer(
    request: AdmissionRequest, serving: Serving, namespace_policy: str = ""
) -> AdmissionResponse:
    """Return the answer to *request*.

    Args:
        request: about a pod that is created; other requests are let through.
        serving: which class serves which resource.
        namespace_policy: what the label of the namespace says; the pod's annotation comes first.
    """
    tree = request.object
    if tree is None or request.operation != "CREATE" or request.sub_resource:
        return AdmissionResponse(uid=request.uid, allowed=True)
    annotations = _annotations(tree)
    said = annotations.get(POLICY, namespace_policy)
    if said in ("", OFF):
        return AdmissionResponse(uid=request.uid, allowed=True)
    for key, text, known in (
        (POLICY, said, [*Policy, OFF]),
        (SCOPE, annotations.get(SCOPE, Scope.POD), [*Scope]),
    ):
        if text not in known:
            return _refused(request.uid, f"{key}: {quoted(text)} is none of {', '.join(known)}")
    wish = Wish(policy=Policy(said), scope=Scope(annotations.get(SCOPE, Scope.POD)))
    placed = {**tree, "metadata": {**tree["metadata"], "namespace": request.namespace}}
    try:
        found = write_claims(placed, wish, serving)
    except NumakubeError as error:
        return _refused(request.uid, quoted(str(error)))
    if isinstance(found, LeftAlone):
        # Most pods of a namespace need no claim; of one that asks for it this is news.
        told = (f"no claim is written: {found.why}",) if POLICY in annotations else ()
        return _allowed(request.uid, told)
    if "namespace" not in tree["metadata"]:
        del found.pod["metadata"]["namespace"]
    return _allowed(request.uid, found.remarks, patch_of(tree, found.pod))


def patch_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations that make the pod *old* the pod *new*, in the fields that we write."""
    operations = [
        *_changed(old, new, ("metadata", "annotations")),
        *_changed(old, new, ("metadata", "labels")),
        *_changed(old, new, ("spec", "resourceClaims")),
    ]
    for kind in ("initContainers", "containers"):
        for number, _ in enumerate(new["spec"].get(kind) or ()):
            operations += _changed(old, new, ("spec", kind, number, "resources"))
    return operations


def _changed(
    old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str | int, ...]
) -> list[dict[str, Any]]:
    before, after = _at(old, path), _at(new, path)
    where = "/" + "/".join(map(str, path))
    if after == before:
        return []
    if after is None:
        return [{"op": "remove", "path": where}]
    return [{"op": "add", "path": where, "value": after}]


def _at(tree: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - any JSON
    for step in path:
        tree = tree[step] if isinstance(step, int) else tree.get(step)
        if tree is None:
            return None
    return tree


def _annotations(tree: Mapping[str, Any]) -> Mapping[str, str]:
    found = (tree.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}


def _allowed(
    uid: str, told: tuple[str, ...], operations: list[dict[str, Any]] | None = None
) -> AdmissionResponse:
    warnings = tuple(text[:_LONGEST_WARNING] for text in told)
    if not operations:
        return AdmissionResponse(uid=uid, allowed=True, warnings=warnings)
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return AdmissionResponse(
        uid=uid, allowed=True, warnings=warnings, patch=patch, patch_type=JSON_PATCH
    )


def _refused(uid: str, message: str) -> AdmissionResponse:
    status = RefusalStatus(message=message, code=UNPROCESSABLE)
    return AdmissionResponse(uid=uid, allowed=False, status=status)
