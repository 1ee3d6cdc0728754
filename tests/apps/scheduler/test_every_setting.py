"""Every field of a KubeSchedulerConfiguration is honoured, told at the start, or refused.

The table has every field of the type in Kubernetes 1.37 (``kube-scheduler/config/v1``), with what
becomes of it here. A field that is honoured has an effect that can be seen; one without effect is
told in a line that names it; the rest is refused by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from kube_lab_server import ApiServer
from numakube.api.pod import Pod
from numakube.api.scheduler_config import LATER_POINTS, KubeSchedulerConfiguration, PluginConfig
from numakube.api.yaml_text import dump_yaml
from numakube.apps.host.process_life import Surroundings
from numakube.apps.scheduler.process import (
    SchedulerOptions,
    SchedulerProcess,
    read_options,
    run,
)
from numakube.apps.scheduler.settings import (
    configuration_of,
    connection_of,
    lease_of,
    request_rate,
    timing_of,
)
from numakube.errors import ConfigError
from numakube.insight.scheduler_engine import BindsNothing
from numakube.kube.catalog import LEASES
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.scheduling.assembly import Engine, all_plugins, assemble
from numakube.scheduling.framework import registry as profile
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod_document, until
from numakube_lab.inprocess_transport import InProcess

FILE: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "numa"}],
}
MAIN = "kube-system/kube-scheduler"
POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
)
KINDS = tuple(kinds[0] for kinds in profile.POINTS.values())
EVERYWHERE = type(
    "Everywhere",
    KINDS,
    {
        "name": "Everywhere",
        "__init__": lambda self, args: setattr(self, "args", args),
        **{name: NotImplemented for kind in KINDS for name in kind.__abstractmethods__},
    },
)
"""A plugin that may take part at every point."""

Effect = Callable[[KubeSchedulerConfiguration], object]


@dataclass(frozen=True)
class Honoured:
    """A field that does what it says: *effect* is another with *value*."""

    value: Any
    effect: Effect


@dataclass(frozen=True)
class Told:
    """A field without effect: a line of the log says so for *value*, and none for *quiet*."""

    value: Any
    quiet: Any


@dataclass(frozen=True)
class Refused:
    """A field that ends the scheduler at its start, by name."""

    value: Any


def election(config: KubeSchedulerConfiguration) -> object:
    """Return who leads, and how fast another takes over."""
    told = config.leader_election
    return told.leader_elect, lease_of(told), timing_of(told)


def connection(config: KubeSchedulerConfiguration) -> object:
    """Return the kubeconfig, and the pace of requests."""
    settings = read_options({}, Surroundings(env={})).settings.connection
    told = config.client_connection
    return connection_of(settings, told, Path).kubeconfig, request_rate(told)


def backoffs(config: KubeSchedulerConfiguration) -> object:
    """Return for how long a pod waits after each of its failures."""
    clock = ManualClock()
    client = Client(InProcess(ApiServer()), clock=clock)
    waiting = SchedulerProcess(config, client).scheduler.queue
    document = pod_document("p", schedulerName="numa")
    document["metadata"]["uid"] = "u"
    waiting.add(PodInfo(msgspec.convert(document, Pod)), 0.0)
    times, now = [], 0.0
    for _ in range(6):
        entry = waiting.pop(now)
        assert entry is not None
        waiting.failed(entry, now)
        times.append(entry.retry_at - now)
        now = entry.retry_at
    return times


def made(config: KubeSchedulerConfiguration) -> Engine:
    """Return what a scheduler makes of *config*; one more plugin is installed."""
    registry = all_plugins(BindsNothing.make)
    registry["Everywhere"] = lambda args, _: EVERYWHERE(args)
    return assemble(config, registry)


def plugins(config: KubeSchedulerConfiguration) -> object:
    """Return what runs at which point, with which weight, by the arguments that it was given."""
    return {
        name: [
            {point: [plugin.name for plugin in at] for point, at in runtime.profile.points.items()},
            runtime.profile.weights,
            getattr(runtime.profile.plugins().get("Everywhere"), "args", None),
        ]
        for name, runtime in made(config).runtimes.items()
    }


def of_profile(**fields: Any) -> list[dict[str, Any]]:
    """Return the profiles of a file with one."""
    return [{"schedulerName": "numa", **fields}]


def at_point(point: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the profiles of a file that has one plugin at *point*, with *arguments*."""
    only = {"disabled": [{"name": "*"}], "enabled": [{"name": "Everywhere", "weight": 7}]}
    given = [{"name": "Everywhere", "args": arguments}] if arguments else []
    return of_profile(plugins={point: only}, pluginConfig=given)


