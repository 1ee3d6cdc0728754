"""Deploying where others do the same: all of it is taken over, or nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.apps.deployer.test_apply_and_remove import agent
from tests.cli.conftest import Ended

from numakube.api.scheduler_config import configuration_tree, numa_configuration
from numakube.api.yaml_text import dump_yaml, load_yaml
from numakube.cli.deploying.deploy_options import wait_options
from numakube.kube.catalog import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    resource_of,
)
from numakube.kube.client import merge_patch
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.pod_template_parts import HASH
from numakube.testing import until
from numakube.topology import nrt_names
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import LabSite, SiteOptions, lab_site

pytestmark = pytest.mark.timeout(240)

Numakube = Callable[..., Awaitable[Ended]]
IMAGE = "registry.example/numakube:1"
ARGS = {"scoringStrategy": {"type": "LeastNUMANodes"}, "cacheResyncPeriodSeconds": 5}


def profile(name: str, plugin: str = "NodeResourceTopologyMatch") -> dict[str, Any]:
    """Return a profile with a plugin and its arguments."""
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    return {
        "schedulerName": name,
        "plugins": enabled,
        "pluginConfig": [{"name": plugin, "args": ARGS}],
    }


def scheduler(*profiles: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a scheduler of scheduler-plugins with its configuration."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": list(profiles),
    }
    image = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.30"
    volumes = [{"name": "c", "configMap": {"name": "scheduler-config"}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "scheduler-config", "namespace": "default"},
            "data": {"scheduler-config.yaml": dump_yaml(configuration)},
        },
        agent("Deployment", "tas", image, volumes=volumes),
    ]


EXPORTER = agent("DaemonSet", "rte", "quay.io/x/resource-topology-exporter:v1", "--sleep=10s")


@pytest.fixture
async def site() -> AsyncIterator[LabSite]:
    """A lab of two nodes."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with lab_site(SiteOptions(plans=plans, exporters=False)) as site:
        yield site


@pytest.fixture
def run(numakube: Callable[..., Ended], site: LabSite) -> Numakube:
    """Run a command while the cluster goes on."""

    async def call(*words: str) -> Ended:
        return await asyncio.to_thread(numakube, *words, "--kubeconfig", str(site.kubeconfig))

    return call


async def install(site: LabSite, *documents: dict[str, Any]) -> None:
    """Create what others have."""
    for document in documents:
        await site.client.create(resource_of(document), document, namespace="default")


async def is_at_work(site: LabSite) -> bool:
    """Tell whether the scheduler of others still is."""
    found = await site.client.get(DEPLOYMENTS, "tas", namespace="default")
    return bool(found["spec"]["replicas"] == 2)


async def test_all_profiles_are_taken_over_with_their_arguments(
    site: LabSite, run: Numakube
) -> None:
    """And stay when ours is deployed again without a word about others, until ours is removed."""
    await install(site, *scheduler(profile("topo-a"), profile("topo-b")), EXPORTER)
    done = await run("deploy", "--adopt", "--image", IMAGE, "--wait")
    assert done.code == 0, done.err
    assert done.out.index("is stopped;") < done.out.index("created")
    for text in ("schedulerName topo-a is", "schedulerName topo-b is", "scoringStrategy of Node"):
        assert text in done.out
    again = await run("deploy", "--image", IMAGE, "--wait")
    assert again.code == 0, again.err
    told = await site.client.get(CONFIG_MAPS, "numakube-scheduler-config", namespace="numakube")
    configuration: Any = load_yaml(told["data"]["config.yaml"], "config.yaml")
    names = [entry["schedulerName"] for entry in configuration["profiles"]]
    assert names == ["topo-a", "topo-b", "numakube-scheduler"]
    assert all(entry["pluginConfig"][0]["args"] == ARGS for entry in configuration["profiles"])
    for name in names:
        await site.client.create(PODS.raw, _pod(name, name), namespace="default")
    await _until_bound(site, names)
    detected = yaml.safe_load((await run("check", "cluster", "-o", "yaml")).out)["installations"]
    states = {(entry["name"], entry["resting"]): entry["schedulerNames"] for entry in detected}
    assert states[("tas", True)] == ["topo-a", "topo-b"]
    assert states[("numakube-scheduler", False)] == names
    gone = await run("remove", "--wait")
    assert gone.code == 0, gone.err
    assert await is_at_work(site)


