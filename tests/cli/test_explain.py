"""``numakube explain`` and ``numakube bundle``, on a bundle and on a lab."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.insight.explain.bundling import collected_of
from tests.insight.explain.cases import CASES

from numakube.apps.bundle import pack
from numakube.insight.facts import ClusterFacts
from numakube.testing import World, pod
from numakube_lab.testing import lab_cluster

pytestmark = pytest.mark.timeout(240)

Run = Callable[..., Any]

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      schedulerName: numakube-scheduler
      containers:
      - name: main
        resources: {limits: {cpu: "CPUS", memory: 1Gi}}
"""


def written(facts: ClusterFacts, path: Path) -> Path:
    """Write a bundle of *facts*."""
    file = path / "bundle.tgz"
    file.write_bytes(pack(collected_of(facts)))
    return file


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with a pod that waits and one that runs."""
    world = World()
    world.add_node("node-a")
    world.run(pod("runs", cpu="4"), "node-a")
    world.pods.append(pod("waits", cpu="10"))
    return written(world.facts(), tmp_path)


def test_a_pod_that_fits_nowhere_ends_with_one(bundle: Path, numakube: Run) -> None:
    """And the text says why, and what would help."""
    ended = numakube("explain", "pod", "waits", "--from", bundle)
    assert ended.code == 1
    assert "It does not fit on the only node." in ended.out
    assert "Ask for 8 CPUs instead of 10" in ended.out


def test_a_pod_that_runs_ends_with_zero(bundle: Path, numakube: Run) -> None:
    """With the zones that it is in."""
    ended = numakube("explain", "pod", "runs", "--from", bundle)
    assert (ended.code, ended.err) == (0, "")
    assert "everything exclusive is in zone 0" in ended.out


def test_a_pod_that_does_not_exist_is_an_error(bundle: Path, numakube: Run) -> None:
    """Which names the namespaces that have one of the name."""
    ended = numakube("explain", "pod", "waits", "-n", "other", "--from", bundle)
    assert ended.code == 1
    assert ended.err == (
        "error: there is no pod waits in namespace other; there is one in default (-n)\n"
    )


def test_the_namespace_may_stand_before_the_name(bundle: Path, numakube: Run) -> None:
    """As other commands print pods."""
    ended = numakube("explain", "pod", "default/runs", "--from", bundle)
    assert ended.code == 0
    assert "Pod default/runs" in ended.out


def test_either_a_name_or_a_manifest(bundle: Path, numakube: Run) -> None:
    """Not both, and not neither."""
    assert numakube("explain", "pod", "--from", bundle).code == 2
    assert numakube("explain", "pod", "a", "-f", "b", "--from", bundle).code == 2


@pytest.mark.parametrize(("cpus", "code", "verdict"), [("3", 0, "fits"), ("12", 1, "refused")])
def test_a_template_is_explained_before_it_is_created(
    bundle: Path, tmp_path: Path, numakube: Run, cpus: str, code: int, verdict: str
) -> None:
    """As a pod of the workload."""
    file = tmp_path / "web.yaml"
    file.write_text(MANIFEST.replace("CPUS", cpus))
    ended = numakube("explain", "pod", "-f", file, "--from", bundle, "-o", "json")
    found = json.loads(ended.out)
    assert (ended.code, found["verdict"]) == (code, verdict)
    assert found["pod"]["name"] == "web-new"
    assert found["pod"]["state"] == "planned"


def test_a_manifest_without_pods_is_named(bundle: Path, tmp_path: Path, numakube: Run) -> None:
    """With what was expected."""
    file = tmp_path / "service.yaml"
    file.write_text("{apiVersion: v1, kind: Service, metadata: {name: a}}")
    ended = numakube("explain", "pod", "-f", file, "--from", bundle)
    assert ended.code == 1
    assert "no pod, nor a template of Deployment" in ended.err


def test_one_node_can_be_looked_at(bundle: Path, numakube: Run) -> None:
    """And one that does not exist is an error."""
    ended = numakube("explain", "pod", "waits", "--from", bundle, "--node", "node-a", "-o", "yaml")
    assert "node: node-a" in ended.out
    ended = numakube("explain", "pod", "waits", "--from", bundle, "--node", "node-z")
    assert (ended.code, ended.err) == (1, "error: there is no node node-z\n")


def test_a_configuration_decides_by_other_plugins(
    bundle: Path, tmp_path: Path, numakube: Run
) -> None:
    """Without the NUMA plugin the pod seems to fit."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: numakube-scheduler}]\n"
    )
    arguments = ("explain", "pod", "waits", "--from", bundle, "--scheduler-config", file)
    assert numakube(*arguments).code == 0