FIELDS: dict[str, Honoured | Told | Refused] = {
    "apiVersion": Refused("v1"),
    "kind": Refused("Deployment"),
    "parallelism": Told(16, None),
    "leaderElection.leaderElect": Honoured(False, election),
    "leaderElection.leaseDuration": Honoured("40s", election),
    "leaderElection.renewDeadline": Honoured("12s", election),
    "leaderElection.retryPeriod": Honoured("3s", election),
    "leaderElection.resourceLock": Refused("endpoints"),
    "leaderElection.resourceName": Honoured("mine", election),
    "leaderElection.resourceNamespace": Honoured("numakube", election),
    "clientConnection.kubeconfig": Honoured("/etc/kubernetes/scheduler.conf", connection),
    "clientConnection.acceptContentTypes": Told(
        "application/vnd.kubernetes.protobuf,application/json", ""
    ),
    "clientConnection.contentType": Told("application/vnd.kubernetes.protobuf", "application/json"),
    "clientConnection.qps": Honoured(20, connection),
    "clientConnection.burst": Honoured(30, connection),
    "enableProfiling": Told(True, False),
    "enableContentionProfiling": Told(True, False),
    "percentageOfNodesToScore": Told(50, 100),
    "podInitialBackoffSeconds": Honoured(3, backoffs),
    "podMaxBackoffSeconds": Honoured(5, backoffs),
    "profiles.schedulerName": Honoured([{"schedulerName": "other"}], plugins),
    "profiles.percentageOfNodesToScore": Told(
        of_profile(percentageOfNodesToScore=50), of_profile(percentageOfNodesToScore=100)
    ),
    "profiles.pluginConfig.name": Refused(of_profile(pluginConfig=[{"name": "Nobody"}])),
    "profiles.pluginConfig.args": Honoured(at_point("filter", some="thing"), plugins),
    **{f"profiles.plugins.{point}": Honoured(at_point(point), plugins) for point in POINTS},
    **{f"profiles.plugins.{point}": Refused(at_point(point)) for point in LATER_POINTS},
    "extenders": Refused([{"urlPrefix": "http://127.0.0.1:1"}]),
    "delayCacheUntilActive": Told(True, False),
}
OURS = {"profiles.plugins.confirm"}


def read(path: str, value: Any, tmp_path: Path) -> KubeSchedulerConfiguration:
    """Return the configuration of a file that says *value* at *path*."""
    tree = dict(FILE)
    if path.startswith("profiles."):
        tree["profiles"] = value
    elif "." in path:
        parent, _, field = path.partition(".")
        tree[parent] = {field: value}
    else:
        tree[path] = value
    file = tmp_path / "config.yaml"
    file.write_text(dump_yaml(tree))
    return configuration_of({"config": str(file)}, Path)


def of_kind(kind: type) -> list[Any]:
    """Return a parameter for each field of the table that is of *kind*."""
    cases = ((path, case) for path, case in FIELDS.items() if type(case) is kind)
    return [pytest.param(path, case, id=path) for path, case in cases]


def paths(type_: Any, path: str = "") -> Iterator[str]:
    """Yield every field of the type that files are read into, down to sets of plugins."""
    if get_origin(type_) is tuple:
        type_ = get_args(type_)[0]
    is_leaf = not (isinstance(type_, type) and issubclass(type_, msgspec.Struct))
    if is_leaf or path.startswith("profiles.plugins."):
        yield path
        return
    for field in msgspec.structs.fields(type_):
        yield from paths(field.type, f"{path}.{field.encode_name}".lstrip("."))


def test_the_table_has_every_field_that_is_read() -> None:
    """One that is added without a word on what becomes of it is found here."""
    later = {f"profiles.plugins.{point}" for point in LATER_POINTS}
    assert {*paths(KubeSchedulerConfiguration)} | later == FIELDS.keys() | OURS
    assert [*paths(PluginConfig)] == ["name", "args"]


