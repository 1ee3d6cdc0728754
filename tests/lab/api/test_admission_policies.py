"""ValidatingAdmissionPolicies refuse writes as kube-apiserver does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from numakube.errors import ApiError, Forbidden
from numakube.kube.catalog import (
    CONFIG_MAPS,
    NAMESPACES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from numakube.kube.client import Client, merge_patch
from numakube.manifests.cluster_policies import must, policy, writes
from numakube_lab.testing import SiteOptions, lab_site

RULES = [writes("", ["configmaps"], ["CREATE", "UPDATE", "DELETE"])]
SHORT = must("object == null || size(object.data.a) < 3", "'too long: ' + object.data.a")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a cluster without nodes."""
    async with lab_site(SiteOptions(exporters=False)) as site:
        yield site.client


async def put(client: Client, **changes: Any) -> None:
    """Put a policy into force; *changes* are fields of its specification."""
    rules, only, variables = RULES, {"others": "true"}, {"name": "object.metadata.name"}
    made, bound = policy("p", rules, only=only, variables=variables, validations=[SHORT])
    made["spec"] |= {key: text for key, text in changes.items() if key != "validationActions"}
    bound["spec"] |= {key: text for key, text in changes.items() if key == "validationActions"}
    await client.create(VALIDATING_ADMISSION_POLICIES, made)
    await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, bound)


async def write(client: Client, name: str, text: str, namespace: str = "default") -> None:
    """Apply a ConfigMap."""
    header = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    document = {**header, "data": {"a": text}}
    await client.apply(CONFIG_MAPS, document, namespace=namespace, force=True)


async def test_a_validation_that_fails_refuses_with_its_message_and_reason(client: Client) -> None:
    """On creation and on update; what fulfils it passes."""
    await put(client)
    await write(client, "x", "ab")
    for name in ("x", "y"):
        with pytest.raises(Forbidden) as refused:
            await write(client, name, "abc")
        assert str(refused.value).endswith(
            f"configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p'"
            " denied request: too long: abc (403 Forbidden)"
        )


async def test_a_policy_is_about_what_it_matches_alone(client: Client) -> None:
    """By operation, namespace, name, exclusion and condition."""
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    exempt = {**RULES[0], "resourceNames": ["exempt"]}
    await put(
        client,
        matchConstraints={
            "resourceRules": RULES,
            "namespaceSelector": selector,
            "excludeResourceRules": [exempt],
        },
        matchConditions=[{"name": "c", "expression": "request.name != 'spared'"}],
    )
    for name, namespace in (("x", "free"), ("exempt", "default"), ("spared", "default")):
        await write(client, name, "abc", namespace)
    with pytest.raises(Forbidden):
        await write(client, "x", "abc")
    await client.delete(CONFIG_MAPS, "exempt", namespace="default")


async def test_an_expression_without_a_value_refuses_unless_failures_are_ignored(
    client: Client,
) -> None:
    """And a validation without a reason is answered with 422."""
    broken = [{"expression": "object.spec.nothing == 1"}]
    await put(client, validations=broken)
    with pytest.raises(ApiError, match=r"resulted in error: no such key.*422 Invalid"):
        await write(client, "x", "a")
    lenient = merge_patch({"spec": {"failurePolicy": "Ignore"}})
    await client.patch(VALIDATING_ADMISSION_POLICIES, "p", lenient)
    await write(client, "x", "a")


async def test_a_binding_that_warns_lets_the_write_pass(client: Client) -> None:
    """Only its own actions count."""
    await put(client, validationActions=["Warn"])
    await write(client, "x", "abc")


async def test_an_expression_that_never_ends_refuses_like_one_that_fails(client: Client) -> None:
    """With a message that says so, and not as a failure of the server."""
    endless = "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0)) || true"
    await put(client, validations=[{"expression": endless}])
    with pytest.raises(ApiError, match="actual cost limit exceeded") as refused:
        await write(client, "x", "ab")
    assert refused.value.code < 500