def test_wide_lists_every_node_and_narrow_is_one_screen(tmp_path: Path, numakube: Run) -> None:
    """On a cluster with many nodes."""
    case = CASES["many-nodes"]()
    town_file = written(replace(case.facts, pods=(*case.facts.pods, case.subject.pod)), tmp_path)
    narrow = numakube("explain", "pod", "wide", "--from", town_file)
    wide = numakube("explain", "pod", "wide", "--from", town_file, "-o", "wide")
    assert len(narrow.out.splitlines()) <= 50
    assert all(name in wide.out for name in case.facts.nodes)
    assert "small-39" not in narrow.out


def test_a_bundle_can_be_made_anonymous_later(bundle: Path, tmp_path: Path, numakube: Run) -> None:
    """From another bundle; verdicts stay."""
    other = tmp_path / "other.tgz"
    ended = numakube("bundle", "--from", bundle, "--anonymise", "-o", other)
    assert ended.code == 0
    assert ended.out.startswith(f"{other}: 1 node, 2 pods, 1 NodeResourceTopology object; ")
    assert other.stat().st_mode & 0o077 == 0
    ended = numakube("explain", "pod", "pod-2", "--from", other)
    assert ended.code == 1
    assert "Ask for 8 CPUs instead of 10" in ended.out


@pytest.fixture
def quiet() -> Iterator[None]:
    """No log of the lab among what commands print."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture
def live(quiet: None) -> Iterator[str]:
    """The kubeconfig of a lab in another thread."""
    ready, end = threading.Event(), threading.Event()
    found: list[str] = []

    async def run() -> None:
        async with lab_cluster(1, "2 sockets, 2 cores, 4Gi") as cluster:
            found.append(str(cluster.site.kubeconfig))
            ready.set()
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(150)
    yield found[0]
    end.set()
    thread.join(150)


def test_live_and_offline_answers_are_the_same(live: str, tmp_path: Path, numakube: Run) -> None:
    """On a lab: asked over HTTP, bundled, and asked again without it."""
    manifest = tmp_path / "web.yaml"
    manifest.write_text(MANIFEST.replace("CPUS", "3"))
    bundle = tmp_path / "bundle.tgz"
    asked = ("explain", "pod", "-f", manifest, "-o", "json")
    online = numakube(*asked, "--kubeconfig", live)
    assert numakube("bundle", "--kubeconfig", live, "-o", bundle).code == 0
    offline = numakube(*asked, "--from", bundle)
    assert (online.code, offline.code) == (1, 1)
    first, second = json.loads(online.out), json.loads(offline.out)
    assert first | {"takenAt": ""} == second | {"takenAt": ""}
    assert next(change["kind"] for change in first["changes"]) == "fewer-cpus"


def test_other_tools_say_the_same_offline(live: str, tmp_path: Path, numakube: Run) -> None:
    """Of a cluster that does not change: tables, maps and findings."""
    bundle = tmp_path / "bundle.tgz"
    assert numakube("bundle", "--kubeconfig", live, "-o", bundle).code == 0
    for asked in (
        ("top", "nodes", "-o", "json"),
        ("top", "zones", "-o", "json"),
        ("map", "node-0", "-o", "json"),
        ("doctor", "--exit-zero", "-o", "json", "--only", "NUMA-KUBELET,NUMA-POD,NUMA-DEV"),
    ):
        online = numakube(*asked, "--kubeconfig", live)
        offline = numakube(*asked, "--from", bundle)
        assert (online.code, offline.code) == (0, 0), online.err + offline.err
        first, second = json.loads(online.out), json.loads(offline.out)
        assert first | {"takenAt": ""} == second | {"takenAt": ""}, asked


def test_an_unreachable_cluster_ends_with_three(tmp_path: Path, numakube: Run) -> None:
    """As every command that asks one."""
    config = tmp_path / "config"
    config.write_text(
        "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        'clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]\n'
        "users: [{name: x, user: {}}]\n"
    )
    assert numakube("explain", "pod", "a", "--kubeconfig", config).code == 3


def test_a_node_and_a_claim_are_explained_too(bundle: Path, numakube: Run) -> None:
    """A node that takes pods ends with 0; what is not there is named."""
    ended = numakube("explain", "node", "node-a", "--from", bundle)
    assert (ended.code, ended.out.splitlines()[1]) == (
        0,
        "node-a takes pods; its kubelet aligns them.",
    )
    document = json.loads(numakube("explain", "no/node-a", "--from", bundle, "-o", "json").out)
    assert (document["kind"], document["verdict"]) == ("NodeExplanation", "open")
    assert [entry["verdict"] for entry in document["waiting"]] == ["refused"]
    missing = numakube("explain", "node", "nowhere", "--from", bundle)
    assert (missing.code, missing.err) == (1, "error: there is no node nowhere\n")
    missing = numakube("explain", "claim", "gpu", "-n", "team", "--from", bundle)
    assert missing.code == 1
    assert "resource claim" in missing.err