@pytest.mark.parametrize(("path", "case"), of_kind(Honoured))
def test_a_field_that_is_honoured_has_its_effect(path: str, case: Honoured, tmp_path: Path) -> None:
    """Compared with a file that leaves it open."""
    open_ = at_point("filter") if path.endswith(".args") else FILE["profiles"]
    plain = case.effect(read("profiles.", open_, tmp_path))
    config = read(path, case.value, tmp_path)
    assert case.effect(config) != plain
    assert not made(config).notes


@pytest.mark.parametrize(("path", "case"), of_kind(Told))
def test_a_field_without_effect_is_told_at_the_start(path: str, case: Told, tmp_path: Path) -> None:
    """In one line that names it, and only if it asks for something else than is done anyway."""
    (note,) = made(read(path, case.value, tmp_path)).notes
    named = path.replace("profiles.", "profiles[0].")
    assert note.startswith(f"{named} has no effect: ")
    quiet = read(path, case.quiet, tmp_path)
    assert not made(quiet).notes


@pytest.mark.parametrize(("path", "case"), of_kind(Refused))
def test_a_field_that_cannot_be_honoured_is_refused(
    path: str, case: Refused, tmp_path: Path
) -> None:
    """With the field, or the plugin, in the message."""
    with pytest.raises(ConfigError) as caught:
        made(read(path, case.value, tmp_path))
    words = {"apiVersion": "this is v1", "kind": "Deployment", "name": "Nobody"}
    field = path.rpartition(".")[2]
    assert words.get(field, field) in str(caught.value)


def test_points_of_later_versions_may_be_there_if_they_are_empty(tmp_path: Path) -> None:
    """kube-scheduler writes them so, with ``--write-config-to``."""
    empty = of_profile(plugins={point: dict[str, Any]() for point in LATER_POINTS})
    assert read("profiles.", empty, tmp_path).profiles


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("field", ["healthzBindAddress", "metricsBindAddress"])
def test_addresses_of_older_versions_are_told(version: str, field: str, tmp_path: Path) -> None:
    """They were fields up to v1beta2, and are none in v1."""
    file, notes = tmp_path / "config.yaml", list[str]()
    old = {**FILE, "apiVersion": f"kubescheduler.config.k8s.io/{version}", field: "0.0.0.0:10251"}
    file.write_text(dump_yaml(old))
    configuration_of({"config": str(file)}, Path, notes)
    assert f"{field} has no effect: write --bind-address" in notes
    with pytest.raises(ConfigError, match=f"{field}: unknown field"):
        read(field, "0.0.0.0:10251", tmp_path)


def test_empty_fields_of_an_older_version_keep_their_defaults(tmp_path: Path) -> None:
    """As Go reads ``null``."""
    file = tmp_path / "config.yaml"
    nulls = {"leaderElection": None, "clientConnection": None, "extenders": None}
    old = {**FILE, "apiVersion": "kubescheduler.config.k8s.io/v1beta3", **nulls}
    old["profiles"] = [{"schedulerName": "numa", "plugins": None, "pluginConfig": None}]
    file.write_text(dump_yaml(old))
    config = configuration_of({"config": str(file)}, Path)
    assert config == read("profiles.", FILE["profiles"], tmp_path)


@pytest.mark.parametrize(
    ("qps", "burst", "rate"),
    [(0, 0, (0.0, 0)), (20, 0, (20.0, 100)), (0, 30, (50.0, 30)), (-1, 5, (0.0, 5))],
)
def test_half_of_a_limit_is_completed_as_kube_scheduler_does(
    qps: float, burst: int, rate: tuple[float, int], tmp_path: Path
) -> None:
    """A negative rate is none, and a file without either limits nothing."""
    tree = {**FILE, "clientConnection": {"qps": qps, "burst": burst}}
    file = tmp_path / "config.yaml"
    file.write_text(dump_yaml(tree))
    assert request_rate(configuration_of({"config": str(file)}, Path).client_connection) == rate


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("parallelism", 0, "parallelism: must be greater than 0"),
        ("clientConnection.burst", -1, "clientConnection.burst: must not be negative"),
    ],
)
def test_values_that_make_no_sense_are_refused(
    path: str, value: int, words: str, tmp_path: Path
) -> None:
    """As kube-scheduler does."""
    with pytest.raises(ConfigError, match=words):
        read(path, value, tmp_path)


