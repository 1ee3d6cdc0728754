"""Policies around the programs: admission, flow control, networks, and who may look inside.

API servers since Kubernetes 1.30 evaluate them themselves, so nothing has to run for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.koordinator.keys import ALLOTMENT, NO_ALLOTMENT
from numakube.manifests.rbac_rules import cluster_role, service_account

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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
_ADMISSION_API: Final = "admissionregistration.k8s.io/v1"
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
            "apiVersion": _ADMISSION_API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": spec,
        },
        {
            "apiVersion": _ADMISSION_API,
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


# How the API server treats our requests when it has too many: a priority level of their own.
#
# Without it, service accounts outside kube-system share the level ``workload-low`` with every other
# pod of the cluster (API Priority and Fairness, Kubernetes 1.37), so a controller that lists too
# much would hold up bindings. Each account is a flow of its own: exporters of thousands of nodes
# that write at the same time do not hold up the scheduler either. Leases go to the level that
# Kubernetes has for them, as those of kube-system do.


NAME: Final = "numakube"
_FLOW_API: Final = "flowcontrol.apiserver.k8s.io/v1"
_SHARES: Final = 40
"""As many as ``workload-high`` has, where kube-scheduler is."""
_LENT_PERCENT: Final = 75
"""What others may use while we do not need it."""
_PRECEDENCE: Final = 850
"""After kube-scheduler's own schema, before those for all service accounts."""
_LEASE_PRECEDENCE: Final = 190
"""Just before the schema for leases of kube-system's workloads."""


def flow_control(namespace: str) -> list[dict[str, Any]]:
    """Return the priority level, and what leads requests of accounts in *namespace* to it."""
    leases = {
        "verbs": ["get", "create", "update", "patch"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["*"],
    }
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return [
        _level(),
        _schema("leases", "leader-election", _LEASE_PRECEDENCE, namespace, leases),
        _schema("requests", NAME, _PRECEDENCE, namespace, everything),
    ]


def _level() -> dict[str, Any]:
    return {
        "apiVersion": _FLOW_API,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": NAME},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": _SHARES,
                "lendablePercent": _LENT_PERCENT,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50},
                },
            },
        },
    }


def _schema(
    what: str, level: str, precedence: int, namespace: str, requests: dict[str, Any]
) -> dict[str, Any]:
    accounts = {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "*"}}
    return {
        "apiVersion": _FLOW_API,
        "kind": "FlowSchema",
        "metadata": {"name": f"{NAME}-{what}-{namespace}"},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [accounts], "resourceRules": [requests]}],
        },
    }


# Network policies: nothing in or out, but for what a component needs.


API_PORTS: Final = (443, 6443, 8443, 16443)
"""Where API servers listen: as a Service, and themselves, minikube's and microk8s' included."""


def only_serves(
    name: str,
    namespace: str,
    pods: Mapping[str, str],
    ports: Iterable[int],
    *,
    calls: Iterable[int] = (),
    dns: bool = False,
) -> dict[str, Any]:
    """Forbid all traffic of *pods* but requests to *ports*, and theirs to the API server.

    Args:
        name: of the policy.
        namespace: of the policy and the pods.
        pods: their labels.
        ports: what they serve.
        calls: further ports that they call.
        dns: whether they have to look up names.
    """
    egress = [{"ports": _tcp((*API_PORTS, *calls))}]
    if dns:
        egress.append({"ports": [{"protocol": each, "port": 53} for each in ("UDP", "TCP")]})
    rules = {
        "ingress": [{"ports": _tcp(ports)}],
        "egress": egress,
        "policyTypes": ["Ingress", "Egress"],
    }
    return _policy(name, namespace, pods, rules)


def deny_all(name: str, namespace: str, pods: Mapping[str, str]) -> dict[str, Any]:
    """Forbid all traffic of *pods* that no other policy allows."""
    return _policy(name, namespace, pods, {"policyTypes": ["Ingress", "Egress"]})


def allow_api_server(
    name: str, namespace: str, pods: Mapping[str, str], *, ports: Iterable[int] = API_PORTS
) -> dict[str, Any]:
    """Allow *pods* to call the API server; its address is not known to policies, its port is."""
    rules = [{"ports": _tcp(ports)}]
    return _policy(name, namespace, pods, {"egress": rules, "policyTypes": ["Egress"]})


def allow_scraping(name: str, namespace: str, pods: Mapping[str, str], port: int) -> dict[str, Any]:
    """Allow everybody to read the metrics of *pods*."""
    rules = [{"ports": _tcp((port,))}]
    return _policy(name, namespace, pods, {"ingress": rules, "policyTypes": ["Ingress"]})


def _tcp(ports: Iterable[int]) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _policy(
    name: str, namespace: str, pods: Mapping[str, str], rules: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": dict(pods)}, **rules},
    }


# How people find a running scheduler or extender, and the account in whose name they look inside.
#
# Every way to deploy one (``numakube deploy``, the operator, the chart, a file) gives its pods the
# same two labels, and makes an account whose name is that of the pods' own account with an ending.
# ``kubectl numa debug trace`` and its relatives ask for a short-lived token of it, for an audience
# of its own, and show it through the API server's proxy. Who may use it is decided by who may
# create tokens for it (``serviceaccounts/token``) and reach the pods (``pods/proxy``).


PATHS: Final = ("/debug/*", "/configz", "/v1/fit")
_PART_OF: Final = "app.kubernetes.io/part-of"
_COMPONENT: Final = "app.kubernetes.io/component"
SCHEDULER: Final = {_PART_OF: "numakube", _COMPONENT: "scheduler"}
"""Labels of a scheduler's pods."""
EXTENDER: Final = {_PART_OF: "numakube", _COMPONENT: "extender"}
"""Labels of an extender's pods."""
TENANT_ACCOUNT: Final = "numakube-tenant"
"""The account in a tenant's namespace in whose name its people ask about its pods."""
SELECTOR: Final = f"{_PART_OF}=numakube,{_COMPONENT} in (scheduler,extender)"


def account_for(account: str) -> str:
    """Return the name of the account for looking inside pods that run as *account*."""
    return f"{account}-debug"


def debugging_access(account: str, namespace: str) -> list[dict[str, Any]]:
    """Return the account for looking inside pods that run as *account*, and its rights."""
    name = account_for(account)
    document = service_account(name, namespace)
    return [document, *cluster_role(name, debugging_rules(), document)]


def debugging_rules() -> list[dict[str, Any]]:
    """Return what looking inside takes."""
    return [{"nonResourceURLs": list(PATHS), "verbs": ["get", "post", "put", "delete"]}]
