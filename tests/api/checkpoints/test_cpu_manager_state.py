"""``cpu_manager_state``: every version, its checksum, and the kubelet's complaints."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.checkpoints import (
    CpuManagerState,
    cpu_checkpoint_version,
    read_cpu_manager_state,
    write_cpu_manager_state,
)
from numakube.errors import CorruptCheckpoint
from numakube.values.cpuset import CpuSet


def cpus(text: str) -> CpuSet:
    """Return the CPU set that *text* names."""
    return CpuSet.parse(text)


TWO_CONTAINERS = CpuManagerState(
    policy="none",
    default_cpus=cpus("1-3"),
    entries={"pod": {"container1": cpus("4-6"), "container2": cpus("1-3")}},
)
WITH_POD = CpuManagerState(
    policy="static",
    default_cpus=cpus("1-2"),
    entries={"pod1": {"container1": cpus("5-6"), "container2": cpus("3-4")}},
    pod_entries={"pod2": cpus("7-9")},
)


def written(state: CpuManagerState, version: int) -> dict[str, Any]:
    """Return the file of *state* as a tree."""
    tree: dict[str, Any] = json.loads(write_cpu_manager_state(state, version=version))
    return tree


def refusal(tree: Any, **options: Any) -> str:
    """Return the reason why *tree* is refused, without the advice around it."""
    with pytest.raises(CorruptCheckpoint) as refused:
        read_cpu_manager_state(tree if isinstance(tree, bytes) else json.dumps(tree), **options)
    text = str(refused.value).removeprefix("could not restore state from checkpoint: ")
    return text.split(", please drain")[0]


def test_checksums_are_those_of_the_kubelet() -> None:
    """Recorded from its own tests."""
    empty = CpuManagerState(policy="none", default_cpus=cpus("4-6"))

    assert written(empty, 2)["checksum"] == 354655845
    assert written(TWO_CONTAINERS, 2)["checksum"] == 3610638499
    assert written(WITH_POD, 3)["checksum"] == 766259872


def test_version_2_is_written_byte_for_byte() -> None:
    """Fields in Go's order, pods and containers sorted, empty entries left out."""
    assert write_cpu_manager_state(TWO_CONTAINERS) == (
        b'{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6",'
        b'"container2":"1-3"}},"checksum":3610638499}'
    )
    assert "entries" not in written(CpuManagerState(policy="none", default_cpus=CpuSet()), 2)


def test_version_4_carries_version_2_for_older_kubelets() -> None:
    """And everything else in ``data``."""
    tree = written(WITH_POD, 4)

    assert json.loads(tree["data"])["podEntries"] == {"pod2": {"cpuSet": "7-9"}}
    old = read_cpu_manager_state(json.dumps(tree), versions=(2, 1))
    assert old.entries == WITH_POD.entries
    assert old.pod_entries == {}


def test_version_3_is_accepted_under_both_struct_names() -> None:
    """The kubelet renamed its struct once."""
    tree = written(WITH_POD, 3) | {"checksum": 2284712151}

    assert read_cpu_manager_state(json.dumps(tree)) == WITH_POD


def test_version_1_knows_container_ids_only() -> None:
    """Which pods they belong to only the container runtime can tell."""
    state = CpuManagerState(
        policy="static", default_cpus=cpus("1-3"), by_container_id={"4c51": cpus("4-6")}
    )

    assert read_cpu_manager_state(write_cpu_manager_state(state, version=1)) == state


def test_a_missing_checksum_is_accepted_in_old_versions() -> None:
    """As written by ancient kubelets."""
    tree = {"policyName": "none", "defaultCpuSet": "4-6", "checksum": 0}

    assert read_cpu_manager_state(json.dumps(tree)).default_cpus == cpus("4-6")


def test_the_case_of_keys_does_not_matter() -> None:
    """As in Go."""
    tree = {"policyName": "none", "defaultCPUSet": "4-6", "checksum": 354655845}

    assert read_cpu_manager_state(json.dumps(tree)).default_cpus == cpus("4-6")


