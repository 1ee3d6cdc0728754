"""Bundles without names say the same."""

from __future__ import annotations

import msgspec
import pytest
from tests.insight.doctor.documents import healthy
from tests.insight.doctor.documents import pod as document
from tests.insight.explain.bundling import collected_of
from tests.insight.explain.cases import CASES
from tests.topology.producers import golden

from numakube.api.nrt import Attribute, with_attribute
from numakube.api.pod import static_uid
from numakube.api.resource_slices import DeviceTaintSelector
from numakube.apps.anonymising import anonymise
from numakube.apps.bundle import pack, unpack, without_secrets
from numakube.insight.collected import Collected
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.explain import Explanation, Subject, explain, pod_subject
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod, rejected
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.nrt_conversion import KEPT_PREFIX


def essence(explanation: Explanation) -> object:
    """Return an explanation without names."""
    return (
        explanation.verdict,
        len(explanation.fitting),
        [(group.plugin, group.eviction_helps, len(group.nodes)) for group in explanation.groups],
        [(change.kind, change.resource, len(change.pods)) for change in explanation.changes],
        [
            (candidate.fits, candidate.data, candidate.policy, candidate.scope, candidate.steps)
            for candidate in explanation.candidates
        ],
    )


def explained(facts: ClusterFacts, subject: Subject) -> Explanation:
    """Explain a pod."""
    return explain(facts, engine_of(facts), subject)


def with_subject(facts: ClusterFacts, subject: Subject) -> Collected:
    """Return the files of a cluster that has the subject's pod."""
    before = collected_of(facts)
    pods = [one for one in facts.pods if one.metadata.uid != subject.pod.metadata.uid]
    content = msgspec.json.encode({"items": [*pods, subject.pod]})
    return Collected(before.taken_at, {**before.files, "pods.json": content})


@pytest.mark.parametrize("name", [case for case in CASES if not case.startswith("manifest")])
def test_verdicts_stay_the_same_offline_and_without_names(name: str) -> None:
    """Of every way in which a pod can be refused."""
    case = CASES[name]()
    key = case.subject.pod.metadata
    collected = with_subject(case.facts, case.subject)
    live = explained(facts_of(collected), case.subject)

    offline = facts_of(unpack(pack(collected)))
    found = offline.pod(key.namespace, key.name)
    assert found is not None
    assert explained(offline, pod_subject(found)) == live

    hidden = facts_of(anonymise(collected))
    (found,) = [one for one in hidden.pods if one.metadata.uid == key.uid]
    assert essence(explained(hidden, pod_subject(found))) == essence(live)


def test_no_name_is_left() -> None:
    """Of namespaces, pods, nodes, labels, images, nor any text."""
    world = World()
    world.add_node("secretnode", labels={"secretkey": "secretvalue"})
    one = pod("secretpod", labels={"secretapp": "secretlabel"})
    metadata = msgspec.structs.replace(one.metadata, uid="0123", namespace="secretspace")
    world.run(msgspec.structs.replace(one, metadata=metadata), "secretnode")
    collected = collected_of(world.facts())
    assert any(b"secret" in content for content in collected.files.values())
    for file, content in anonymise(collected).files.items():
        assert b"secret" not in content, file


def test_zones_that_are_called_after_containers_are_left_out() -> None:
    """As nri-plugins writes them; so is what a conversion between versions has kept."""
    world = World()
    world.add_node("worker-0")
    pools = golden("nri-balloons")
    kept = {KEPT_PREFIX + "v1beta1": '{"status.conditions": "trainer"}'}
    metadata = msgspec.structs.replace(pools.metadata, annotations=kept)
    world.topologies = {"worker-0": msgspec.structs.replace(pools, metadata=metadata)}
    hidden = anonymise(collected_of(world.facts()))
    assert b"balloon" in hidden.files["noderesourcetopologies.json"]
    assert all(b"trainer" not in content for content in hidden.files.values())


def test_a_fingerprint_is_worked_out_for_the_new_names() -> None:
    """Or else the report would seem to be about other pods."""
    world = World()
    world.add_node("n1")
    world.run(pod("one"), "n1")
    facts = world.facts(exact=False)
    text = fingerprint_of([("default", "one")])
    report = facts.topologies["n1"]
    attributes = with_attribute(
        report.attributes, Attribute(name=nrt_names.FINGERPRINT, value=text)
    )
    fingerprinted = {"n1": msgspec.structs.replace(report, attributes=attributes)}
    world.topologies = fingerprinted
    hidden = facts_of(anonymise(collected_of(world.facts(exact=False))))
    (one,) = hidden.pods
    (view,) = (hidden.view(name) for name in hidden.nodes)
    assert getattr(view, "fingerprint", None) == fingerprint_of(
        [(one.metadata.namespace, one.metadata.name)]
    )
    assert one.metadata.name != "one"


def test_values_of_environment_variables_never_leave() -> None:
    """Nor do the copies that kubectl keeps in annotations."""
    container = {"name": "c", "env": [{"name": "PASSWORD", "value": "hunter2"}]}
    note = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "kept": "yes"}
    item = {"metadata": {"name": "p", "annotations": note}, "spec": {"containers": [container]}}
    collected = Collected("t", {"pods.json": msgspec.json.encode({"items": [item]})})
    (content,) = without_secrets(collected).files.values()
    assert b"hunter2" not in content
    assert b"PASSWORD" in content
    assert b"kept" in content


