"""What the kernel refuses is shown where people and machines look, for as long as it lasts."""

from __future__ import annotations

from pathlib import Path

import structlog
from packages.placement.tests.enforcer.single import Node, group_of, pod_of

from numakube.node.cgroups.group_files import CPUS
from numakube_placement.enforcer.enforce_loop import MOST_TOLD

METRIC = "numakube_enforcer_not_enforced"
BESIDE = f"{group_of('p')}/beside"


def node_with_a_partition(folder: Path, *identities: str) -> Node:
    """Return a node on which a pod cannot have the CPUs that it was given."""
    node = Node(folder)
    node.known["p"] = pod_of("p", {"cpuset": "0-1"}, app=identities[0])
    for identity in identities:
        node.groups.add(group_of("p", identity))
    node.groups.add(BESIDE)
    node.groups.write(BESIDE, CPUS, "1")
    node.groups.partitions.add(BESIDE)
    return node


async def test_what_cannot_be_enforced_is_told_until_it_can(tmp_path: Path) -> None:
    """Readiness, a metric by reason, and the log once each way."""
    node = node_with_a_partition(tmp_path, "a" * 64)
    group = group_of("p", "a" * 64)
    with structlog.testing.capture_logs() as logs:
        await node.enforcer.step()
        await node.enforcer.step()
    assert node.enforcer.unenforced() == f"ns/p {group}: EINVAL"
    assert node.shown(METRIC) == [f'{METRIC}{{reason="EINVAL"}} 1.0']
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["not_enforced"]
    node.groups.partitions.clear()
    with structlog.testing.capture_logs() as logs:
        await node.enforcer.step()
    assert node.enforcer.unenforced() == ""
    assert node.shown(METRIC) == []
    assert "mended" in [log["event"] for log in logs]
    assert node.groups.read(group, CPUS) == "0-1"


async def test_readiness_names_no_more_than_a_few(tmp_path: Path) -> None:
    """The metric counts them all."""
    node = node_with_a_partition(tmp_path, *(f"{one:064x}" for one in range(MOST_TOLD + 2)))
    await node.enforcer.step()
    assert node.enforcer.unenforced().endswith(" and 2 more")
    assert node.shown(METRIC) == [f'{METRIC}{{reason="EINVAL"}} {MOST_TOLD + 2}.0']


async def test_pods_that_are_not_treated_as_allotted_are_counted_by_reason(tmp_path: Path) -> None:
    """Back to none when the allotment is right."""
    name = "numakube_enforcer_problems"
    node = Node(tmp_path, known={"p": pod_of("p", {"cpuset": "9"})})
    for cpus, count in (("9", 1), ("0", 0)):
        node.known["p"] = pod_of("p", {"cpuset": cpus})
        await node.enforcer.step()
        assert node.shown(name) == [f'{name}{{reason="InvalidAllotment"}} {count}.0']


async def test_pods_are_counted_by_whether_they_have_cpus_of_their_own(tmp_path: Path) -> None:
    """Of those whose groups are looked after."""
    name = "numakube_enforcer_pods"
    pods = {uid: pod_of(uid) for uid in "bc"} | {"a": pod_of("a", {"cpuset": "0"})}
    node = Node(tmp_path, known=pods)
    await node.enforcer.step()
    assert set(node.shown(name)) == {f'{name}{{kind="bound"}} 1.0', f'{name}{{kind="shared"}} 2.0'}
