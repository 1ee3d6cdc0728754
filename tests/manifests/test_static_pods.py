"""The static pods of a main scheduler: files, patch, and what real programs make of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kube_lab_server.patching.json_patch import json_patch
from numakube.api.yaml_text import load_yaml
from numakube.insight.scheduler_engine import tried
from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.static_pods import MANIFEST, PATCH, StaticPods

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubeadm"
CONFIG = "etc/kubernetes/numakube/config.yaml"
SCHEDULER = shutil.which(
    "kube-scheduler", path=os.environ.get("KUBEBUILDER_ASSETS", os.environ["PATH"])
)
STOCK: dict[str, Any] = {
    "spec": {
        "containers": [
            {
                "name": "kube-scheduler",
                "command": ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf"],
                "volumeMounts": [{"name": "kubeconfig"}],
            }
        ],
        "volumes": [{"name": "kubeconfig"}],
    }
}
"""The parts of kubeadm's own static pod that a patch refers to."""


def tree(main: str, path: str) -> Any:
    """Return a file that we write."""
    return load_yaml(StaticPods().files(main)[path], path)


@pytest.mark.parametrize("main", ["scheduler", "extender"])
def test_the_files_are_up_to_date(main: str) -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/manifests`` after a change."""
    root, files = DEPLOY / main, StaticPods().files(main)
    if os.environ.get("UPDATE_MANIFESTS"):
        shutil.rmtree(root, ignore_errors=True)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    found = {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }
    assert found == files


def test_ours_replaces_kube_scheduler_under_its_lease() -> None:
    """B16, C25: it serves default-scheduler, with a configuration that it takes."""
    config = tried(tree("scheduler", CONFIG), CONFIG)
    names = [profile.scheduler_name for profile in config.profiles]
    assert names == ["default-scheduler", "numakube-scheduler"]
    election = config.leader_election
    lease = (election.resource_namespace, election.resource_name)
    assert lease == ("kube-system", "kube-scheduler")
    pod = tree("scheduler", MANIFEST)
    assert pod["metadata"]["name"] == "kube-scheduler"
    (container,) = pod["spec"]["containers"]
    assert f"--config=/{CONFIG}" in container["args"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"/etc/kubernetes/scheduler.conf", "/etc/kubernetes/numakube"}


def test_the_patch_makes_of_kubeadms_pod_what_the_file_has() -> None:
    """C25, C26: kubeadm keeps it when the cluster is upgraded."""
    patched: Any = json_patch(STOCK, tree("extender", PATCH))
    (container,), (ours,) = (
        entry["spec"]["containers"] for entry in (patched, tree("extender", MANIFEST))
    )
    assert container["command"][-1] == ours["command"][-1] == f"--config=/{CONFIG}"
    assert container["volumeMounts"][1:] == ours["volumeMounts"][1:]
    assert patched["spec"]["volumes"][1:] == tree("extender", MANIFEST)["spec"]["volumes"][1:]


def test_the_extender_is_reached_where_the_user_says() -> None:
    """C25: static pods know no cluster DNS."""
    extender = ExtenderManifest(second=False, url_prefix="https://10.96.0.7:10263")
    text = StaticPods(extender=extender).files("extender")[CONFIG]
    assert "urlPrefix: https://10.96.0.7:10263" in text


@pytest.mark.skipif(SCHEDULER is None, reason="needs kube-scheduler on the PATH")
def test_a_real_kube_scheduler_takes_the_command_line_and_the_configuration(tmp_path: Path) -> None:
    """C25: as far as to write the configuration that it has read."""
    assert SCHEDULER is not None
    files = StaticPods().files("extender")
    kubeconfig, config, out = (tmp_path / name for name in ("kubeconfig", "config", "out"))
    server = {"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    parts = {"clusters": [server], "contexts": [context], "users": [{"name": "x", "user": {}}]}
    kubeconfig.write_text(
        str({"kind": "Config", "apiVersion": "v1", **parts, "current-context": "x"})
    )
    paths = {"/etc/kubernetes/scheduler.conf": str(kubeconfig), f"/{CONFIG}": str(config)}
    text, (_, *words) = (
        files[CONFIG],
        tree("extender", MANIFEST)["spec"]["containers"][0]["command"],
    )
    for old, new in paths.items():
        text, words = text.replace(old, new), [word.replace(old, new) for word in words]
    config.write_text(text.replace("/etc/numakube/extender", str(tmp_path)))
    commands = "kubectl() { :; }\n" + ExtenderManifest().certificates()
    commands += "mv client.crt tls.crt && mv client.key tls.key\n"
    subprocess.run(["sh", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)  # noqa: S603, S607
    done = subprocess.run(  # noqa: S603 - the developer's own
        [
            SCHEDULER,
            *words,
            "--secure-port=0",
            "--authentication-skip-lookup",
            f"--write-config-to={out}",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "unknown flag" not in done.stderr
    assert out.exists(), done.stderr[-2000:]
    written: Any = load_yaml(out.read_text("utf-8"), "out")
    assert written["extenders"][0]["bindVerb"] == "bind"
