"""Bases for kustomize, the bundle for the Operator Lifecycle Manager, and the list of software."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.real.api_server import assets

from numakube.api.yamls import load_manifests
from numakube.manifests.components import COMPONENTS, DEFAULT, Choices, objects_of
from numakube.manifests.operator import OperatorManifest
from numakube.manifests.packages.kustomize import bases
from numakube.manifests.packages.olm import bundle, service_version
from numakube.manifests.packages.sbom import sbom

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBECTL = shutil.which("kubectl", path=os.pathsep.join((str(assets() or ""), os.environ["PATH"])))


@pytest.mark.parametrize(("folder", "files"), [("kustomize", bases()), ("olm", bundle())])
def test_the_files_are_up_to_date(folder: str, files: dict[str, str]) -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/manifests`` after a change."""
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
    """Every object once, its namespace among them."""
    components = DEFAULT if folder == "default" else (folder,)
    found = load_manifests(bases()[f"{folder}/objects.yaml"], folder)
    assert list(found) == objects_of(components, Choices())
    keys = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in found
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("folder", ["default", *COMPONENTS])
def test_kustomize_itself_builds_each_base(folder: str) -> None:
    """The real one, which is a part of kubectl."""
    assert KUBECTL is not None
    words = [KUBECTL, "kustomize", str(DEPLOY / "kustomize" / folder)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603
    built = load_manifests(done.stdout, "kustomize")
    written = load_manifests(bases()[f"{folder}/objects.yaml"], folder)

    def key(one: dict[str, Any]) -> tuple[str, ...]:
        metadata = one["metadata"]
        return one["kind"], metadata.get("namespace", ""), metadata["name"]

    assert sorted(built, key=key) == sorted(written, key=key)


def test_the_bundle_installs_the_operator_that_we_deploy() -> None:
    """With its rights, and the kinds that it owns."""
    version = service_version()
    strategy = version["spec"]["install"]["spec"]
    manifest = OperatorManifest()
    (deployment,) = strategy["deployments"]
    assert deployment["spec"] == manifest.deployment()["spec"]
    rules = [one["rules"] for one in manifest.access() if one["kind"] in ("ClusterRole", "Role")]
    assert [
        strategy["clusterPermissions"][0]["rules"],
        strategy["permissions"][0]["rules"],
    ] == rules
    owned = {one["name"] for one in version["spec"]["customresourcedefinitions"]["owned"]}
    kinds = {one["metadata"]["name"] for one in manifest.objects()[:2]}
    assert owned == kinds


def test_the_list_of_software_has_what_a_component_needs_and_no_more() -> None:
    """Agents have nothing of the lab's."""
    agent = sbom("numakube", frozenset({"exporter"}))
    names = {one["name"].lower() for one in agent["components"]}
    assert {"aiohttp", "grpcio", "msgspec"} <= names
    assert "cryptography" not in names
    assert agent["metadata"]["component"]["purl"].startswith("pkg:pypi/numakube@")
    scheduler = sbom("numakube", frozenset({"scheduler"}))
    names = {one["name"].lower() for one in scheduler["components"]}
    assert "numpy" in names
    assert "grpcio" not in names
    everything = sbom("numakube", frozenset({"all"}))
    names = {one["name"].lower() for one in everything["components"]}
    assert {"grpcio", "jinja2", "numpy", "cryptography"} <= names
