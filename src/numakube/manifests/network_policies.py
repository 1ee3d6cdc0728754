"""Network policies: nothing in or out, but for what a component needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