async def test_exporters_that_others_deployed_are_not_waited_for(
    site: LabSite, run: Numakube
) -> None:
    """Helm did: they stay, and so does what they keep up to date."""
    await run("deploy", "api")
    home = "numakube"
    await site.client.create(NAMESPACES, {"metadata": {"name": home}})
    pod = {"metadata": {"name": "exporter-1"}, "spec": _pod("", "none")["spec"]}
    await site.client.create(PODS.raw, pod, namespace=home)
    set_of_others = agent("DaemonSet", "numakube-exporter", "registry.example/numakube:1")
    set_of_others["metadata"]["namespace"] = home
    await site.client.create(DAEMON_SETS, set_of_others, namespace=home)
    report = {
        "metadata": {"name": "node-0", "annotations": {nrt_names.EXACT_ANNOTATION: "{}"}},
        "attributes": [{"name": nrt_names.EXPORTER, "value": f"{home}/exporter-1"}],
        "zones": [],
    }
    await site.client.create(NODE_RESOURCE_TOPOLOGIES.raw, report)
    done = await run("remove", "exporter")
    assert (done.code, done.err) == (0, "")
    assert "daemonset/numakube-exporter in numakube kept: numakube did not deploy it" in done.out


async def test_what_ours_cannot_do_keeps_everything_as_it_was(site: LabSite, run: Numakube) -> None:
    """With the reason, and exit code 1."""
    await install(site, *scheduler(profile("topo-a"), profile("gang", "Coscheduling")), EXPORTER)
    refused = await run("deploy", "--adopt", "--image", IMAGE)
    assert refused.code == 1
    assert "nothing is taken over: deployment/tas in default" in refused.err
    assert "profile gang: there is no plugin Coscheduling" in refused.err
    assert "--scheduler-config FILE gives ours a configuration of your own" in refused.err
    assert await is_at_work(site)
    exporter = await site.client.get(DAEMON_SETS, "rte", namespace="default")
    assert not exporter["spec"]["template"]["spec"].get("nodeSelector")


async def test_nobody_is_put_to_rest_before_ours_is_ready(site: LabSite, run: Numakube) -> None:
    """If it does not become ready, others go on, and the reason is printed."""
    await install(site, *scheduler(profile("topo-a")))
    for name in ("node-0", "node-1"):
        await site.client.patch(NODES.raw, name, merge_patch({"spec": {"unschedulable": True}}))
    words = ("--adopt", "--image", IMAGE, "--wait-timeout", "3")
    why = "0/2 nodes are available: 2 node(s) were unschedulable"
    failed = await until(lambda: run("deploy", "scheduler", *words), lambda ended: why in ended.err)
    assert failed.code == 1
    assert "nothing was stopped" in failed.err
    assert await is_at_work(site)


async def test_what_is_printed_for_kubectl_is_objects_alone(site: LabSite, run: Numakube) -> None:
    """The report goes elsewhere."""
    await install(site, *scheduler(profile("topo-a")), EXPORTER)
    printed = await run("deploy", "--adopt", "--dry-run=client")
    kinds = [item["kind"] for item in yaml.safe_load_all(printed.out)]
    assert "Deployment" in kinds
    assert "ConfigMap" in kinds
    assert "schedulerName topo-a is served by numakube" in printed.err


@pytest.mark.parametrize("command", ["deploy", "setup"])
async def test_beside_others_nothing_is_deployed_without_a_word(
    site: LabSite, run: Numakube, command: str
) -> None:
    """Two exporters would write the same objects, two schedulers place the same pods."""
    await install(site, *scheduler(profile("numakube-scheduler")), EXPORTER)
    refused = await run(command, "--image", IMAGE)
    assert refused.code == 1
    assert "rte in default (Resource Topology Exporter) writes the same NodeResou" in refused.err
    assert "schedules the pods that name numakube-scheduler" in refused.err
    assert (await site.client.list(DAEMON_SETS, namespace="numakube")).items == ()
    assert (await run(command, "--adopt", "--beside")).code == 2
    done = await run(command, "api", "exporter", "--image", IMAGE, "--beside", "--wait")
    assert done.code == 0, done.err
    assert "warning: daemonset/rte in default" in done.err


async def test_waiting_says_what_is_missing(site: LabSite, run: Numakube) -> None:
    """A Secret that nobody has made, as the extender's is."""
    del site
    words = ("deploy", "extender", "--image", IMAGE, "--wait", "--wait-timeout", "2")
    why = "the Secret numakube-extender-tls in numakube does not exist"
    failed = await until(lambda: run(*words), lambda ended: why in ended.err)
    assert failed.code == 1


