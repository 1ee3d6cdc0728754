"""What files and flags add up to, and what is said of those that make no sense."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests.annexes.installing import installed

from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.api.yaml_text import load_yaml
from numakube.apps.host.process_life import Surroundings
from numakube.apps.scheduler.binders import CLIENT, DefaultBinder
from numakube.apps.scheduler.process import read_options
from numakube.apps.scheduler.settings import configuration_of
from numakube.cli.main import run
from numakube.errors import ConfigError, NumakubeError
from numakube.insight.scheduler_engine import BindsNothing
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.scheduling.assembly import all_plugins, assemble
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.scheduling.framework.registry import ENTRY_POINTS, Services
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.scheduling_queue import Place
from numakube.testing import pod_document, refusal_of
from numakube.values.topology_policy import TopologyScope
from numakube_lab.testing import Opener, lab_cluster
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy
from numakube_placement.plugins.node_numa_resource import NodeNUMAResource

UPSTREAM = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: topo-aware-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: NodeResourceTopologyMatch
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      cacheResyncPeriodSeconds: 1
      cache:
        foreignPodsDetect: OnlyExclusiveResources
        resyncMethod: OnlyExclusiveResources
        informerMode: Dedicated
      scoringStrategy:
        type: LeastAllocated
"""
"""As upstream's users have it."""

TWO = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: packs
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
- schedulerName: blind
"""


KOORDINATOR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: NodeNUMAResource
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeNUMAResourceArgs
      defaultCPUBindPolicy: SpreadByPCPUs
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 2}]}
      numaScoringStrategy: {type: MostAllocated}
      defaultNUMATopologyScope: container
  - name: DeviceShare
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: DeviceShareArgs
      disableDeviceNUMATopologyAlignment: false
      scoringStrategy: {type: MostAllocated}
  plugins:
    preFilter: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}]}
    filter: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}]}
    score: {enabled: [{name: NodeNUMAResource, weight: 1}, {name: DeviceShare, weight: 1}]}
    reserve: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}]}
    preBind: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}]}
"""
"""As Koordinator's users have it."""


def configuration(text: str) -> KubeSchedulerConfiguration:
    """Return what a file says."""
    tree = load_yaml(text, "file")
    assert isinstance(tree, dict)
    return read_configuration(tree, source="file")


def offering(client: Client) -> Services:
    """Return the services of a scheduler that can bind pods."""
    services = Services()
    services.offer(CLIENT, client)
    return services


