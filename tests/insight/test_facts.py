"""From raw lists to facts."""

from __future__ import annotations

from typing import Any

import msgspec

from numakube.insight.collected import Collected, configz_file, list_file, scheduler_file
from numakube.insight.facts import facts_of, model_of
from numakube.insight.list_reading import Unreadable
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology

NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
TOPOLOGY = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "metadata": {"name": "n1"},
    "zones": [
        {
            "name": "node-0",
            "type": "Node",
            "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "2"}],
        }
    ],
}


def pod(name: str, node: str = "", phase: str = "Running") -> dict[str, Any]:
    """Return a pod."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c"}], "nodeName": node},
        "status": {"phase": phase},
    }


def collected(**lists: list[dict[str, Any]]) -> Collected:
    """Return lists as a server gives them."""
    files = {
        list_file(name): msgspec.json.encode({"items": items}) for name, items in lists.items()
    }
    return Collected("2026-01-01T00:00:00Z", files)


def with_file(base: Collected, name: str, content: bytes) -> Collected:
    """Return *base* with one more file."""
    return Collected(base.taken_at, {**base.files, name: content})


def test_pods_are_found_by_name_and_by_node() -> None:
    """Those that have ended are still there by name, but on no node."""
    facts = facts_of(
        collected(nodes=[NODE], pods=[pod("a", "n1"), pod("b"), pod("c", "n1", "Failed")])
    )
    assert [one.metadata.name for one in facts.pods_on("n1")] == ["a"]
    assert facts.pods_on("n2") == ()
    assert facts.pod("default", "c") is not None
    assert facts.pod("other", "a") is None


def test_topologies_are_viewed_once_and_only_when_asked_for() -> None:
    """A node without one has no view."""
    facts = facts_of(collected(nodes=[NODE], pods=[], noderesourcetopologies=[TOPOLOGY]))
    view = facts.view("n1")
    assert isinstance(view, NodeTopology)
    assert facts.view("n1") is view
    assert facts.view("n2") is None


def test_one_bad_object_costs_only_itself() -> None:
    """It is named with what is wrong with it."""
    bad = {"metadata": {"name": "bad", "namespace": "x"}, "spec": {"nodeName": 3}}
    facts = facts_of(collected(nodes=[NODE], pods=[bad, pod("good")]))
    assert [one.metadata.name for one in facts.pods] == ["good"]
    (problem,) = facts.unreadable
    assert problem.what == "pods x/bad"
    assert "spec.nodeName" in problem.why


def test_a_broken_file_is_told_and_everything_else_is_used() -> None:
    """As happens to a bundle that was edited by hand."""
    base = collected(nodes=[NODE], pods=[])
    base = with_file(base, configz_file("n1"), b'{"kubeletconfig": {"cpuManagerPolicy": 3}}')
    base = with_file(base, list_file("leases"), b"{")
    facts = facts_of(base)
    assert set(facts.nodes) == {"n1"}
    assert {fact.what for fact in facts.unreadable} == {"leases", "configz/n1.json"}


def test_what_the_server_refused_is_passed_on() -> None:
    """Tools say what their answer does not rest on."""
    errors = b'[{"what": "leases", "why": "not allowed: no"}]'
    facts = facts_of(with_file(collected(nodes=[], pods=[]), "errors.json", errors))
    assert facts.missing("leases") == Unreadable("leases", "not allowed: no")
    assert facts.missing("pods") is None


def test_objects_of_scheduling_and_what_schedulers_tell_are_there() -> None:
    """Keyed as the scheduler keys them."""
    base = collected(
        nodes=[],
        pods=[],
        namespaces=[{"metadata": {"name": "a", "labels": {"team": "x"}}}],
        persistentvolumeclaims=[{"metadata": {"name": "data", "namespace": "a"}}],
        deployments=[{"metadata": {"name": "web", "namespace": "a"}, "spec": {"replicas": 2}}],
    )
    base = with_file(base, scheduler_file("numakube-scheduler", "queue"), b'{"pods": []}')
    base = with_file(
        base, configz_file("n.1"), b'{"kubeletconfig": {"cpuManagerPolicy": "static"}}'
    )
    facts = facts_of(base)
    assert facts.objects.namespace_labels == {"a": {"team": "x"}}
    assert list(facts.objects.claims) == ["a/data"]
    assert facts.deployments[0].spec.replicas == 2
    assert facts.schedulers["numakube-scheduler"].documents == {"queue": {"pods": []}}
    assert facts.kubelet_configs["n.1"].cpu_manager_policy == "static"


def test_there_is_no_model_without_an_exact_report() -> None:
    """And the reason says whose fault it is."""
    facts = facts_of(collected(nodes=[NODE], pods=[], noderesourcetopologies=[TOPOLOGY]))
    found = model_of(facts, "n1")
    assert isinstance(found, Unusable)
    assert "no exact report" in found.reason
    found = model_of(facts, "n2")
    assert isinstance(found, Unusable)
    assert "no NodeResourceTopology" in found.reason
