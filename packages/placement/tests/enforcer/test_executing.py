"""Groups become what was decided, and what they were again; no write is ever refused."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups.group_files import CPUS, MEMS, Version
from numakube.node.cgroups.group_names import container_group, pod_group
from numakube.node.cgroups.strict_fake_groups import StrictGroups
from numakube.node.cgroups.write_order import GroupSetting
from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuSet
from numakube_placement.enforcer.allowed_cpus import NodeState, PodState, decide
from numakube_placement.enforcer.enforcer_state_file import FILE, OriginalsFile
from numakube_placement.enforcer.group_writing import GroupWriter, Outcome, WriteReason
from numakube_placement.enforcer.metrics import Reporter
from numakube_placement.koordinator.read_cpus import layout_of

NODE = NodeState(layout=layout_of(from_shape("2 sockets, 4 cores, 16Gi")), memory_nodes=0b11)
PARENT = "kubepods.slice"
VERSIONS = pytest.mark.parametrize("version", list(Version))
QUOTA = {Version.V1: "200000", Version.V2: "200000 100000"}


def identity(uid: str, name: str) -> str:
    """Return the id of a container."""
    return (uid + name).encode().hex().ljust(64, "0")


def state(uid: str, cpus: str = "", *, memory: int | None = None) -> PodState:
    """Return a pod with one container, with CPUs of its own if given."""
    zones = {} if memory is None else {memory: {"memory": 1 << 30}}
    share = Share(cpus=CpuSet.parse(cpus).mask, zones=zones)
    return PodState(
        uid=uid,
        name=f"ns/{uid}",
        containers={identity(uid, "app"): "app"},
        allotment=Allotment(total=share) if cpus or zones else None,
    )


def group_of(uid: str, name: str = "") -> str:
    """Return the group of a pod, or of one of its containers."""
    pod = pod_group(PARENT, "Burstable", uid)
    return container_group(pod, f"containerd://{identity(uid, name)}") if name else pod


class Machine:
    """A machine with an enforcer that can crash."""

    def __init__(self, version: Version, folder: Path) -> None:
        self.groups = StrictGroups(version, NODE.layout.all, 0b11)
        self.groups.add(PARENT)
        self.folder = folder
        self.executor = GroupWriter(self.groups, OriginalsFile(folder))

    def start(self, *uids: str) -> None:
        """Run pods with a sandbox and a container."""
        for uid in uids:
            self.groups.add(group_of(uid, "sandbox"))
            self.groups.add(group_of(uid, "app"), quota=QUOTA[self.groups.version])
            self.groups.busy |= {group_of(uid, "sandbox"), group_of(uid, "app")}

    def stop(self, *uids: str) -> None:
        """End the processes of pods; their groups are still there."""
        self.groups.busy -= {group for uid in uids for group in all_groups(uid)}

    def crash(self) -> None:
        """Go on with a new process."""
        self.executor = GroupWriter(self.groups, OriginalsFile(self.folder))

    def enforce(self, *pods: PodState) -> Outcome:
        """Make a pass."""
        assert self.executor.look() == ""
        gone = self.executor.remembered() - {pod.uid for pod in pods}
        all_pods = [*pods, *(PodState(uid=uid, name=uid) for uid in gone)]
        outcome = self.executor.apply(all_pods, decide(all_pods, NODE))
        assert outcome.refused == []
        return outcome

    def cpus(self, uid: str, name: str = "") -> str:
        """Return the CPUs that a group can use."""
        return str(CpuSet(self.groups.effective(group_of(uid, name), CPUS)))

    def files(self, groups: Iterable[str]) -> dict[tuple[str, str], str | None]:
        """Return everything that could have been written."""
        files = (CPUS, MEMS, self.groups.version.quota)
        return {(group, file): self.groups.read(group, file) for group in groups for file in files}

    def snapshot(self, groups: Iterable[str]) -> dict[tuple[str, str], object]:
        """Return what processes feel of everything that could have been written."""
        quota = self.groups.version.quota
        return {
            (group, file): self.groups.read(group, file)
            if file == quota
            else self.groups.effective(group, file)
            for group in groups
            for file in (CPUS, MEMS, quota)
        }


def all_groups(*uids: str) -> list[str]:
    """Return the groups of pods and containers."""
    return [group_of(uid, name) for uid in uids for name in ("", "sandbox", "app")]


@VERSIONS
def test_a_bound_pod_is_confined_and_others_move_off(version: Version, tmp_path: Path) -> None:
    """The container, its pod and its sandbox get the CPUs; shared pods the rest."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b")
    machine.enforce(state("a", "0-1", memory=0), state("b"))
    assert machine.groups.read(group_of("a", "app"), CPUS) == "0-1"
    assert machine.groups.read(group_of("a", "app"), MEMS) == "0"
    assert {machine.cpus("a", name) for name in ("", "app", "sandbox")} == {"0-1"}
    assert {machine.cpus("b", name) for name in ("", "app", "sandbox")} == {"2-7"}


