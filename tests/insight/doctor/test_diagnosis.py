"""Choosing, gathering and telling findings."""

from __future__ import annotations

from tests.insight.doctor.documents import NOW, Documents, healthy, pod

from numakube.insight.doctor.all_checks import RULES, Diagnosis, diagnose, unknown_rules
from numakube.insight.doctor.findings import Severity, document_of, seen_lines, summary_of


def ids(diagnosis: Diagnosis) -> list[str]:
    """Return the ids of what was found, in order."""
    return [entry.rule.id for entry in diagnosis.entries]


def broken() -> Documents:
    """Return a cluster with an error, a warning and a note, each somewhere else."""
    world = healthy()
    del world.topologies["node-1"]
    world.nodes["node-0"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.99.0"
    world.run("unseen", "node-2")
    return world


def test_the_worst_comes_first() -> None:
    """Errors, warnings, notes."""
    found = ids(broken().diagnosis())
    assert found == ["NUMA-NRT-FROZEN", "NUMA-NRT-MISSING", "NUMA-NODE-NEW-KUBELET"]


def test_checks_are_chosen_by_their_first_words() -> None:
    """In any case; what is unknown is reported."""
    facts = broken().facts()
    assert ids(diagnose(facts, only=["numa-nrt"])) == ["NUMA-NRT-FROZEN", "NUMA-NRT-MISSING"]
    assert ids(diagnose(facts, skip=["NUMA-NRT-FROZEN", "numa-node"])) == ["NUMA-NRT-MISSING"]
    assert unknown_rules(["NUMA-NRT", "NUMA-NRT-FROZ", "numa"]) == ["NUMA-NRT-FROZ"]


def test_one_node_can_be_looked_at() -> None:
    """Only what concerns it."""
    assert ids(diagnose(broken().facts(), node="node-2")) == ["NUMA-NRT-FROZEN"]
    assert ids(diagnose(broken().facts(), node="node-3")) == []


def test_notes_are_no_reason_to_act() -> None:
    """A cluster with nothing but notes is clean."""
    world = healthy()
    world.nodes["node-0"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.99.0"
    assert world.diagnosis().is_clean
    assert not broken().diagnosis().is_clean


def test_what_is_the_same_on_many_nodes_is_one_line() -> None:
    """With the first few names and the number of all; wide shows every name."""
    world = healthy()
    for number in range(50):
        name = f"bare-{number:02}"
        world.nodes[name] = {**world.nodes["node-0"], "metadata": {"name": name}}
    entry = next(e for e in world.diagnosis().entries if e.rule.id == "NUMA-NRT-MISSING")
    assert list(seen_lines(entry, wide=False)) == [
        "Node bare-00, bare-01, bare-02 and 47 more: there is no object of the node's name"
    ]
    (line,) = seen_lines(entry, wide=True)
    assert "bare-49" in line


def test_many_different_sights_are_cut() -> None:
    """The most frequent ones stay; the rest is counted."""
    world = healthy()
    for number in range(9):
        name = f"n{number}"
        world.nodes[name] = {
            **world.nodes["node-0"],
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"nodeInfo": {"kubeletVersion": f"v1.{number}.0"}},
        }
    found = {entry.rule.id: entry for entry in world.diagnosis().entries}
    lines = list(seen_lines(found["NUMA-NODE-OLD-KUBELET"], wide=False))
    assert lines[-1] == "and 4 more; -o wide shows all"
    assert len(lines) == 6


def test_the_document_has_everything() -> None:
    """For programs: every subject with its own fix."""
    world = broken()
    document = document_of(world.diagnosis(), taken_at=world.taken_at)
    assert document["counts"] == {"error": 1, "warning": 1, "info": 1}
    assert not document["clean"]
    missing = document["findings"][1]
    assert missing["subjects"] == [
        {
            "kind": "Node",
            "name": "node-1",
            "node": "node-1",
            "detail": "there is no object of the node's name",
            "fix": missing["subjects"][0]["fix"],
        }
    ]
    assert "spec.nodeName=node-1" in missing["subjects"][0]["fix"]
    assert summary_of(world.diagnosis()) == "1 error, 1 warning, 1 note in 4 nodes and 5 pods"
    assert summary_of(healthy().diagnosis()) == "Nothing wrong in 4 nodes and 4 pods"


def test_rules_are_complete_and_their_ids_unique() -> None:
    """Each says what, why and what to do."""
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.id.startswith("NUMA-")
        assert rule.severity in Severity
        assert rule.why.endswith(".")
        assert rule.fix
        assert not rule.title.endswith(".")


def test_an_empty_cluster_is_no_trouble() -> None:
    """Nor is one in which nothing can be read."""
    assert Documents().diagnosis().entries == ()
    world = Documents(pods=[pod("alone")], taken_at="")
    assert ids(world.diagnosis()) == []


def test_pods_that_wait_are_counted() -> None:
    """However young they are, and though nothing may be wrong with them."""
    world = healthy()
    for number in range(30):
        world.pods.append(pod(f"young-{number}", metadata={"creationTimestamp": NOW}))
    found = world.diagnosis()
    assert summary_of(found) == "Nothing wrong in 4 nodes and 34 pods, 30 of which wait for a node"
    assert document_of(found, taken_at=NOW)["waiting"] == 30
