"""Configurations of webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from numakube_lab import objects
from numakube_lab.kinds import GVK, Json

HOOKS = GVK("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def hook(**changes: Any) -> Json:
    """Return a webhook."""
    return {
        "name": "a.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [RULE],
    } | changes


def configuration(*hooks: Json) -> Json:
    """Return a configuration of webhooks."""
    return objects.default(HOOKS, {"metadata": {"name": "c"}, "webhooks": list(hooks)})


def test_a_webhook_is_completed() -> None:
    """A webhook is completed."""
    (found,) = configuration(hook())["webhooks"]
    assert found["clientConfig"]["service"]["port"] == 443
    assert (found["failurePolicy"], found["matchPolicy"]) == ("Fail", "Equivalent")
    assert (found["timeoutSeconds"], found["reinvocationPolicy"]) == (10, "Never")
    assert found["rules"][0]["scope"] == "*"


def test_a_good_webhook_is_accepted() -> None:
    """A good webhook is accepted."""
    assert objects.validate_create(HOOKS, configuration(hook())) == []


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"name": "short"}, "name"),
        ({"sideEffects": "Some"}, "sideEffects"),
        ({"admissionReviewVersions": ["v2"]}, "admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "timeoutSeconds"),
        ({"clientConfig": {}}, "clientConfig"),
        ({"clientConfig": {"url": "http://h"}}, "clientConfig.url"),
        ({"clientConfig": {"url": "https://h?x"}}, "clientConfig.url"),
        ({"rules": [RULE | {"operations": ["*", "CREATE"]}]}, "rules[0].operations"),
        ({"rules": [RULE | {"resources": ["a/*", "a/b"]}]}, "rules[0].resources[1]"),
        ({"rules": [RULE | {"resources": ["*", "a"]}]}, "rules[0].resources"),
    ],
)
def test_a_wrong_webhook_is_refused(changes: Json, wrong: str) -> None:
    """A wrong webhook is refused."""
    errors = objects.validate_create(HOOKS, configuration(hook(**changes)))
    assert [error.field for error in errors] == [f"webhooks[0].{wrong}"]


def test_webhooks_have_different_names() -> None:
    """Webhooks have different names."""
    (error,) = objects.validate_create(HOOKS, configuration(hook(), hook()))
    assert str(error) == 'webhooks[1].name: Duplicate value: "a.example.com"'