@VERSIONS
def test_what_was_allotted_counts_and_not_what_was_there(version: Version, tmp_path: Path) -> None:
    """Also if the group had some of it; memory that is allotted later comes along."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    assert machine.groups.write(group_of("a", "app"), CPUS, "0-2") == ""
    machine.enforce(state("a", "2-3"))
    assert machine.groups.read(group_of("a", "app"), CPUS) == "2-3"
    machine.enforce(state("a", "2-3", memory=0))
    assert machine.groups.read(group_of("a", "app"), MEMS) == "0"


@VERSIONS
def test_a_bound_container_is_not_throttled(version: Version, tmp_path: Path) -> None:
    """Neither is its pod; others are as before."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b")
    machine.enforce(state("a", "0-1"), state("b"))
    quota = machine.groups.read(group_of("a", "app"), version.quota) or ""
    assert quota.split()[0] == version.unlimited
    assert machine.groups.read(group_of("b", "app"), version.quota) == QUOTA[version]


@VERSIONS
def test_a_second_pass_writes_nothing(version: Version, tmp_path: Path) -> None:
    """What is as decided is left alone, also by a new process."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b")
    pods = (state("a", "0-1", memory=1), state("b"))
    assert machine.enforce(*pods).changes
    assert machine.enforce(*pods).changes == []
    machine.crash()
    assert machine.enforce(*pods).changes == []


@VERSIONS
def test_cpus_are_given_back_when_a_pod_ends(version: Version, tmp_path: Path) -> None:
    """Then others have everything again, as if nothing had been."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b")
    before = machine.snapshot(all_groups("b"))
    machine.enforce(state("a", "0-1"), state("b"))
    machine.groups.remove(group_of("a"))
    outcome = machine.enforce(state("b"))
    assert machine.snapshot(all_groups("b")) == before
    assert {change.kind for change in outcome.changes} == {WriteReason.RESTORED}


@VERSIONS
def test_drift_is_repaired_and_called_so(version: Version, tmp_path: Path) -> None:
    """Somebody else's write does not last."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    if version is Version.V1:
        machine.groups.write(group_of("a"), CPUS, "0-7")
    machine.groups.write(group_of("a", "app"), CPUS, "0-7")
    outcome = machine.enforce(state("a", "0-1"))
    assert {change.kind for change in outcome.changes} == {WriteReason.DRIFT}
    assert machine.groups.read(group_of("a", "app"), CPUS) == "0-1"


def test_drift_is_logged_as_a_warning_and_our_own_writes_are_not(tmp_path: Path) -> None:
    """Somebody has to look who else writes there."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    first = machine.enforce(state("a", "0-1"))
    machine.groups.write(group_of("a", "app"), CPUS, "0-7")
    second = machine.enforce(state("a", "0-1"))
    with capture_logs() as lines:
        for outcome in (first, second):
            Reporter(None).report({}, decide([state("a", "0-1")], NODE), outcome)
    warned = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert warned == ["started_unpinned", *[str(WriteReason.DRIFT)] * len(second.changes)]


