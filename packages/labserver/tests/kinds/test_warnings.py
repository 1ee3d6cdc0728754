"""What is accepted with a warning."""

from __future__ import annotations

import base64

import pytest
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json

META = {"name": "x", "namespace": "n"}


def warned(group: str, kind: str, obj: Json, version: str = "v1") -> list[str]:
    """Return the warnings of a new object."""
    return rules(GVK(group, version, kind)).warnings({"metadata": META, **obj})


@pytest.mark.parametrize(
    ("group", "kind", "obj", "start"),
    [
        ("", "ResourceQuota", {"spec": {"hard": {"cpu": "2", "limits.cpu": "1"}}}, "ResourceQuota"),
        (
            "",
            "Secret",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}},
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            "node.k8s.io",
            "RuntimeClass",
            {"scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}},
            "scheduling.nodeSelector: deprecated",
        ),
        (
            "storage.k8s.io",
            "CSIDriver",
            {"spec": {"tokenRequests": [{"audience": "a"}]}},
            "spec.serviceAccountTokenInSecrets is unset",
        ),
        ("discovery.k8s.io", "EndpointSlice", {"addressType": "FQDN"}, "spec.addressType"),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["010.0.0.1"]}]},
            "endpoints[0].addresses[0]",
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}},
            "spec.ingress[0].from[0].ipBlock.cidr",
        ),
    ],
)
def test_an_odd_object_is_accepted_with_a_warning(
    group: str, kind: str, obj: Json, start: str
) -> None:
    """An odd object is accepted with a warning."""
    (warning,) = warned(group, kind, obj)
    assert warning.startswith(start)


def test_a_secret_with_certificate_and_key_is_fine() -> None:
    """A secret with certificate and key is fine."""
    pem = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    data = {"tls.crt": pem, "tls.key": pem}
    assert warned("", "Secret", {"type": "kubernetes.io/tls", "data": data}) == []


def test_an_update_of_a_status_only_warns_of_the_status() -> None:
    """An update of a status only warns of the status."""
    kind = GVK("", "v1", "Pod")
    pod = {
        "metadata": {**META, "name": "a.b"},
        "spec": {"containers": []},
        "status": {"podIPs": [{"ip": "010.0.0.1"}]},
    }
    (warning,) = rules(kind).warnings(pod, pod, subresource="status")
    assert warning.startswith("status.podIPs[0].ip")
    assert rules(kind).warnings(pod, pod, subresource="resize") == []
