"""Sharing changes what objects cost, and nothing else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec

from numakube.api.codec import convert
from numakube.api.interning import shared_nrt, shared_pod
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod

VECTORS = Path(__file__).parents[1] / "vectors"


def test_shared_objects_equal_the_originals() -> None:
    """Also odd ones."""
    with gzip.open(VECTORS / "nrt-plugin-odd.jsonl.gz", "rt") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        for tree in case["nrts"]:
            nrt = convert_nrt(tree)
            assert shared_nrt(nrt) == nrt
            assert msgspec.json.encode(shared_nrt(nrt)) == msgspec.json.encode(nrt)
        for tree in case["pods"]:
            pod = convert(Pod, tree)
            assert shared_pod(pod) == pod
            assert msgspec.json.encode(shared_pod(pod)) == msgspec.json.encode(pod)


def test_replicas_have_the_same_containers_and_labels() -> None:
    """One copy for all of them."""
    tree = {
        "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    first, second = shared_pod(convert(Pod, tree)), shared_pod(convert(Pod, tree))
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels


def test_machines_of_one_kind_have_the_same_costs() -> None:
    """One copy for all of them."""
    zone = {
        "name": "node-0",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10}],
        "resources": [{"name": "cpu", "capacity": 4, "allocatable": "4", "available": "4"}],
    }
    tree = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n"},
        "zones": [zone],
    }
    first, second = shared_nrt(convert_nrt(tree)), shared_nrt(convert_nrt(tree))
    assert first.zones[0].costs is second.zones[0].costs
    assert first.zones[0].resources[0].name is second.zones[0].resources[0].name