async def test_the_configuration_is_chosen_by_options_and_a_change_replaces_the_pods(
    site: LabSite, run: Numakube
) -> None:
    """B13, C24, L5: two profiles with arguments; later with another one."""
    names = ("--scheduler-name", "a", "--scheduler-name", "b")
    first = ("--scheduler-arg", "cache.foreignPodsDetect=OnlyExclusiveResources")
    words = ("deploy", "api", "scheduler", "--image", IMAGE, "--wait", *names)
    done = await run(*words, *first)
    assert done.code == 0, done.err
    for name in ("a", "b"):
        await site.client.create(PODS.raw, _pod(name, name), namespace="default")
    await _until_bound(site, ["a", "b"])
    before = await _scheduler_pods(site)

    again = await run(*words, *first)
    assert "deployment/numakube-scheduler in numakube unchanged" in again.out
    changed = await run(*words, "--scheduler-arg", "cacheResyncPeriodSeconds=7")
    assert changed.code == 0, changed.err

    async def replaced() -> bool:
        return not await _scheduler_pods(site) & before

    await until(replaced)
    told = await site.client.get(CONFIG_MAPS, "numakube-scheduler-config", namespace="numakube")
    tree: Any = load_yaml(told["data"]["config.yaml"], "config.yaml")
    args = {"cacheResyncPeriodSeconds": 7}
    assert [entry["pluginConfig"][0]["args"] for entry in tree["profiles"]] == [args, args]


async def test_a_configuration_of_the_users_has_to_serve_what_is_taken_over(
    site: LabSite, run: Numakube, tmp_path: Path
) -> None:
    """C27: it is deployed as it is, and nothing happens if a profile is missing."""
    await install(site, *scheduler(profile("topo-a")))
    own = tmp_path / "own.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    own.write_text(dump_yaml({**header, "profiles": [profile("mine")]}), encoding="utf-8")
    words = ("deploy", "scheduler", "--adopt", "--dry-run=client", "--scheduler-config", str(own))
    refused = await run(*words)
    assert refused.code == 1
    assert "the configuration given has no profile topo-a" in refused.err

    tree = {**header, "profiles": [profile("mine"), profile("topo-a")]}
    own.write_text(dump_yaml(tree), encoding="utf-8")
    printed = await run(*words)
    assert printed.code == 0, printed.err
    (config,) = (item for item in yaml.safe_load_all(printed.out) if item["kind"] == "ConfigMap")
    assert load_yaml(config["data"]["config.yaml"], "config.yaml") == tree


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--scheduler-arg", "cache.kin=x"), 1, "cache.kin: there is no such field"),
        (("--scheduler-arg", "cache"), 1, "--scheduler-arg cache: FIELD=VALUE is expected"),
        (("--scheduler-arg", "mode=1", "--scheduler-arg", "mode.a=1"), 1, "mode has a value"),
        (("--scheduler-config", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("--scheduler-config", __file__), 1, "test_deploying.py"),
        (("--scheduler-name", "a", "--scheduler-config", __file__), 2, "of its own"),
        (("--scheduler-name", "a", "--scheduler-name", "a"), 1, "a is in another profile"),
    ],
)
def test_a_configuration_that_no_scheduler_takes_is_refused_before_anything_is_done(
    numakube: Callable[..., Ended], words: tuple[str, ...], code: int, text: str
) -> None:
    """B13: by name of the option and of the field."""
    ended = numakube("manifests", "render", "scheduler", *words)
    assert (ended.code, ended.out) == (code, "")
    assert text in ended.err