def test_a_wrong_checksum_is_refused_in_the_kubelets_words() -> None:
    """With the file to delete."""
    tree = written(TWO_CONTAINERS, 2) | {"checksum": 1337}

    with pytest.raises(CorruptCheckpoint) as refused:
        read_cpu_manager_state(json.dumps(tree), path="/state/cpu_manager_state")

    assert str(refused.value) == (
        "could not restore state from checkpoint: checkpoint is corrupted, please drain this node "
        'and delete the CPU manager checkpoint file "/state/cpu_manager_state" before restarting '
        "Kubelet"
    )


def test_a_damaged_version_4_is_not_read_as_an_older_one() -> None:
    """Its older half could be out of date."""
    tree = written(WITH_POD, 4)

    damaged = tree | {"dataChecksum": 1}
    assert refusal(damaged) == "could not load v4 checkpoint: checkpoint is corrupted"
    assert refusal(tree | {"data": "{"}).startswith("could not load v4 checkpoint: not JSON")


def test_another_policy_is_refused() -> None:
    """The operator must drain the node before changing it."""
    assert refusal(written(TWO_CONTAINERS, 2), policy="static") == (
        'configured policy "static" differs from state checkpoint policy "none"'
    )
    read_cpu_manager_state(write_cpu_manager_state(TWO_CONTAINERS), policy="none")


def test_malformed_cpusets_are_named() -> None:
    """With container and pod."""
    head = {"policyName": "none", "checksum": 0}

    assert refusal(head | {"defaultCpuSet": "1.3"}) == (
        'could not parse default CPU set "1.3": strconv.Atoi: parsing "1.3": invalid syntax'
    )
    assert refusal(head | {"entries": {"p": {"c": "asd"}}}, versions=(2,)) == (
        'could not parse cpuset "asd" for container "c" in pod "p": strconv.Atoi: parsing "asd": '
        "invalid syntax"
    )
    assert "invalid range" in refusal(
        head | {"podEntries": {"p": {"cpuSet": "3-1"}}}, versions=(3,)
    )


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"policyName": 1}', b'{"entries": 3}'])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    """Never with another kind of error."""
    assert refusal(data)


def test_which_version_each_release_writes() -> None:
    """The gate for pod-level managers matters in 1.36 only."""
    assert [cpu_checkpoint_version(minor) for minor in (17, 31, 35, 36, 37)] == [1, 2, 2, 2, 4]
    assert cpu_checkpoint_version(36, pod_level_managers=True) == 3


names = st.text("abc-<&\u00e9", min_size=1, max_size=5)
sets = st.sets(st.integers(0, 300), max_size=8).map(CpuSet.of)
assignments = st.dictionaries(
    names, st.dictionaries(names, sets, min_size=1, max_size=3), max_size=3
)
states = st.builds(
    CpuManagerState,
    policy=st.sampled_from(["none", "static"]),
    default_cpus=sets,
    entries=assignments,
    pod_entries=st.dictionaries(names, sets, max_size=3),
    baselines=assignments,
)


@given(states)
def test_version_4_reads_back_as_it_was_written(state: CpuManagerState) -> None:
    """With pod entries and baselines."""
    assert read_cpu_manager_state(write_cpu_manager_state(state, version=4)) == state


@given(states, st.sampled_from([2, 3]))
def test_older_versions_read_back_what_they_can_hold(state: CpuManagerState, version: int) -> None:
    """Version 3 has no baselines, version 2 no pod entries either."""
    again = read_cpu_manager_state(write_cpu_manager_state(state, version=version))

    assert (again.policy, again.default_cpus, again.entries) == (
        state.policy,
        state.default_cpus,
        state.entries,
    )
    assert again.pod_entries == (state.pod_entries if version == 3 else {})