@VERSIONS
def test_a_new_container_is_confined_before_it_is_known(version: Version, tmp_path: Path) -> None:
    """Its pod's group is, and so is whatever starts in it."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    machine.groups.add(group_of("a", "late"))
    assert machine.cpus("a", "late") == "0-1"
    machine.enforce(state("a", "0-1"))
    machine.executor.restore()
    assert machine.cpus("a", "late") == "0-7"


@VERSIONS
@pytest.mark.parametrize("crash", [False, True])
def test_everything_is_put_back(version: Version, crash: bool, tmp_path: Path) -> None:
    """On exit, and after a crash by the process that comes next."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b")
    before = machine.snapshot(all_groups("a", "b"))
    machine.enforce(state("a", "0-1", memory=0), state("b"))
    if crash:
        machine.crash()
    assert machine.executor.restore().refused == []
    assert machine.snapshot(all_groups("a", "b")) == before


@VERSIONS
@pytest.mark.parametrize("crash", [False, True])
def test_a_changed_limit_is_what_is_put_back(version: Version, crash: bool, tmp_path: Path) -> None:
    """A kubelet that resizes a container in place does not do so in vain, also after a crash."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    resized = QUOTA[version].replace("2", "3", 1)
    machine.groups.write(group_of("a", "app"), version.quota, resized)
    if crash:
        machine.crash()
    else:
        machine.enforce(state("a", "0-1"))
    machine.executor.restore()
    assert machine.groups.read(group_of("a", "app"), version.quota) == resized


@VERSIONS
def test_what_somebody_else_has_limited_stays_limited(version: Version, tmp_path: Path) -> None:
    """A shared pod gets no more than it had, unless that is gone."""
    machine = Machine(version, tmp_path)
    machine.start("a", "b", "c")
    for uid, cpus in (("b", "1-3"), ("c", "0-1")):
        for group in reversed(all_groups(uid)):
            assert machine.groups.write(group, CPUS, cpus) == ""
    before = machine.snapshot(all_groups("a", "b", "c"))
    machine.enforce(state("a", "0-1"), state("b"), state("c"))
    assert machine.cpus("b", "app") == "2-3"
    assert machine.cpus("c", "app") == "2-7"
    assert machine.executor.restore().refused == []
    assert machine.snapshot(all_groups("a", "b", "c")) == before


def test_inner_groups_of_containers_follow(tmp_path: Path) -> None:
    """In version 1 they have sets of their own, and get back what they had."""
    machine = Machine(Version.V1, tmp_path)
    machine.start("a")
    inner = f"{group_of('a', 'app')}/init"
    machine.groups.add(inner)
    machine.groups.write(inner, CPUS, "1-3")
    machine.enforce(state("a", "0-1"))
    assert machine.groups.read(inner, CPUS) == "1"
    machine.enforce(state("a", "6-7"))
    assert machine.groups.read(inner, CPUS) == "6-7"
    machine.executor.restore()
    assert machine.groups.read(inner, CPUS) == "1-3"


@pytest.mark.parametrize(("made_with", "put_back"), [("", "0-7"), ("0", "0")])
def test_a_new_container_gets_back_what_it_was_made_with(
    made_with: str, put_back: str, tmp_path: Path
) -> None:
    """In version 1 it begins with a copy of what its pod has, which is ours, or with its own."""
    machine = Machine(Version.V1, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    late = group_of("a", "late")
    machine.groups.add(late)
    if made_with:
        assert machine.groups.write(late, CPUS, made_with) == ""
    machine.enforce(state("a", "0-1"))
    assert machine.groups.read(late, CPUS) == "0-1"
    assert machine.executor.restore().refused == []
    assert machine.groups.read(late, CPUS) == put_back


def test_what_was_forced_out_of_the_api_leaves_exclusive_cpus(tmp_path: Path) -> None:
    """A pod that still runs without an object shares with the others."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a", "b")
    machine.enforce(state("a", "0-1"))
    machine.enforce(state("b", "0-1"))
    assert machine.cpus("a", "app") == "2-7"


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """It tells what would be written."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    machine.executor = GroupWriter(machine.groups, OriginalsFile(tmp_path), dry_run=True)
    outcome = machine.enforce(state("a", "0-1"))
    assert [change.after for change in outcome.changes if change.file == CPUS] == ["0-1"] * 3
    assert machine.groups.history == []
    assert not (tmp_path / FILE).exists()


def test_a_group_that_cannot_be_changed_is_named(tmp_path: Path) -> None:
    """With its pod and container."""
    machine = Machine(Version.V1, tmp_path)
    machine.start("a")
    machine.groups.write(group_of("a", "app"), CPUS, "0-3")
    machine.groups.write(group_of("a", "sandbox"), CPUS, "0-3")
    for group in (group_of("a"), group_of("a").rpartition("/")[0], PARENT):
        assert machine.groups.write(group, CPUS, "0-3") == ""
    assert machine.executor.look() == ""
    pods = [state("a", "4-5")]
    refused = machine.executor.apply(pods, decide(pods, NODE)).refused
    assert {(other.owner.pod, other.why) for other in refused} == {("ns/a", "EACCES")}


def test_a_broken_state_file_is_put_aside(tmp_path: Path) -> None:
    """Nothing can be undone then, but everything else works."""
    (tmp_path / FILE).write_text("{]")
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    assert (tmp_path / FILE).with_suffix(".broken").read_text() == "{]"


def test_what_cannot_be_emptied_follows_the_group_above(tmp_path: Path) -> None:
    """Version 2: processes stay, so that a set with everything has to stand in for none."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a", "b")
    pods = (state("a", "0-1", memory=0), state("b"))
    machine.enforce(*pods)
    machine.groups.remove(group_of("a"))
    machine.enforce(state("b"))
    assert machine.groups.read(group_of("b"), CPUS) == "0-7"
    for cpus in ("2-5", "0-7"):
        machine.groups.write(PARENT, CPUS, cpus)
        assert machine.enforce(state("b")).changes == []
        assert {machine.cpus("b", name) for name in ("", "app")} == {cpus}


