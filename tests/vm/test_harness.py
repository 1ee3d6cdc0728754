"""What campaigns count by, tried without a kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from tests.vm.campaign import only_devices_differ
from tests.vm.cluster import verdict_of
from tests.vm.kubelets import Choice, KubeletFile, every_choice, parse_choice
from tests.vm.pods import PodMaker, bound_directly
from tests.vm.reports import Settled, Version, as_held, judge, read_version
from tests.vm.shapes import SHAPES, machine_of
from tests.vm.truth import Held, Truth

from numakube.api.codec import convert
from numakube.api.kubelet_config import config_problems, read_kubelet_config
from numakube.api.pod import Pod
from numakube.api.yaml_text import dump_yaml
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.manager_settings import settings_of
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet

UID = "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kubelet_takes_every_configuration(shape: str) -> None:
    """On each machine."""
    machine = machine_of(shape)
    for choice in every_choice():
        config = read_kubelet_config(dump_yaml(KubeletFile(machine).document(choice)))
        assert not config_problems(config)
        KubeletNode(machine, settings_of(config, machine))


@pytest.mark.parametrize("choice", list(every_choice()), ids=lambda one: one.name)
def test_a_choice_is_known_by_its_name(choice: Choice) -> None:
    """As the command line takes it."""
    assert parse_choice(choice.name) == choice


def test_a_seed_gives_the_same_pods() -> None:
    """So that a mistake can be seen again."""
    first, second = (PodMaker(machine_of("four"), Random(3)) for _ in range(2))
    assert [first.draw(f"p{n}") for n in range(50)] == [second.draw(f"p{n}") for n in range(50)]


def test_numa_nodes_that_pods_use_in_different_groups_are_found() -> None:
    """No kubelet surely starts from the files that say so."""
    truth = Truth(
        held={
            "a": Held(CpuSet(), (((0, 1), "memory", 1),), {}),
            "b": Held(CpuSet(), (((0, 1), "memory", 1), ((2,), "memory", 1)), {}),
        },
        shared=None,
        free={},
        cells={},
        registered={},
    )
    assert not truth.groups_overlap
    alone = Held(CpuSet(), (((0,), "memory", 1),), {})
    assert replace(truth, held={**truth.held, "c": alone}).groups_overlap


def test_a_twin_asks_no_scheduler() -> None:
    """And is the same pod otherwise."""
    pod = PodMaker(machine_of("two"), Random(1)).draw("p")
    twin = bound_directly(pod, "twin", "numa0")
    assert "schedulerName" not in twin["spec"]
    assert twin["spec"]["containers"] == pod["spec"]["containers"]


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ({}, "unknown"),
        ({"phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}, "rejected"),
        ({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, "rejected"),
        (
            {
                "phase": "Pending",
                "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Initialized", "status": "False"}],
            },
            "admitted",
        ),
    ],
)
def test_a_pod_is_admitted_when_the_kubelet_says_more_than_a_start_time(
    status: Mapping[str, object], verdict: str
) -> None:
    """A pod that is rejected right after the kubelet's start has no more than that."""
    pod = convert(Pod, {"spec": {"nodeName": "numa0"}, "status": status})
    assert verdict_of(pod)[0] == verdict


def test_a_kubelet_may_take_any_device() -> None:
    """But CPUs and memory are foreseeable."""
    cpu, nic = {"cpu": "2"}, {"vendor.example/nic": "1"}
    predicted = {"zones": [{"ids": [0], "amounts": cpu | nic}]}
    elsewhere = {"zones": [{"ids": [0], "amounts": cpu}, {"ids": [1], "amounts": nic}]}
    assert only_devices_differ({"predicted": predicted, "reported": elsewhere})
    moved = {"zones": [{"ids": [1], "amounts": cpu | nic}]}
    assert not only_devices_differ({"predicted": predicted, "reported": moved})


class TestVersions:
    """What is wrong in a published version."""

    def test_the_right_one_is_right(self) -> None:
        """All the time."""
        right, settled = _settled()
        assert not list(judge([right], settled, settled))

    def test_less_than_a_pod_ends_up_with_is_short(self) -> None:
        """The kubelet was still at it."""
        right, settled = _settled()
        assert right.exact is not None
        less = {uid_hash(UID): replace(right.exact.pods[uid_hash(UID)], cpus=CpuSet())}
        version = replace(right, exact=replace(right.exact, pods=less))
        assert _kinds(version, None, settled) == ["short"]

    def test_a_running_pod_that_is_not_listed_is_forgotten(self) -> None:
        """As by a kubelet that has not loaded its pods yet."""
        _, settled = _settled()
        empty = _version(_kubelet())
        assert _kinds(empty, settled, settled) == ["forgotten"]
        assert not _kinds(replace(empty, stale="the kubelet is away"), settled, settled)

    def test_a_zone_that_has_less_is_lost(self) -> None:
        """As by a kubelet whose managers have not started yet."""
        right, settled = _settled()
        assert _kinds(replace(right, zones={}), settled, settled) == ["lost"]

    def test_exact_data_does_not_go_away(self) -> None:
        """As at the start of an exporter."""
        right, settled = _settled()
        assert _kinds(replace(right, exact=None), settled, settled) == ["inexact"]


def _kinds(version: Version, before: Settled | None, after: Settled) -> list[str]:
    return [kind for _, kind, _ in judge([version], before, after)]


def _kubelet() -> KubeletNode:
    machine = machine_of("two")
    config = read_kubelet_config(dump_yaml(KubeletFile(machine).document(Choice())))
    return KubeletNode(machine, settings_of(config, machine))


def _settled() -> tuple[Version, Settled]:
    """Return the report of a node with one pod."""
    kubelet = _kubelet()
    amounts = {"cpu": "2", "memory": "64Mi"}
    containers = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
    document = {"metadata": {"name": "p", "uid": UID}, "spec": {"containers": containers}}
    assert isinstance(kubelet.admit(convert(Pod, document)), Admitted)
    version = _version(kubelet)
    assert version.exact is not None
    held: dict[str, Held] = {UID: as_held(version.exact.pods[uid_hash(UID)])}
    return version, Settled(1, held, version)


def _version(kubelet: KubeletNode) -> Version:
    return read_version(nrt_of("numa0", kubelet), 0.0)