def make(text: str, tmp_path: Path, client: Client | None = None) -> None:
    """Read a file and make what it asks for."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    config = configuration_of({"config": str(path)}, Path)
    client = client or connect(ClusterConfig(server="http://127.0.0.1:1"))
    assemble(config, all_plugins(DefaultBinder.make), offering(client))


def test_a_scheduler_starts_with_a_file_of_v1beta1_and_says_what_to_write(
    tmp_path: Path,
) -> None:
    """C28: what it logs is among its options."""
    path = tmp_path / "config.yaml"
    path.write_text(UPSTREAM.replace("config.k8s.io/v1", "config.k8s.io/v1beta1"))
    options = read_options({"config": str(path)}, Surroundings())
    assert options.config.profiles == configuration(UPSTREAM).profiles
    (note,) = options.notes
    assert note.endswith("is deprecated: write kubescheduler.config.k8s.io/v1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "not a mapping"),
        ("{", "config.yaml"),
        ("apiVersion: v1\nkind: Pod\n", "this is v1 Pod"),
        (
            UPSTREAM.replace("- name: NodeResourceTopologyMatch\n  plug", "- name: Nope\n  plug"),
            "Nope",
        ),
        (UPSTREAM.replace("type: LeastAllocated", "type: Whatever"), "Whatever"),
        (
            UPSTREAM.replace("cacheResyncPeriodSeconds: 1", "cacheResyncPeriodSeconds: soon"),
            "cacheResync",
        ),
        (TWO.replace("blind", "packs"), "packs"),
        (
            KOORDINATOR.replace("SpreadByPCPUs", "Sometimes"),
            "must specified CPU bind policy FullPCPUs or SpreadByPCPUs",
        ),
        (
            KOORDINATOR.replace(
                "numaScoringStrategy: {type: Most", "numaScoringStrategy: {type: So"
            ),
            "numaScoringStrategy.type",
        ),
        (KOORDINATOR.replace("numaScoringStrategy", "numaStrategy"), "numaStrategy"),
        (
            KOORDINATOR.replace("TopologyScope: container", "TopologyScope: core"),
            "defaultNUMATopologyScope: 'core': use pod or container",
        ),
        (
            KOORDINATOR.replace(
                "scoringStrategy: {type: MostAllocated}\n  plug",
                "disableDeviceNUMATopologyAlignment: true\n  plug",
            ),
            "DeviceShareArgs: disableDeviceNUMATopologyAlignment: devices are aligned with CPUs",
        ),
        (
            KOORDINATOR.replace(
                "scoringStrategy: {type: MostAllocated}\n  plug",
                "gpuShareUnsupportedModels: [H20]\n  plug",
            ),
            "DeviceShareArgs: gpuShareUnsupportedModels: parts of every GPU are given out here",
        ),
    ],
)
async def test_a_bad_file_is_refused_with_the_place_of_the_mistake(
    text: str, words: str, tmp_path: Path
) -> None:
    """In one line that names it."""
    async with connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        with pytest.raises(NumakubeError) as caught:
            make(text, tmp_path, client)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_file_for_koordinators_scheduler_loads(tmp_path: Path) -> None:
    """What it says of DeviceShare has no effect, and the log says so."""
    config = configuration(KOORDINATOR)
    async with connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        engine = assemble(config, all_plugins(DefaultBinder.make), offering(client))
    (runtime,) = engine.runtimes.values()
    plugin = runtime.profile.plugins()["NodeNUMAResource"]
    assert isinstance(plugin, NodeNUMAResource)
    assert plugin.args.bind_policy is BindPolicy.SPREAD_BY_PCPUS
    assert plugin.args.strategy is Strategy.MOST_ALLOCATED
    assert plugin.args.weights == {"cpu": 2}
    assert plugin.args.scope is TopologyScope.CONTAINER
    (note,) = engine.notes
    assert "DeviceShare does nothing" in note
    assert "scoringStrategy" in note


@pytest.mark.parametrize(
    ("percentage", "notes"),
    [
        (100, ()),
        (30, ("has no effect: every node is filtered and scored for every pod",)),
    ],
)
def test_c23_a_sample_of_nodes_is_not_taken_and_that_is_told(
    percentage: int, notes: tuple[str, ...]
) -> None:
    """All nodes are looked at, which is what 100 asks for."""
    config = configuration(f"percentageOfNodesToScore: {percentage}\n{KOORDINATOR}")
    engine = assemble(config, all_plugins(BindsNothing.make))
    path = "percentageOfNodesToScore"
    told = tuple(note.removeprefix(path).strip() for note in engine.notes if path in note)
    assert told == notes


def test_a_name_beside_a_file_that_has_other_names_is_told(tmp_path: Path) -> None:
    """As kube-scheduler, ours goes by the file."""
    path = tmp_path / "config.yaml"
    path.write_text(UPSTREAM)
    for name, told in (("elsewhere", 1), ("topo-aware-scheduler", 0)):
        notes: list[str] = []
        config = configuration_of({"config": str(path), "scheduler_name": name}, Path, notes)
        assert config.profiles[0].scheduler_name == "topo-aware-scheduler"
        assert sum(f"--scheduler-name {name} has no effect" in note for note in notes) == told


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    """For the election of a leader."""
    path = tmp_path / "config.yaml"
    path.write_text(UPSTREAM)
    flags = {"config": str(path), "leader_elect": True, "lease_name": "mine"}
    election = configuration_of(flags, Path).leader_election
    assert (election.leader_elect, election.resource_name) == (True, "mine")


def test_plugins_of_other_packages_take_part(tmp_path: Path) -> None:
    """Unless they take the name of one of ours, or cannot be loaded."""
    with installed(tmp_path / "a", plugins("Theirs = builtins:dict")):
        assert "Theirs" in all_plugins(DefaultBinder.make)
    taken = "plugin NodeName of builtins:dict: the name is taken"
    with (
        installed(tmp_path / "b", plugins("NodeName = builtins:dict")),
        pytest.raises(ConfigError, match=taken),
    ):
        all_plugins(DefaultBinder.make)
    with (
        installed(tmp_path / "c", plugins("Broken = no.such.module:it")),
        pytest.raises(ConfigError, match="plugin Broken of no"),
    ):
        all_plugins(DefaultBinder.make)


def plugins(line: str) -> str:
    """Return a list of entry points with one plugin."""
    return f"[{ENTRY_POINTS}]\n{line}\n"


@pytest.fixture
def own_logs() -> Iterator[None]:
    """Logs as they were: the command changes where they go."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("own_logs")
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["scheduler", "--no-such-flag"], 2, "--no-such-flag"),
        (["scheduler", "--config", "/no/such/file"], 1, "/no/such/file"),
        (["scheduler", "--kubeconfig", "/no/such/file"], 1, "/no/such/file"),
        (["scheduler", "--log-level", "loud"], 2, "loud"),
    ],
)
def test_a_wrong_command_line_ends_with_one_line(
    args: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, whatever is wrong."""
    assert run(args, program="numakube") == code
    text = capsys.readouterr().err
    assert words in text
    assert "Traceback" not in text
    errors = [line for line in text.splitlines() if line.lower().startswith("error")]
    assert len(errors) == 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("text", "cache"),
    [
        (UPSTREAM, Predict),
        (UPSTREAM.replace("cache:", "cache:\n        kind: overreserve"), OverReserve),
    ],
)
async def test_the_configuration_of_upstreams_users_works(
    sites: Opener, text: str, cache: type[object]
) -> None:
    """Unchanged with our cache, or with upstream's, whose resync lets in who had to wait."""
    config = configuration(text)
    name = "topo-aware-scheduler"
    async with lab_cluster(2, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        running = await world.start(config)
        assert isinstance(running.process.mirror.cache, cache)
        pods = [pod_document(f"p{number}", "6", schedulerName=name) for number in range(6)]
        await world.create(*pods)
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        await world.settled()
        assert world.by_phase("Failed") == set()
        gone = min(world.by_phase("Running"))
        await world.delete(gone)
        await world.until(lambda: len(world.by_phase("Running") - {gone}) == 4)
        assert world.by_phase("Failed") == set()


@pytest.mark.timeout(180)
async def test_two_profiles_serve_two_names(sites: Opener) -> None:
    """One aligns, the other does not; pods of a third name are nobody's."""
    config = configuration(TWO)
    async with lab_cluster(1, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        await world.start(config)
        names = {"a": "packs", "b": "blind", "c": "other"}
        await world.create(
            *(pod_document(pod, "10", schedulerName=name) for pod, name in names.items())
        )
        # Ten CPUs are more than a zone has: the blind one's pod is rejected by the kubelet.
        await world.until(lambda: world.by_phase("Failed") == {"b"})
        await world.refuses("a", "cannot align")
        assert not refusal_of(world.pod("c"))


@pytest.mark.timeout(180)
async def test_a_pod_whose_resource_claim_does_not_exist_waits(sites: Opener) -> None:
    """It is not placed without its devices, nor tried before the claim is there."""
    async with lab_cluster(1, shape="1 socket, 4 cores, smt 1, 8Gi", on=sites) as world:
        running = await world.start()
        claims = [{"name": "gpu", "resourceClaimName": "some-gpu"}]
        await world.create(pod_document("p", resourceClaims=claims), pod_document("q"))
        await world.runs("q")
        waiting = list(running.process.scheduler.queue)
        assert [(pod.pod.name, pod.place) for pod in waiting] == [("p", Place.GATED)]
        assert waiting[0].gate.message == 'could not find ResourceClaim "default/some-gpu"'
        assert not world.pod("p").spec.node_name
