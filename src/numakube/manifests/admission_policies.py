"""ValidatingAdmissionPolicies: rules about content that rights alone cannot express.

API servers since Kubernetes 1.30 evaluate them themselves, so nothing has to run for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.koordinator.keys import ALLOTMENT, NO_ALLOTMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALLOTMENTS: Final = "numakube-allotments"
NOT_BY_A_KUBELET: Final = "!('system:nodes' in request.userInfo.groups)"
"""Kubelets write static pods as their files say; API servers let them write no others."""
MAY_BIND: Final = (
    "authorizer.group('').resource('pods').subresource('binding')"
    ".namespace(request.namespace).check('create').allowed()"
)
"""Whoever may bind pods is a scheduler: ours, kube-scheduler, koord-scheduler, an administrator."""
_ANNOTATION: Final = "metadata.?annotations[?key].orValue('')"
NEW_ALLOTMENTS: Final = (
    f"{list(ALLOTMENT)}.filter(key, !(object.{_ANNOTATION} in"
    f" ['', '{NO_ALLOTMENT}', oldObject == null ? '' : oldObject.{_ANNOTATION}]))"
)
"""Which annotations of a pod say for the first time what it was given."""
_API: Final = "admissionregistration.k8s.io/v1"
_CLAIM: Final = "authentication.kubernetes.io"


def policy(
    name: str,
    rules: Sequence[dict[str, Any]],
    *,
    only: Mapping[str, str],
    variables: Mapping[str, str],
    validations: Sequence[dict[str, Any]],
    namespaces: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return a policy that denies, and the binding that puts it into force.

    Args:
        name: of both.
        rules: the writes that it is about, see `writes`.
        only: conditions by name; a write that does not fulfil all of them is none of its business.
        variables: expressions by name.
        validations: what must hold, see `must`.
        namespaces: where objects of namespaces have to be for it; empty for anywhere.
    """
    constraints: dict[str, Any] = {"resourceRules": list(rules)}
    if namespaces:
        label = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(namespaces),
        }
        constraints["namespaceSelector"] = {"matchExpressions": [label]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "matchConditions": [{"name": key, "expression": text} for key, text in only.items()],
        "variables": [{"name": key, "expression": text} for key, text in variables.items()],
        "validations": list(validations),
    }
    metadata = {"name": name}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": spec,
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": dict(metadata),
            "spec": binding,
        },
    ]


def allotments_by_schedulers() -> list[dict[str, Any]]:
    """Return what keeps users from giving their pods CPUs and devices.

    The agents on nodes do as annotations of pods say, whoever has written them. Whoever may create
    pods could take CPUs from others.
    """
    return policy(
        ALLOTMENTS,
        [writes("", ["pods", "pods/status"], ["CREATE", "UPDATE"])],
        only={"not-by-a-kubelet": NOT_BY_A_KUBELET},
        variables={"new": NEW_ALLOTMENTS},
        validations=[
            must(
                f"variables.new.size() == 0 || {MAY_BIND}",
                "'only schedulers may write ' + variables.new.join(' and ')"
                " + ': leave it out, a scheduler adds it'",
            )
        ],
    )


def writes(group: str, resources: Sequence[str], operations: Sequence[str]) -> dict[str, Any]:
    """Return which *operations* (``CREATE``, ``UPDATE``, ``DELETE``) on what are meant."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def must(expression: str, message: str) -> dict[str, Any]:
    """Return a validation; *message* is an expression too, for what is said if it fails."""
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def is_account(namespace: str, account: str) -> str:
    """Return the condition that a service account writes."""
    return f"request.userInfo.username == 'system:serviceaccount:{namespace}:{account}'"


def token_of(kind: str) -> str:
    """Return the name of the ``pod`` or ``node`` that the writer's token is bound to, or ''."""
    return f"request.userInfo.extra[?'{_CLAIM}/{kind}-name'][0].orValue('')"
