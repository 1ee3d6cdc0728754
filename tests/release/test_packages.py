"""Bases for kustomize, the bundle for the Operator Lifecycle Manager, and the list of software."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from release.kustomize import bases
from release.olm import (
    bundle,
    catalog,
    catalog_source,
    service_version,
    subscription,
)
from release.sbom import sbom
from tests.real.api_server import assets
from tests.release.test_chart import unhashed

from numakube.api.yaml_text import dump_yaml, load_manifests
from numakube.manifests.components import COMPONENTS, DEFAULT, Choices, objects_of
from numakube.manifests.operator import OperatorManifest

CONFIGURATION = ("ConfigMap", "numakube", "numakube-scheduler-config")
DEPLOY = Path(__file__).parents[2] / "deploy"
KUBECTL = shutil.which("kubectl", path=os.pathsep.join((str(assets() or ""), os.environ["PATH"])))


@pytest.mark.parametrize(("folder", "files"), [("kustomize", bases()), ("olm", bundle())])
def test_the_files_are_up_to_date(folder: str, files: dict[str, str]) -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/release`` after a change."""
    root = DEPLOY / folder
    if os.environ.get("UPDATE_MANIFESTS"):
        shutil.rmtree(root, ignore_errors=True)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    written = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }
    assert written == files


@pytest.mark.parametrize("folder", ["default", *COMPONENTS])
def test_each_base_has_what_deploy_applies(folder: str) -> None:
    """Every object once, its namespace among them; the scheduler's configuration is a file."""
    components = DEFAULT if folder == "default" else (folder,)
    found = load_manifests(bases()[f"{folder}/objects.yaml"], folder)
    expected = unhashed(objects_of(components, Choices()))
    generated = [one for one in expected if key_of(one) == CONFIGURATION]
    assert unhashed(list(found)) == [one for one in expected if one not in generated]
    assert all(
        bases()[f"{folder}/config.yaml"] == entry["data"]["config.yaml"] for entry in generated
    )
    keys = [
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in found
    ]
    assert len(keys) == len(set(keys))


def key_of(one: dict[str, Any]) -> tuple[str, ...]:
    """Return kind, namespace and name of an object."""
    metadata = one["metadata"]
    return one["kind"], metadata.get("namespace", ""), metadata["name"]


def kustomized(folder: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return what the real kustomize builds: objects, and the ConfigMaps that it names."""
    assert KUBECTL is not None
    words = [KUBECTL, "kustomize", str(folder)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603
    built = load_manifests(done.stdout, "kustomize")
    hashed = {
        item["metadata"]["name"]: item
        for item in built
        if item["kind"] == "ConfigMap"
        and item["metadata"]["name"].startswith("numakube-scheduler-config-")
    }
    return [one for one in built if one not in hashed.values()], hashed


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("folder", ["default", *COMPONENTS])
def test_kustomize_itself_builds_each_base(folder: str) -> None:
    """The real one, which is a part of kubectl."""
    built, hashed = kustomized(DEPLOY / "kustomize" / folder)
    written = list(load_manifests(bases()[f"{folder}/objects.yaml"], folder))
    for item in written:
        if item["kind"] == "Deployment" and hashed:
            item["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = min(hashed)
    assert sorted(built, key=key_of) == sorted(written, key=key_of)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
def test_an_overlay_replaces_the_schedulers_configuration_and_rolls_its_pods(
    tmp_path: Path,
) -> None:
    """C24, C27, L5: under a new name, which the Deployment mounts."""
    base = os.path.relpath(DEPLOY / "kustomize" / "scheduler", tmp_path)
    generator = {
        "name": "numakube-scheduler-config",
        "namespace": "numakube",
        "behavior": "replace",
    }
    overlay = {"resources": [base], "configMapGenerator": [{**generator, "files": ["config.yaml"]}]}
    (tmp_path / "kustomization.yaml").write_text(dump_yaml(overlay), encoding="utf-8")
    (tmp_path / "config.yaml").write_text("profiles: []\n", encoding="utf-8")

    built, hashed = kustomized(tmp_path)

    ((name, config),) = hashed.items()
    assert config["data"] == {"config.yaml": "profiles: []\n"}
    assert name not in kustomized(DEPLOY / "kustomize" / "scheduler")[1]
    (deployment,) = (item for item in built if item["kind"] == "Deployment")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == name


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
def test_the_documented_overlay_has_exporters_report_only_surprises(tmp_path: Path) -> None:
    """It adds one argument and changes nothing else."""
    page = DEPLOY.parent / "docs" / "contribute" / "only-surprises.md"
    (overlay,) = re.findall(
        r"```yaml title=\"kustomization.yaml\"\n(.*?)```", page.read_text(), re.DOTALL
    )
    base = DEPLOY / "kustomize" / "exporter"
    text = overlay.replace("deploy/kustomize/exporter", os.path.relpath(base, tmp_path))
    (tmp_path / "kustomization.yaml").write_text(text, encoding="utf-8")

    (plain,), (patched,) = (
        [item for item in kustomized(folder)[0] if item["kind"] == "DaemonSet"]
        for folder in (base, tmp_path)
    )

    (container,) = plain["spec"]["template"]["spec"]["containers"]
    container["args"].append("--max-silence=5m")
    assert patched == plain


def test_the_bundle_installs_the_operator_that_we_deploy() -> None:
    """With its rights, and the kinds that it owns."""
    version = service_version()
    strategy = version["spec"]["install"]["spec"]
    manifest = OperatorManifest()
    (deployment,) = strategy["deployments"]
    assert deployment["spec"] == manifest.deployment()["spec"]
    rules = [item["rules"] for item in manifest.access() if item["kind"] in ("ClusterRole", "Role")]
    assert [
        strategy["clusterPermissions"][0]["rules"],
        strategy["permissions"][0]["rules"],
    ] == rules
    owned = {entry["name"] for entry in version["spec"]["customresourcedefinitions"]["owned"]}
    kinds = {item["metadata"]["name"] for item in manifest.objects()[:2]}
    assert owned == kinds


def test_the_catalog_names_the_bundle_and_the_subscription_the_catalog() -> None:
    """A11: one chain from a CatalogSource to the version that is installed."""
    package, channel, version = catalog()
    (entry,) = channel["entries"]
    assert entry["name"] == version["name"] == service_version()["metadata"]["name"]
    wish = subscription()[-1]["spec"]
    assert (wish["name"], wish["channel"]) == (package["name"], channel["name"])
    assert wish["source"] == catalog_source()["metadata"]["name"]
    labels = re.findall(r"^LABEL ([^=]+)=(.*)$", bundle()["bundle.Dockerfile"], re.MULTILINE)
    (annotations,) = load_manifests(bundle()["metadata/annotations.yaml"], "annotations")
    assert dict(labels) == annotations["annotations"]


def test_the_list_of_software_has_what_a_component_needs_and_no_more() -> None:
    """Agents have nothing of the lab's."""
    agent = sbom("numakube", frozenset({"exporter"}))
    names = {component["name"].lower() for component in agent["components"]}
    assert {"aiohttp", "h2", "msgspec"} <= names
    assert "cryptography" not in names
    assert agent["metadata"]["component"]["purl"].startswith("pkg:pypi/numakube@")
    scheduler = sbom("numakube", frozenset({"scheduler"}))
    names = {component["name"].lower() for component in scheduler["components"]}
    assert "numpy" in names
    assert "grpcio" not in names
    everything = sbom("numakube", frozenset({"all"}))
    names = {component["name"].lower() for component in everything["components"]}
    assert {"grpcio", "jinja2", "numpy", "cryptography"} <= names