def test_a_configuration_of_an_older_version_is_deployed_with_a_warning(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """C28: which names the new field."""
    own = tmp_path / "old.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1"}
    args = {"name": "NodeResourceTopologyMatch", "args": {"kubeconfigpath": "/x"}}
    profiles = [{"schedulerName": "old", "pluginConfig": [args]}]
    tree = {**header, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    own.write_text(dump_yaml(tree), encoding="utf-8")
    ended = numakube("manifests", "render", "scheduler", "--scheduler-config", str(own))
    assert ended.code == 0
    assert f"warning: {own}: apiVersion: " in ended.err
    assert "kubeconfigpath has no effect: write clientConnection.kubeconfig" in ended.err


def test_a_kubeconfig_that_pods_do_not_have_is_left_out_with_a_warning(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """The rest of how to reach the cluster is kept."""
    own = tmp_path / "own.yaml"
    tree = configuration_tree(numa_configuration(("own",)))
    tree["clientConnection"] = {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 70}
    own.write_text(dump_yaml(tree), encoding="utf-8")
    ended = numakube("manifests", "render", "scheduler", "--scheduler-config", str(own))
    assert f"warning: {own}: clientConnection.kubeconfig is left out" in ended.err
    assert "kubeconfig:" not in ended.out
    assert "qps: 70" in ended.out


async def _scheduler_pods(site: LabSite) -> set[str]:
    found = await site.client.list(PODS, namespace="numakube")
    return {pod.metadata.name for pod in found.items}


def _pod(name: str, scheduler_name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example/app"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler_name, "containers": containers},
    }


async def _until_bound(site: LabSite, names: list[str]) -> None:
    async def bound() -> set[str]:
        found = await site.client.list(PODS, namespace="default")
        return {pod.metadata.name for pod in found.items if pod.spec.node_name}

    await until(bound, lambda found: found >= set(names))


@pytest.mark.parametrize(
    ("text", "seconds"), [("40", 40.0), ("2.5", 2.5), ("40s", 40.0), ("1m30s", 90.0)]
)
def test_the_time_to_wait_is_a_duration_or_a_number_of_seconds(text: str, seconds: float) -> None:
    """As other commands take it, and as this one always did."""

    @click.command()
    @wait_options
    def command(*, wait: bool, timeout: float) -> None:
        del wait
        click.echo(timeout)

    assert CliRunner().invoke(command, ["--wait-timeout", text]).output.strip() == str(seconds)
    assert CliRunner().invoke(command, ["--wait-timeout", "soon"]).exit_code == 2


@pytest.mark.parametrize("option", ["--exporter-config", "--rte-config-file"])
def test_exporters_get_a_configuration_of_the_users_and_start_again_when_it_changes(
    numakube: Callable[..., Ended], tmp_path: Path, option: str
) -> None:
    """It is where they look for it; what a flag overrules is said."""
    own = tmp_path / "own.yaml"

    def deployed(*words: str) -> tuple[str, str, str]:
        ended = numakube("manifests", "render", "exporter", *words)
        assert ended.code == 0, ended.err
        found = {item["kind"]: item for item in yaml.safe_load_all(ended.out)}
        template = found["DaemonSet"]["spec"]["template"]
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        config = found["ConfigMap"]
        assert volumes["rte-config-volume"]["configMap"]["name"] == config["metadata"]["name"]
        (mount,) = (
            mount
            for mount in template["spec"]["containers"][0]["volumeMounts"]
            if mount["name"] == "rte-config-volume"
        )
        (name,) = config["data"]
        assert f"{mount['mountPath']}/{name}" == "/etc/resource-topology-exporter/config.yaml"
        return config["data"][name], template["metadata"]["annotations"][HASH], ended.err

    usual, before, _ = deployed()
    assert load_yaml(usual, "config.yaml") == {}
    own.write_text('resourceExclude: {"*": [memory]}\n', encoding="utf-8")
    text, after, err = deployed(option, str(own))
    assert (text, err) == (own.read_text(encoding="utf-8"), "")
    assert before != after
    own.write_text("topologyExporter: {sleepInterval: 5s}\n", encoding="utf-8")
    _, again, err = deployed(option, str(own))
    assert again != after
    assert "topologyExporter.sleepInterval has no effect: the DaemonSet sets --sleep-int" in err


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("resourceMonitr: {exact: true}", (), "unknown key 'resourceMonitr.exact'"),
        ("resourceExclude: [memory]", (), "resourceExclude: must map node names"),
        ("{}", ("--updater-type", "nfd"), "a configuration is for our exporter, not for nfd's"),
    ],
)
def test_a_configuration_that_no_exporter_takes_is_refused(
    numakube: Callable[..., Ended], tmp_path: Path, text: str, words: tuple[str, ...], told: str
) -> None:
    """By the name of the file and of the key."""
    own = tmp_path / "own.yaml"
    own.write_text(text, encoding="utf-8")
    ended = numakube("manifests", "render", "exporter", "--exporter-config", str(own), *words)
    assert (ended.code, ended.out) == (1, "")
    assert told in ended.err
