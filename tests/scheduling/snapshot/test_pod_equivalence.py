"""Replicas share what is worked out about them, and nothing that tells them apart."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.strategies.clusters import pod as random_pod

from numakube.api.codec import convert
from numakube.api.pod import (
    ContainerStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodStatus,
    ResourceRequirements,
)
from numakube.scheduling.matching import required_nodes
from numakube.scheduling.numa.native.native_engine import wants_nothing
from numakube.scheduling.plugins.node_resources_fit import rated_requests
from numakube.scheduling.snapshot.pod_equivalence import (
    PodInfos,
    depends_on_pods,
    kubelet_key,
    replica_key,
    scheduling_key,
)
from numakube.scheduling.snapshot.pods import PodInfo, terms_of
from numakube.testing import pod


def said_of(info: PodInfo) -> tuple[object, ...]:
    """All that others read of a pod."""
    own = [getattr(info, name) for name in PodInfo.__slots__ if name != "_memo"]
    keys = scheduling_key(info), replica_key(info), kubelet_key(info)
    terms = repr(terms_of(info)), repr(required_nodes(info))
    return (*own, *keys, *terms, info.qos_class, rated_requests(info), wants_nothing(info))


def test_what_replicas_share_is_what_each_would_have_found() -> None:
    """Of random pods, each twice: as the first of its kind, and as a replica of it."""
    infos = PodInfos()
    for number in range(150):
        for name in ("one", "other"):
            document = random_pod(Random(number), f"{name}-{number}")
            assert said_of(infos.of(document)) == said_of(PodInfo(document)), document


def test_work_is_done_once_for_all_replicas() -> None:
    """Whatever node they are on."""
    infos, asked = PodInfos(), list[str]()
    replicas = [pod(name, cpu="4") for name in ("a", "b", "c")]
    replicas[2] = replace(replicas[2], spec=replace(replicas[2].spec, node_name="node-1"))
    for replica in replicas:
        infos.of(replica).memo("work", lambda pod: asked.append(pod.metadata.name))
    assert asked == ["a"]


def with_claim(name: str) -> Pod:
    """Return a pod whose claim has a name of its own."""
    plain = pod(name, cpu="4")
    claim = PodResourceClaim("devices", resource_claim_name=name)
    return replace(plain, spec=replace(plain.spec, resource_claims=(claim,)))


def test_replicas_with_claims_of_their_own_share_work_and_are_not_alike() -> None:
    """Devices of one claim may be where those of another are not."""
    infos = PodInfos()
    one, other = infos.of(with_claim("a")), infos.of(with_claim("b"))
    one.memo("work", lambda _: "done")
    assert other.memo("work", lambda _: "done again") == "done"
    assert scheduling_key(one) != scheduling_key(other)
    assert replica_key(one) != replica_key(other)


@pytest.mark.parametrize(
    "status",
    [
        PodStatus(
            container_statuses=(
                ContainerStatus(name="main", resources=ResourceRequirements(requests={"cpu": "8"})),
            )
        ),
        PodStatus(extended_resource_claim_status=PodExtendedResourceClaimStatus()),
    ],
)
def test_a_pod_whose_status_counts_has_nothing_of_its_replicas(status: PodStatus) -> None:
    """What it was resized to, or gets by a claim, is its own."""
    infos = PodInfos()
    plain = pod("a", cpu="4")
    infos.of(plain).memo("work", lambda _: "of another")
    special = replace(plain, status=status)
    info = infos.of(special)
    assert info.memo("work", lambda _: "own") == "own"
    assert info.requests == PodInfo(special).requests


@pytest.mark.parametrize(
    ("spec", "depends"),
    [
        ({}, False),
        ({"affinity": {}}, False),
        ({"affinity": {"nodeAffinity": {}}}, False),
        ({"affinity": {"podAffinity": {}}}, True),
        ({"affinity": {"podAntiAffinity": {}}}, True),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            True,
        ),
    ],
)
def test_a_pod_depends_on_others_if_it_asks_to_be_near_or_far_from_them(
    spec: dict[str, Any], depends: bool
) -> None:
    tree = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}
    assert depends_on_pods(PodInfo(convert(Pod, tree))) is depends


def with_volume(name: str, volume: dict[str, Any]) -> PodInfo:
    """Return a pod with one volume, as an API server sends it."""
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "app"}], "volumes": [volume]},
    }
    return PodInfo(convert(Pod, document))


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}, True),
        ({"downwardAPI": {}}, True),
        ({"configMap": {"name": "settings"}}, True),
        ({"secret": {"secretName": "key"}}, True),
        ({"emptyDir": {}}, True),
        ({"nfs": {"server": "files.example", "path": "/"}}, True),
        ({"persistentVolumeClaim": {"claimName": "disk"}}, False),
        ({"ephemeral": {}}, False),
        ({"hostPath": {"path": "/data"}}, False),
        ({"csi": {"driver": "disks.example.com"}}, False),
        ({"gcePersistentDisk": {"pdName": "disk"}}, False),
        ({"awsElasticBlockStore": {"volumeID": "disk"}}, False),
        ({"iscsi": {"targetPortal": "10.0.0.1", "iqn": "disk", "lun": 0}}, False),
        ({"rbd": {"monitors": ["10.0.0.1"], "image": "disk"}}, False),
    ],
)
def test_names_of_volumes_tell_pods_apart_where_volumes_matter(
    source: dict[str, Any], same: bool
) -> None:
    """Most pods have a token in a volume with a name of its own, and are alike all the same."""
    pods = [with_volume(one, {"name": f"volume-{one}", **source}) for one in ("a", "b")]
    assert (len(set(map(scheduling_key, pods))) == 1) is same
    assert (len(set(map(replica_key, pods))) == 1) is same