@pytest.mark.parametrize("crash", [False, True])
def test_what_stands_in_is_remembered_until_it_need_not(crash: bool, tmp_path: Path) -> None:
    """The file tells what was put back and how; without processes nothing has to stand in."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    before = machine.files(all_groups("a"))
    machine.enforce(state("a", "0-1", memory=0))
    assert machine.executor.restore().refused == []
    kept = json.loads((tmp_path / FILE).read_text())["groups"][group_of("a", "app")]
    assert kept == {"cpus": "", "mems": "", "putBackAs": {"cpus": "0-7", "mems": "0-1"}}
    assert machine.executor.restore().changes == []
    machine.stop("a")
    if crash:
        machine.crash()
    assert machine.executor.restore().refused == []
    assert machine.files(all_groups("a")) == before
    assert json.loads((tmp_path / FILE).read_text()).get("groups", {}) == {}


def test_a_group_beside_a_partition_follows_in_steps(tmp_path: Path) -> None:
    """Its set must not touch the partition's, so it is written again when that has ended."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    apart = f"{group_of('a').rpartition('/')[0]}/apart"
    machine.groups.add(apart)
    machine.groups.write(apart, CPUS, "6-7")
    machine.groups.partitions.add(apart)
    machine.enforce(PodState(uid="a", name="ns/a"))
    assert machine.groups.read(group_of("a"), CPUS) == "0-5"
    machine.groups.partitions.clear()
    machine.enforce(PodState(uid="a", name="ns/a"))
    assert machine.groups.read(group_of("a"), CPUS) == "0-7"


