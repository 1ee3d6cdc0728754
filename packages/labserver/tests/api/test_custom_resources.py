"""Custom resources over their whole life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packages.labserver.tests.client import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> dict[str, Any]:
    """A version of a definition."""
    integer = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "replicas": integer,
                    "size": {"type": "integer", "default": 3},
                },
            },
            "status": {
                "type": "object",
                "properties": {"replicas": integer, "selector": {"type": "string"}},
            },
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    """A definition of widgets."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": list(versions or (version(),)),
        },
    }


def widget(name: str = "w", **more: Any) -> dict[str, Any]:
    """A widget."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **more}


async def test_a_definition_is_served_by_the_next_request(api: Client) -> None:
    """Nobody has to wait for the new resource."""
    await api.create(DEFINITIONS, definition())
    created = await api.create(WIDGETS, widget(spec={}))

    assert created["spec"] == {"size": 3}


async def test_elements_without_or_with_the_same_key_are_refused_by_name(api: Client) -> None:
    """However they are sent; an apply of them fails before anything is compared."""
    fresh = version()
    fresh["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["parts"] = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}},
        },
    }
    await api.create(DEFINITIONS, definition(fresh))
    stored = await api.create(WIDGETS, widget(spec={"parts": [{"name": "a"}]}))
    for parts, causes in (
        ([{"name": "a"}, {"name": "a"}], {"spec.parts[1]"}),
        ([{}, {}], {"spec.parts[0].name", "spec.parts[1].name", "spec.parts[1]"}),
    ):
        spec: dict[str, Any] = {"parts": parts}
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        for answer in (
            await api.send("POST", WIDGETS, widget("other", spec=spec)),
            await api.send("PUT", f"{WIDGETS}/w", {**stored, "spec": spec}),
            await api.send("PATCH", f"{WIDGETS}/w", {"spec": spec}, kind=MERGE),
            await api.send("PATCH", f"{WIDGETS}/w", patch, kind="application/json-patch+json"),
        ):
            assert answer[0] == 422
            assert {cause["field"] for cause in answer[1]["details"]["causes"]} == causes
        _, failed = await api.send(
            "PATCH", f"{WIDGETS}/w", widget(spec=spec), kind=APPLY, fieldManager="tester"
        )
        assert failed["message"].startswith("failed to create typed patch object")
    assert await api.get(f"{WIDGETS}/w") == stored


async def test_a_new_default_shows_in_objects_that_are_already_stored(api: Client) -> None:
    """Objects are completed when they are read, too."""
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget(spec={}))
    fresh = version()
    properties = fresh["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["color"] = {"type": "string", "default": "red"}
    path = f"{DEFINITIONS}/widgets.example.com"
    status, _ = await api.send("PATCH", path, {"spec": {"versions": [fresh]}}, kind=MERGE)
    assert status == 200

    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"size": 3, "color": "red"}


async def test_a_deprecated_version_warns_and_names_the_better_one(api: Client) -> None:
    """Every request to the old version is answered with a warning."""
    old = version("v1beta1", storage=False, deprecated=True)
    await api.create(DEFINITIONS, definition(version(), old))
    await api.get("/apis/example.com/v1beta1/widgets")

    assert api.warnings == [
        '299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"'
    ]


async def test_what_the_stored_version_does_not_know_is_lost_at_once(api: Client) -> None:
    """Nothing converts objects but the name of their version; every schema prunes."""
    old = version("v1beta1", storage=False)
    spec = old["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] = {"colour": {"type": "string"}, "replicas": {"type": "integer"}}
    await api.create(DEFINITIONS, definition(version(), old))
    sent = {**widget(spec={"colour": "red", "replicas": 2}), "apiVersion": "example.com/v1beta1"}
    path = "/apis/example.com/v1beta1/namespaces/default/widgets"
    created = await api.create(path, sent)

    assert created["spec"] == {"replicas": 2}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"replicas": 2, "size": 3}


async def test_objects_with_finalizers_hold_up_the_deletion_of_their_definition(
    api: Client,
) -> None:
    """Meanwhile nothing can be created; when the last is gone, so is the definition."""
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget("plain"))
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(WIDGETS, held)
    await api.send("DELETE", f"{DEFINITIONS}/widgets.example.com")

    status, refused = await api.send("POST", WIDGETS, widget("late"))
    assert (status, refused["reason"]) == (403, "Forbidden")
    left = await api.get(WIDGETS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["held"]
    await api.send("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, kind=MERGE)
    status, _ = await api.send("GET", f"{DEFINITIONS}/widgets.example.com")
    assert status == 404
    status, _ = await api.send("GET", WIDGETS)
    assert status == 404


async def test_a_custom_resource_can_be_scaled(api: Client) -> None:
    """The scale reads and writes the fields that the definition names."""
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    await api.create(DEFINITIONS, definition(version(subresources={"scale": paths})))
    await api.create(WIDGETS, widget(spec={"replicas": 2}, status={"selector": "a=b"}))
    patch = {"spec": {"replicas": 5}}
    status, scale = await api.send("PATCH", f"{WIDGETS}/w/scale", patch, kind=MERGE)

    assert status == 200
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 5


async def test_a_scale_without_replicas_is_an_error(api: Client) -> None:
    """The real server calls it an internal one."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await api.create(DEFINITIONS, definition(version(subresources={"scale": paths})))
    await api.create(WIDGETS, widget())
    status, refused = await api.send("GET", f"{WIDGETS}/w/scale")

    assert status == 500
    assert '".spec.replicas" does not exist' in refused["message"]


async def test_replicas_of_a_scalable_kind_are_not_negative(api: Client) -> None:
    """Also where the schema does not say so."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await api.create(DEFINITIONS, definition(version(subresources={"scale": paths})))
    status, refused = await api.send("POST", WIDGETS, widget(spec={"replicas": -1}))

    assert status == 422
    assert "should be a non-negative integer" in refused["message"]
