"""Configurations of webhooks, which the lab stores and does not call."""

from __future__ import annotations

from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK

HOOKS = GVK("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")


def test_a_webhook_is_completed_as_clients_expect_it() -> None:
    """An operator that compares what it wrote with what is stored finds the real defaults."""
    hook = {"name": "a.example.com", "clientConfig": {"service": {"name": "s"}}, "rules": [{}]}
    stored = rules(HOOKS).default({"metadata": {"name": "c"}, "webhooks": [hook]})
    assert stored["webhooks"] == [
        {
            "name": "a.example.com",
            "clientConfig": {"service": {"name": "s", "port": 443}},
            "rules": [{"scope": "*"}],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "reinvocationPolicy": "Never",
            "timeoutSeconds": 10,
        }
    ]