def test_what_somebody_writes_after_a_release_stays(tmp_path: Path) -> None:
    """The group is theirs then."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    machine.enforce(state("a"))
    machine.groups.write(group_of("a", "app"), CPUS, "3")
    assert machine.enforce(state("a")).changes == []
    machine.executor.restore()
    assert machine.groups.read(group_of("a", "app"), CPUS) == "3"


def test_a_limit_whose_file_comes_after_the_group_is_put_back(tmp_path: Path) -> None:
    """In version 1 a runtime makes the groups of controllers one by one, that of CPU time late."""
    machine, group, quota = Machine(Version.V1, tmp_path), group_of("a", "app"), Version.V1.quota
    machine.executor.declare(identity("a", "app"), GroupSetting(quota=QUOTA[Version.V1]))
    machine.start("a")
    del machine.groups._files[group][quota]
    machine.enforce(state("a", "0-1"))
    machine.groups._files[group][quota] = Version.V1.unlimited
    machine.enforce(state("a", "0-1"))
    machine.executor.restore()
    assert machine.groups.read(group, quota) == QUOTA[Version.V1]


@VERSIONS
def test_a_group_that_is_made_anew_is_no_drift(version: Version, tmp_path: Path) -> None:
    """What was known of the old one does not count for it."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    machine.groups.remove(group_of("a"))
    machine.groups.add(group_of("a"), quota=QUOTA[version])
    outcome = machine.enforce(state("a", "0-1"))
    assert {change.kind for change in outcome.changes} == {WriteReason.APPLIED}
    machine.executor.restore()
    assert machine.groups.read(group_of("a"), version.quota) == QUOTA[version]


@VERSIONS
def test_the_limit_of_a_container_that_is_being_made_is_no_drift(
    version: Version, tmp_path: Path
) -> None:
    """The runtime writes it after it has made the group; it is noted as what to put back."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    new = group_of("a", "new")
    machine.groups.add(new)
    machine.enforce(state("a", "0-1"))
    machine.groups.write(new, version.quota, QUOTA[version])
    assert {change.kind for change in machine.enforce(state("a", "0-1")).changes} == {
        WriteReason.APPLIED
    }
    machine.executor.restore()
    assert machine.groups.read(new, version.quota) == QUOTA[version]


def test_a_reset_of_a_group_without_processes_is_no_drift(tmp_path: Path) -> None:
    """The pod has ended, and systemd writes what is left of it."""
    machine = Machine(Version.V2, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    machine.stop("a")
    machine.groups.write(group_of("a"), CPUS, "")
    outcome = machine.enforce(state("a", "0-1"))
    assert {change.kind for change in outcome.changes} == {WriteReason.APPLIED}


SETS = st.sampled_from(["", "0-1", "2-3", "0,4", "5-7"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data(), version=st.sampled_from(Version))
def test_any_history_can_be_undone(
    data: st.DataObject, version: Version, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever was decided, and however often the process crashed."""
    machine = Machine(version, tmp_path_factory.mktemp("state"))
    machine.start("a", "b")
    before = machine.snapshot(all_groups("a", "b"))
    steps = data.draw(st.lists(st.tuples(SETS, SETS, st.booleans()), min_size=1, max_size=5))
    for first, second, crash in steps:
        machine.enforce(state("a", first, memory=0 if first else None), state("b", second))
        if first:
            assert machine.cpus("a", "app") == first
        if crash:
            machine.crash()
    assert machine.executor.restore().refused == []
    assert machine.snapshot(all_groups("a", "b")) == before


@VERSIONS
def test_a_limit_that_somebody_puts_on_a_bound_container_is_drift(
    version: Version, tmp_path: Path
) -> None:
    """It runs already, so that no runtime is still making it."""
    machine = Machine(version, tmp_path)
    machine.start("a")
    machine.enforce(state("a", "0-1"))
    assert machine.groups.write(group_of("a", "app"), version.quota, QUOTA[version]) == ""
    (change,) = machine.enforce(state("a", "0-1")).changes
    assert (change.file, change.kind) == (version.quota, WriteReason.DRIFT)