def test_what_is_left_out_is_told() -> None:
    """So that no tool takes it for something that does not exist."""
    base = collected_of(World().facts())
    files = {**base.files, "clusterroles.json": b'{"items": [{"metadata": {"name": "secret"}}]}'}
    facts = facts_of(anonymise(Collected(base.taken_at, files)))
    missing = facts.missing("clusterroles")
    assert missing is not None
    assert "anonymous" in missing.why


@pytest.mark.parametrize("reason", ["TopologyAffinityError", "SMTAlignmentError", "OutOfcpu"])
def test_the_words_of_a_kubelet_that_rejects_stay(reason: str) -> None:
    """They are the same everywhere and name nothing of the cluster."""
    world = World()
    world.add_node("node-a")
    world.pods.append(rejected(pod("odd", cpu="3"), "node-a", reason, "the kubelet's words"))
    (one,) = facts_of(anonymise(collected_of(world.facts()))).pods
    assert one.status is not None
    assert (one.status.reason, one.status.message) == (reason, "the kubelet's words")


def test_no_name_of_a_claim_is_left_and_findings_stay_the_same() -> None:
    """Nor of pools and devices, nor what claims and drivers tell each other."""
    world = healthy()
    pool = {"name": "secretpool", "generation": 1, "resourceSliceCount": 1}
    taint = {"key": "secretkey", "value": "secretvalue", "effect": "NoSchedule"}
    devices = [{"name": "secretgpu", "taints": [taint]}]
    spec = {"driver": "gpu.example", "nodeName": "node-0", "pool": pool, "devices": devices}
    config = {"opaque": {"driver": "gpu.example", "parameters": {"mode": "secret"}}}
    gone = {"request": "one", "driver": "gpu.example", "pool": "secretpool", "device": "secretgone"}
    allocation = {"devices": {"results": [gone], "config": [{"source": "FromClaim", **config}]}}
    chosen = {"pool": "secretpool", "device": "secretgpu"}
    claim = {
        "metadata": {"name": "secretclaim", "namespace": "secretspace"},
        "spec": {"devices": {"config": [config]}},
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": "secretpod", "uid": "1"}],
            "devices": [{**gone, "data": {"serial": "secret"}}],
        },
    }
    template = {"metadata": {"name": "secrettemplate", "namespace": "secretspace"}}
    world.others = {
        "resourceslices": [{"metadata": {"name": "secretslice"}, "spec": spec}],
        "resourceclaims": [claim],
        "resourceclaimtemplates": [template],
        "devicetaintrules": [
            {"metadata": {"name": "secretrule"}, "spec": {"deviceSelector": chosen, "taint": taint}}
        ],
    }
    entry = {"name": "gpu", "resourceClaimTemplateName": "secretmissing"}
    wish = {"resourceClaims": [entry]}
    world.pods.append(document("secretpod", metadata={"uid": "1"}, resources={}, spec=wish))
    hidden = anonymise(world.collected())
    for file, content in hidden.files.items():
        assert b"secret" not in content, file
    found, told = (
        {(entry.rule.id, len(entry.findings)) for entry in diagnose(facts).entries}
        for facts in (facts_of(hidden), world.facts())
    )
    assert {("NUMA-DRA-DEVICE-GONE", 1), ("NUMA-POD-CLAIM-MISSING", 1)} <= found
    assert told <= found
    (rule,) = facts_of(hidden).objects.device_taint_rules.values()
    (one,) = facts_of(hidden).objects.resource_slices.values()
    (device,) = one.spec.devices
    assert rule.spec.taint == device.taints[0]
    assert rule.spec.device_selector == DeviceTaintSelector(
        pool=one.spec.pool.name, device=device.name
    )


def test_a_static_pod_is_still_one_without_names() -> None:
    """Its kubelet's marks go along, with the new name of the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
    marks = {"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"}
    world = healthy()
    image = document("static", node="n1")
    image["metadata"] |= {"annotations": marks, "ownerReferences": [owner]}
    world.pods.append(image)
    hidden = facts_of(anonymise(world.collected()))
    assert "hash" in [static_uid(one) for one in hidden.pods]


def test_the_pod_that_owns_a_claim_is_called_the_same_everywhere() -> None:
    """Claims for extended resources are found by their owner's name and uid."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u", "controller": True}
    kept = {"resource.kubernetes.io/extended-resource-claim": "true", "note": "gone"}
    metadata = {"name": "x", "ownerReferences": [owner], "annotations": kept}
    world = healthy()
    world.others = {"resourceclaims": [{"metadata": metadata}]}
    hidden = facts_of(anonymise(world.collected()))
    (claim,) = hidden.objects.resource_claims.values()
    assert claim.metadata.owner_references[0].name in {one.metadata.name for one in hidden.pods}
    assert set(claim.metadata.annotations) == {"resource.kubernetes.io/extended-resource-claim"}
