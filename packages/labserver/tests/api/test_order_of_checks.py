"""What is looked at first, where a request has more than one thing wrong with it.

These were found by comparison with a real server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packages.labserver.tests.client import Client

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_a_version_on_creation_is_refused_before_a_name_that_is_taken(api: Client) -> None:
    """A dry run, which stores nothing, does not mind it."""
    body = {"metadata": {"name": "a"}}
    await api.send("POST", CONFIG_MAPS, body)
    body["metadata"]["resourceVersion"] = "5"
    status, answer = await api.send("POST", CONFIG_MAPS, body)
    assert (status, answer["message"]) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )
    body["metadata"]["name"] = "b"
    status, answer = await api.send("POST", CONFIG_MAPS, body, dryRun="All")
    assert (status, answer["metadata"]["resourceVersion"]) == (201, "5")


async def test_a_list_of_one_name_has_one_page(api: Client) -> None:
    """There is nothing to continue with, however many objects there are."""
    for name in ("a", "b"):
        await api.send("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    page = await api.get(CONFIG_MAPS, limit="1", fieldSelector="metadata.name=a")
    assert len(page["items"]) == 1
    assert "continue" not in page["metadata"]


async def test_only_the_change_of_a_priority_class_is_checked(api: Client) -> None:
    """What it is as a whole was checked when it was created."""
    await api.send("POST", CLASSES, {"metadata": {"name": "a"}, "value": 1})
    patch = {"value": 2000000000, "preemptionPolicy": "Sometimes"}
    status, answer = await api.send(
        "PATCH", f"{CLASSES}/a", patch, kind="application/merge-patch+json"
    )
    assert status == 422
    assert [cause["message"] for cause in answer["details"]["causes"]] == [
        "Forbidden: may not be changed in an update.",
        'Invalid value: "Sometimes": field is immutable',
    ]


async def test_a_refusal_shows_the_prefix_of_a_name_to_come(api: Client) -> None:
    """The name is generated after admission."""
    body = {
        "metadata": {"generateName": "p-"},
        "spec": {"priorityClassName": "none", "containers": [{"name": "c", "image": "i"}]},
    }
    status, answer = await api.send("POST", "/api/v1/namespaces/default/pods", body)
    assert status == 403
    assert answer["message"].startswith('pods "p-" is forbidden')
    _, answer = await api.send("POST", "/api/v1/namespaces/default/pods", body | {"metadata": {}})
    assert answer["message"].startswith('pods "Unknown" is forbidden')


async def test_a_node_is_checked_as_a_whole_before_what_changed_of_it(api: Client) -> None:
    """The complaints about its metadata come in the order of the checks that make them."""
    await api.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    patch = {"metadata": {"finalizers": ["not a finalizer"]}}
    _, answer = await api.send(
        "PATCH", "/api/v1/nodes/n", patch, kind="application/merge-patch+json"
    )
    assert [cause["field"] for cause in answer["details"]["causes"]] == [
        "metadata.finalizers",
        "metadata.finalizers",
        "metadata.finalizers[0]",
        "metadata.finalizers[0]",
    ]


async def test_a_namespace_of_another_version_is_not_deleted(api: Client) -> None:
    """Both conditions of a deletion hold for namespaces too."""
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    options = {"preconditions": {"resourceVersion": "1"}}
    status, answer = await api.send("DELETE", "/api/v1/namespaces/other", options)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert "ResourceVersion in precondition: 1" in answer["message"]