@pytest.mark.parametrize(
    ("profiles", "lease"),
    [
        ([{"schedulerName": "my-second"}], "kube-system/my-second"),
        ([{"schedulerName": "a"}, {"schedulerName": "default-scheduler"}], MAIN),
        ([{}], MAIN),
        ([], MAIN),
        ([{"schedulerName": "No Name"}], "kube-system/numakube-scheduler"),
    ],
)
def test_only_the_clusters_scheduler_shares_the_lease_of_kube_scheduler(
    profiles: list[Any], lease: str, tmp_path: Path
) -> None:
    """A second scheduler beside it would wait for ever, or keep it from its work."""
    config = read("profiles.", profiles, tmp_path)
    assert str(lease_of(config.leader_election)) == lease


def test_a_second_scheduler_that_is_told_to_share_that_lease_says_what_follows(
    tmp_path: Path,
) -> None:
    """It is the user's word."""
    config = read("leaderElection.resourceName", "kube-scheduler", tmp_path)
    (note,) = made(config).notes
    assert note.startswith("leaderElection: kube-system/kube-scheduler is kube-scheduler's lease")
    assert str(lease_of(config.leader_election)) == "kube-system/kube-scheduler"


def options(tmp_path: Path, flag: str, env: dict[str, str], **told: Any) -> SchedulerOptions:
    """Return the options of a scheduler with a flag, a file and an environment."""
    file = tmp_path / "config.yaml"
    file.write_text(dump_yaml({**FILE, "clientConnection": told}))
    flags = {"config": str(file), **({"kubeconfig": flag} if flag else {})}
    return read_options(flags, Surroundings(env=env))


def test_a_flag_and_a_file_that_name_two_clusters_are_refused(tmp_path: Path) -> None:
    """kube-scheduler ignores the flag; pods on the wrong cluster are worse than an error."""
    words = r"--kubeconfig /b: clientConnection.kubeconfig of --config is /a: give only one"
    with pytest.raises(ConfigError, match=words):
        options(tmp_path, "/b", {}, kubeconfig="/a")
    assert options(tmp_path, "/a", {}, kubeconfig="/a").connection.kubeconfig == "/a"
    assert options(tmp_path, "/b", {}).connection.kubeconfig == "/b"


def kubeconfig(server: ApiServer, path: Path) -> str:
    """Write how to reach *server*, and return where."""
    cluster = {"name": "c", "cluster": {"server": server.url}}
    context = {"name": "c", "context": {"cluster": "c"}}
    tree = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
    path.write_text(dump_yaml(tree))
    return str(path)


@pytest.mark.timeout(60)
async def test_the_cluster_of_the_file_is_the_one_that_is_scheduled(tmp_path: Path) -> None:
    """Whatever KUBECONFIG says; its lease there has the name of the first profile."""
    async with ApiServer() as named, ApiServer() as other:
        env = {"KUBECONFIG": kubeconfig(other, tmp_path / "other")}
        told = options(tmp_path, "", env, kubeconfig=kubeconfig(named, tmp_path / "named"))
        stop = asyncio.Event()
        task = asyncio.create_task(run(told, Surroundings(env=env, serve=False), stop))
        async with Client(InProcess(named)) as client, Client(InProcess(other)) as elsewhere:

            async def leases() -> set[str]:
                return {lease.metadata.name for lease in (await client.list(LEASES)).items}

            await until(leases, lambda found: found == {"numa"})
            assert not (await elsewhere.list(LEASES)).items
        stop.set()
        assert await task == 0


@pytest.mark.timeout(60)
async def test_requests_keep_to_the_pace_of_the_file(tmp_path: Path) -> None:
    """One at once and then one in a thousand seconds: the caches have to wait."""
    clock, stop = ManualClock(), asyncio.Event()
    async with ApiServer() as server:
        path = kubeconfig(server, tmp_path / "kubeconfig")
        told = options(tmp_path, "", {}, kubeconfig=path, qps=0.001, burst=1)
        around = Surroundings(env={}, clock=clock, serve=False)
        task = asyncio.create_task(run(told, around, stop))
        await clock.sleepers(len(OBJECT_KINDS))
        stop.set()
        assert await task == 0
