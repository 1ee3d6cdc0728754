"""The quickstarts for kind and minikube, as far as a machine without them can try.

Cluster tools are stand-ins that write down how they were called; everything else is real and works
on a lab in their place.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT

from numakube.api.kubelet_config import (
    KubeletConfiguration,
    configuration,
    merged,
    read_flags,
    read_source,
)
from numakube.api.meta import ObjectMeta, ServerVersion
from numakube.api.nodes import Node
from numakube.api.yaml_text import load_yaml
from numakube.apps.deployer.kubelet_validation import validate
from numakube.insight.facts import ClusterFacts
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.topology.model_report import nrt_of
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir

EXAMPLES = ROOT / "examples"
KIND, MINIKUBE = EXAMPLES / "quickstart-kind.sh", EXAMPLES / "quickstart-minikube.sh"
SCRIPTS = (KIND, MINIKUBE, EXAMPLES / "quickstart-steps.sh")
BASH = shutil.which("bash") or "bash"
MACHINES = ("1 socket, 4 cores, smt 2, 8Gi", "2 sockets, 4 cores, 4Gi", "dgx-h100")


def dry_run(script: Path) -> str:
    """Return what a script would do."""
    done = subprocess.run(  # noqa: S603
        [BASH, str(script)],
        env=os.environ | {"DRY_RUN": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def kind_configuration() -> KubeletConfiguration:
    """Return what the kubelets of the kind cluster are configured with."""
    cluster: Any = load_yaml((EXAMPLES / "kind-cluster.yaml").read_text(), "kind-cluster.yaml")
    (patch,) = cluster["kubeadmConfigPatches"]
    return merged([read_source(patch, "kind-cluster.yaml")])


def minikube_configuration() -> KubeletConfiguration:
    """Return what the kubelet of the minikube cluster is started with."""
    settings = re.findall(r"--extra-config=kubelet\.(\S+)", dry_run(MINIKUBE))
    return configuration([], read_flags([f"--{setting}" for setting in settings]))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_well_formed(script: Path) -> None:
    """By bash itself, and by shellcheck where that is installed."""
    subprocess.run([BASH, "-n", str(script)], check=True)  # noqa: S603
    if checker := shutil.which("shellcheck"):
        subprocess.run([checker, "-x", str(script)], check=True)  # noqa: S603


@pytest.mark.parametrize("shape", MACHINES)
@pytest.mark.parametrize("configured", [kind_configuration, minikube_configuration])
def test_the_kubelets_of_both_clusters_start_and_align(configured: Any, shape: str) -> None:
    """On machines of one NUMA node and of more."""
    machine, config = from_shape(shape), configured()
    node = KubeletNode(machine, settings_of(config, machine))
    cluster = ClusterFacts(
        nodes={"n": Node(metadata=ObjectMeta(name="n"))},
        topologies={"n": nrt_of("n", node)},
        kubelet_configs={"n": config},
        version=ServerVersion(git_version="v1.35.0"),
    )

    assert validate(cluster) == []


def test_a_dry_run_needs_no_tools() -> None:
    """It prints each command in order."""
    lines = [line.split()[1:3] for line in dry_run(KIND).splitlines() if line.startswith("+ ")]

    assert lines == [
        ["docker", "build"],
        ["kind", "create"],
        ["kind", "load"],
        ["numakube", "check"],
        ["numakube", "deploy"],
        ["kubectl", "apply"],
        ["kubectl", "wait"],
        ["kubectl", "logs"],
        ["kubectl", "apply"],
        ["kubectl", "wait"],
        ["kubectl", "numa"],
    ]


@pytest.fixture
async def lab() -> AsyncIterator[tuple[Lab, RunDir]]:
    """A lab in place of a cluster: two nodes without exporters."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        async with Lab(LabOptions(name="t", plans=plans, exporters=False), folder) as lab:
            yield lab, folder


@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", [KIND, MINIKUBE], ids=lambda path: path.stem)
async def test_the_first_pod_is_aligned_and_the_second_is_refused(
    script: Path, lab: tuple[Lab, RunDir], tmp_path: Path
) -> None:
    """As the page says, with everything but the cluster tools real."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on the PATH")
    for tool in ("kind", "minikube", "docker"):
        stand_in = tmp_path / tool
        stand_in.write_text(f'#!/bin/sh\necho "{tool} $*" >> {tmp_path}/calls\n')
        stand_in.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "KUBECONFIG": str(lab[1].kubeconfig), "PYTHONUTF8": "1"}

    ended = await asyncio.create_subprocess_exec(
        BASH, str(script), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    printed, _ = await ended.communicate()
    text = printed.decode()

    assert ended.returncode == 0, text
    assert "aligned on NUMA node" in text
    assert "It fits on none of 2 nodes." in text
    assert "cannot align container (cpu: best zone has" in text
    calls = (tmp_path / "calls").read_text()
    assert "localhost/numakube:quickstart" in calls
    assert ("kind create cluster" in calls) == (script == KIND)
    assert ("minikube start" in calls) == (script == MINIKUBE)
