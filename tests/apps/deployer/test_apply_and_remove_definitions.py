"""`numakube deploy api` adds the versions that a definition of others lacks, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.kube.old_definitions import (
    NAME,
    current,
    install,
    v1alpha1_in_namespaces,
    v1alpha1_of_the_cluster,
)

from numakube.apps.deployer.apply_and_remove import (
    Deed,
    DeployEngine,
    DeployStep,
    hindrance_to_upgrade,
)
from numakube.apps.deployer.still_used import StillUsed
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS, NODE_RESOURCE_TOPOLOGIES
from numakube.kube.client import Client
from numakube.manifests.components import Choices, objects_of
from numakube.testing import until
from numakube_lab.testing import Opener, SiteOptions

OLD = replace(NODE_RESOURCE_TOPOLOGIES.raw, version="v1alpha1")
SUBJECT = f"customresourcedefinition/{NAME}"


@pytest.fixture
async def client(sites: Opener) -> AsyncIterator[Client]:
    """A client of a cluster without nodes."""
    async with sites(SiteOptions(exporters=False)) as site:
        yield site.client


async def deployed(client: Client) -> DeployStep:
    """Deploy the kinds; return what became of that of topologies."""
    steps: list[DeployStep] = []
    await DeployEngine(client=client, tell=steps.append).deploy(objects_of(["api"], Choices()))
    return next(step for step in steps if step.name == SUBJECT)


async def versions(client: Client) -> dict[str, bool]:
    """Return the versions of the definition, and whether each is that of storage."""
    found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)
    return {version["name"]: version["storage"] for version in found["spec"]["versions"]}


async def test_an_old_definition_gets_the_current_version_and_keeps_its_objects(
    client: Client,
) -> None:
    """It stays others': the next time there is nothing to do, and removing leaves it."""
    await install(client, v1alpha1_of_the_cluster())
    old = {
        "apiVersion": OLD.api_version,
        "kind": OLD.kind,
        "metadata": {"name": "node-0"},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": [{"name": "node-0", "type": "Node"}],
    }
    await client.create(OLD, old)
    assert str(await deployed(client)) == f"{SUBJECT} upgraded: v1alpha2 added"
    assert await versions(client) == {"v1alpha1": False, "v1alpha2": True}
    current = NODE_RESOURCE_TOPOLOGIES.raw
    found = await until(lambda: client.get(current, "node-0"))
    assert found["topologyPolicies"] == ["SingleNUMANodeContainerLevel"]
    written = {**found, "attributes": [{"name": "a", "value": "b"}]}
    assert (await client.update(current, written))["attributes"] == [{"name": "a", "value": "b"}]

    assert (await deployed(client)).deed is Deed.KEPT
    steps: list[DeployStep] = []
    used = StillUsed.besides(["api"], Choices(), client)
    await DeployEngine(client=client, tell=steps.append).remove(
        objects_of(["api"], Choices()), used
    )
    assert DeployStep(SUBJECT, Deed.FOREIGN) in steps


def _with(definition: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**definition, "metadata": {**definition["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (v1alpha1_in_namespaces(), "its objects are Namespaced, which cannot be changed"),
        (_with(v1alpha1_of_the_cluster(), labels={"olm.managed": "true"}), "OLM manages it"),
        (
            _with(v1alpha1_of_the_cluster(), labels={"app.kubernetes.io/managed-by": "Helm"}),
            "Helm manages it; upgrade it there",
        ),
    ],
    ids=["namespaced", "olm", "helm"],
)
async def test_a_definition_that_is_not_ours_to_change_is_kept_with_the_reason(
    client: Client, definition: dict[str, Any], why: str
) -> None:
    """It stays as it was."""
    await install(client, definition)
    before = await versions(client)
    step = await deployed(client)
    assert step.deed is Deed.USED
    assert step.why.startswith(f"it lacks v1alpha2, but {why}")
    assert await versions(client) == before


async def test_a_current_definition_of_others_is_left_alone(client: Client) -> None:
    """Without a word about versions."""
    await install(client, current())
    assert await deployed(client) == DeployStep(SUBJECT, Deed.KEPT)


def test_a_definition_with_versions_that_we_do_not_know_is_not_changed() -> None:
    """Whoever wrote it knows more than we do."""
    definition = v1alpha1_of_the_cluster()
    (old,) = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**old, "storage": False}, {**old, "name": "v1alpha9"}]
    why = hindrance_to_upgrade(definition, current())
    assert why == "it has v1alpha9, which this release does not know"
