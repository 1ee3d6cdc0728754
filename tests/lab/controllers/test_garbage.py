"""The garbage collector, and the deletion of namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lab.controllers.kit import Bench, bench, workload

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.kube.catalog import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, PODS
from numakube.kube.resource_types import ObjectKey, Resource
from numakube_lab.controllers.cluster.garbage_collector import (
    Collect,
    CollectDependents,
    Disown,
    GarbageCollector,
    Graph,
    Item,
    OwnerState,
    ReleaseDependents,
    Unblock,
    decide,
)
from numakube_lab.controllers.cluster.namespace_controller import Namespaces
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    NAMESPACES,
    REPLICA_SETS,
    MetadataObject,
)
from numakube_lab.controllers.workloads.deployment_controller import Deployments
from numakube_lab.controllers.workloads.replica_set_controller import ReplicaSets

MAPS = CONFIG_MAPS.decoded_as(MetadataObject)
THERE, WAITING, GONE = OwnerState.THERE, OwnerState.WAITING, OwnerState.GONE


def item(
    uid: str, *owners: str, finalizers: tuple[str, ...] = (), going: bool = False,
    blocks: bool = True,
) -> Item:  # fmt: skip
    """An object and its owners."""
    references = tuple(
        OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner, uid=owner, block_owner_deletion=blocks
        )
        for owner in owners
    )
    metadata = ObjectMeta(
        name=uid,
        uid=uid,
        owner_references=references,
        finalizers=finalizers,
        deletion_timestamp="2026-01-01T00:00:00Z" if going else None,
    )
    return Item(MAPS, ObjectKey("default", uid), metadata)


CHILD = item("child", "parent")
LOOSE = item("child", "parent", blocks=False)
FOREGROUND = item("parent", finalizers=("foregroundDeletion",), going=True)


@pytest.mark.parametrize(
    ("one", "owners", "dependents", "expected"),
    [
        (item("a"), {}, [], None),
        (item("a", "b"), {"b": THERE}, [], None),
        (item("a", "b"), {"b": GONE}, [], Collect("Background")),
        (item("a", "b", going=True), {"b": GONE}, [], None),
        (item("a", "b", "c"), {"b": GONE, "c": THERE}, [], Disown(frozenset("b"))),
        (item("a", "b", "c"), {"b": GONE, "c": GONE}, [], Collect("Background")),
        (item("a", "b"), {"b": WAITING}, [], Collect("Background")),
        (item("a", "b"), {"b": WAITING}, [item("x", "a")], Collect("Foreground")),
        (item("a", "b", finalizers=("orphan",)), {"b": GONE}, [], Collect("Orphan")),
        (FOREGROUND, {}, [], Unblock("foregroundDeletion")),
        (FOREGROUND, {}, [LOOSE], Unblock("foregroundDeletion")),
        (FOREGROUND, {}, [CHILD, LOOSE], CollectDependents((CHILD, LOOSE))),
        (
            item("parent", finalizers=("orphan",), going=True),
            {},
            [CHILD],
            ReleaseDependents((CHILD,)),
        ),
    ],
)
def test_what_becomes_of_an_object(
    one: Item, owners: dict[str, OwnerState], dependents: list[Item], expected: object
) -> None:
    """By its owners, its dependents, and how it is deleted itself."""
    assert decide(one, owners, dependents) == expected


def test_the_graph_follows_changes_of_owners() -> None:
    """An object that changes its owner is a dependent of the new one only."""
    graph = Graph()
    graph.put(item("a", "b"))
    graph.put(item("a", "c"))
    assert graph.dependents("b") == []
    assert [each.metadata.uid for each in graph.dependents("c")] == ["a"]
    graph.remove("a")
    assert graph.dependents("c") == []


async def owned_map(
    lab: Bench, name: str, owner: MetadataObject, resource: Resource[Any]
) -> MetadataObject:
    """Create a ConfigMap that belongs to another object."""
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "blockOwnerDeletion": True,
    }
    document = {"metadata": {"name": name, "ownerReferences": [reference]}}
    created = await lab.apply(MAPS, document)
    await lab.mirror(MAPS).shows(created.metadata.resource_version)
    return created


def exists(lab: Bench, name: str) -> bool:
    """Tell whether a ConfigMap exists."""
    return lab.mirror(MAPS).get(ObjectKey("default", name)) is not None


async def gone(lab: Bench, *names: str) -> None:
    """Wait until ConfigMaps are gone."""
    await lab.until(MAPS, lambda: not any(exists(lab, name) for name in names))


async def test_dependents_follow_their_owner() -> None:
    """In the background, over several generations."""
    async with bench(GarbageCollector, also=(MAPS,)) as lab:
        top = await lab.apply(MAPS, {"metadata": {"name": "top"}})
        middle = await owned_map(lab, "middle", top, MAPS)
        await owned_map(lab, "bottom", middle, MAPS)
        await lab.client.delete(MAPS, "top", namespace="default")
        await gone(lab, "top", "middle", "bottom")


async def test_an_object_whose_owner_never_was_is_collected() -> None:
    """The server is asked, and says no."""
    async with bench(GarbageCollector, also=(MAPS,)) as lab:
        ghost = MetadataObject(metadata=ObjectMeta(name="ghost", uid="nobody"))
        await owned_map(lab, "child", ghost, MAPS)
        await gone(lab, "child")


async def test_in_the_foreground_the_owner_goes_last() -> None:
    """It waits for what blocks it."""
    async with bench(GarbageCollector, also=(MAPS,)) as lab:
        top = await lab.apply(MAPS, {"metadata": {"name": "top"}})
        await owned_map(lab, "child", top, MAPS)
        await lab.change(MAPS, "child", {"metadata": {"finalizers": ["example.com/keep"]}})
        await lab.client.delete(MAPS, "top", namespace="default", propagation="Foreground")
        await lab.sees(MAPS, "child", lambda one: one.metadata.deletion_timestamp is not None)
        assert exists(lab, "top")
        await lab.change(MAPS, "child", {"metadata": {"finalizers": None}})
        await gone(lab, "child", "top")


async def test_orphans_stay_without_their_owner() -> None:
    """Their reference to it is removed."""
    async with bench(GarbageCollector, also=(MAPS,)) as lab:
        top = await lab.apply(MAPS, {"metadata": {"name": "top"}})
        await owned_map(lab, "child", top, MAPS)
        await lab.client.delete(MAPS, "top", namespace="default", propagation="Orphan")
        await gone(lab, "top")
        child = await lab.client.get(MAPS, "child", namespace="default")
        assert child.metadata.owner_references == ()


async def test_deleting_a_deployment_takes_everything_with_it() -> None:
    """Replica sets and pods."""
    async with bench(GarbageCollector, Deployments, ReplicaSets) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2))
        await lab.sees(DEPLOYMENTS, "web", lambda one: one.status.available_replicas == 2)
        await lab.client.delete(DEPLOYMENTS, "web", namespace="default", propagation="Background")
        await lab.until(REPLICA_SETS, lambda: not len(lab.mirror(REPLICA_SETS).store))
        await lab.until(PODS, lambda: not len(lab.pods.store))


async def test_objects_of_custom_kinds_are_collected_too() -> None:
    """Also of kinds that are defined while the collector runs."""
    async with bench(GarbageCollector, also=(MAPS,)) as lab:
        await lab.client.create(CUSTOM_RESOURCE_DEFINITIONS, _definition())
        widgets = Resource(
            group="example.com",
            version="v1",
            plural="widgets",
            kind="Widget",
            namespaced=True,
            object_type=MetadataObject,
        )
        widget = await lab.apply(
            widgets,
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        )
        await owned_map(lab, "child", widget, widgets)
        await lab.client.delete(widgets, "w", namespace="default")
        await gone(lab, "child")


async def test_a_deleted_namespace_goes_with_its_content() -> None:
    """Pods first, and it is gone when it is empty."""
    async with bench(Namespaces) as lab:
        await lab.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        await lab.client.create(MAPS, {"metadata": {"name": "a"}}, namespace="team")
        pod = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        await lab.client.create(PODS, pod, namespace="team")
        await lab.client.delete(NAMESPACES, "team")
        spaces = lab.mirror(NAMESPACES)
        await lab.until(NAMESPACES, lambda: spaces.get(ObjectKey("", "team")) is None)
        assert not (await lab.client.list(MAPS, namespace="team")).items
        assert not (await lab.client.list(PODS, namespace="team")).items


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
