"""A dry run of a release: everything is built, and what was built is looked at."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from release.build import SUMS, build
from release.project import ROOT, projects

from numakube.api.yaml_text import load_manifests, load_yaml
from numakube.manifests.components import DEFAULT, Choices, objects_of
from numakube.manifests.release_image import VERSION

LIBRARIES = ("numakube_api", "numakube_cel", "numakube_client", "numakube_http", "numakube_kubelet")
"""What is installed with numakube, and can be without."""
ALONE = (*LIBRARIES, "kube_lab_server")
PARTS = tuple(project.stem for project in projects()[1:])
ADMISSION = """
from numakube.api.codec import convert
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.pod import Pod
from numakube.kubelet import KubeletNode, from_shape, settings_of

machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi")
config = convert(KubeletConfiguration, {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"})
exact = {"cpu": "4", "memory": "1Gi"}
container = {"name": "c", "resources": {"requests": exact, "limits": exact}}
pod = convert(Pod, {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}})
outcome = KubeletNode(machine, settings_of(config, machine)).admit(pod)
print(type(outcome).__name__)
"""
SERVED = """
import asyncio
from kube_lab_server import MASTERS, ApiServer, InsideRequest, User

async def namespaces():
    async with ApiServer() as server:
        root = User("root", "", (MASTERS,))
        answer = await server.ask(root, InsideRequest("GET", "/api/v1/namespaces/default"))
        print(answer.status)

asyncio.run(namespaces())
"""
USES = {
    "numakube_api": (
        "from numakube.values.quantity import parse_quantity as q; print(q('1.5Gi').value())",
        "1610612736",
    ),
    "numakube_cel": (
        "from numakube.cel import compile_expression as c; print(c('1 + 2', {}).evaluate({}))",
        "3",
    ),
    "numakube_client": (
        "from numakube.kube import PODS; print(PODS.path('a', namespace='b'))",
        "/api/v1/namespaces/b/pods/a",
    ),
    "numakube_http": (
        "from numakube.http import names_this_machine as n; print(n('[::1]'))",
        "True",
    ),
    "numakube_kubelet": (ADMISSION, "Admitted"),
    "kube_lab_server": (SERVED, "200"),
}
"""What each library does where nothing else of ours is, and what that prints."""
NEEDS = {"kube_lab_server": ("numakube_api", "numakube_cel", "numakube_http")}
"""What a library needs of ours, if more than the types of the API."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a release."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


def unpack(dist: Path, name: str, folder: Path) -> set[str]:
    """Put what a wheel contains into *folder*, and return the names of its files."""
    with zipfile.ZipFile(dist / f"{name}-{VERSION}-py3-none-any.whl") as wheel:
        wheel.extractall(folder)  # noqa: S202 - our own
        return set(wheel.namelist())


def digest(path: Path) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*words: str, **environment: str) -> str:
    """Run a program with just this environment, and return what it prints."""
    done = subprocess.run(  # noqa: S603 - what was built
        words, env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_release_has_every_file_and_its_checksum(dist: Path) -> None:
    """Wheels, sdists, chart, plug-in, manifests and the list of software."""
    lines = (dist / SUMS).read_text(encoding="utf-8").splitlines()
    sums = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    assert sums == {path.name: digest(path) for path in dist.iterdir() if path.name != SUMS}
    assert sums.keys() == {
        f"numakube-{VERSION}-py3-none-any.whl",
        f"numakube-{VERSION}.tar.gz",
        *(f"{name}-{VERSION}-py3-none-any.whl" for name in PARTS),
        *(f"{name}-{VERSION}.tar.gz" for name in PARTS),
        f"numakube-{VERSION}.tgz",
        f"numakube-{VERSION}.cdx.json",
        f"numakube-{VERSION}.intoto.json",
        f"numakube-chart-{VERSION}.oci.tar",
        f"numakube-manifests-{VERSION}.tar.gz",
        f"numakube-olm-{VERSION}.tar.gz",
        f"kubectl-numa-{VERSION}.tar.gz",
        "numa.yaml",
        "install.yaml",
    }


def test_the_same_tree_gives_the_same_release(dist: Path, tmp_path: Path) -> None:
    """So that anybody can check what was published."""
    build(tmp_path)
    assert (tmp_path / SUMS).read_text("utf-8") == (dist / SUMS).read_text("utf-8")


def test_the_wheel_runs_and_has_its_data(dist: Path, tmp_path: Path) -> None:
    """Without the tree that it was built from."""
    for name in LIBRARIES:
        unpack(dist, name, tmp_path)
    names = unpack(dist, "numakube", tmp_path)
    program = "import numakube.cli.main as main; print(main.__file__); main.main()"
    printed = run(sys.executable, "-c", program, "--version", PYTHONPATH=str(tmp_path))
    assert printed == f"{tmp_path}/numakube/cli/main.py\nnumakube {VERSION}\n"
    assert {path.name for path in (ROOT / "examples").iterdir()} <= {
        name.removeprefix("numakube/examples/") for name in names
    }
    assert {name.partition("/")[0] for name in names} == {
        "numakube", f"numakube-{VERSION}.dist-info",
    }  # fmt: skip
    assert not [name for name in names if "/lab/" in name]


@pytest.mark.parametrize("name", ALONE)
def test_a_library_does_its_job_without_the_rest(name: str, dist: Path, tmp_path: Path) -> None:
    """With nothing of ours but what it says that it needs."""
    for one in (name, *NEEDS.get(name, ("numakube_api",))):
        unpack(dist, one, tmp_path)
    # Without site, where this tree is installed; of what is there, only what is not ours.
    places = [one for one in sys.path if one.endswith("site-packages")]
    program, answer = USES[name]
    path = ":".join((str(tmp_path), *places))
    assert run(sys.executable, "-S", "-c", program, PYTHONPATH=path) == f"{answer}\n"


def test_the_lab_is_a_wheel_of_its_own(dist: Path) -> None:
    """It goes with just this version of numakube, whose program finds it by its entry points."""
    with zipfile.ZipFile(dist / f"numakube_lab-{VERSION}-py3-none-any.whl") as wheel:
        info = f"numakube_lab-{VERSION}.dist-info"
        metadata = wheel.read(f"{info}/METADATA").decode()
        entries = wheel.read(f"{info}/entry_points.txt").decode()
    assert f"Requires-Dist: numakube=={VERSION}\n" in metadata
    assert "[numakube.commands]" in entries


@pytest.mark.parametrize("name", ["numakube", *PARTS])
def test_a_wheel_can_be_built_from_the_source_distribution(
    name: str, dist: Path, tmp_path: Path
) -> None:
    """The same one."""
    with tarfile.open(dist / f"{name}-{VERSION}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    builder = WheelBuilder(str(tmp_path / f"{name}-{VERSION}"))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["standard"])
    assert digest(Path(wheel)) == digest(dist / Path(wheel).name)


def test_links_of_the_package_page_lead_to_the_repository(dist: Path) -> None:
    """To the files of this version; the package itself has neither pictures nor pages."""
    with zipfile.ZipFile(dist / f"numakube-{VERSION}-py3-none-any.whl") as wheel:
        page = wheel.read(f"numakube-{VERSION}.dist-info/METADATA").decode()
    for place in re.findall(r"\]\(([^)]+)\)", page):
        prefix, found, path = place.partition(f"/v{VERSION}/")
        assert prefix.startswith("https://"), place
        assert not found or (ROOT / path.partition("#")[0]).exists(), place
    assert f"(https://raw.githubusercontent.com/numakube/numakube/v{VERSION}/docs/images/" in page


def test_the_chart_is_the_one_in_the_tree(dist: Path) -> None:
    """As ``helm install`` takes it: in a folder of the chart's name."""
    with tarfile.open(dist / f"numakube-{VERSION}.tgz") as archive:
        packed = {
            info.name: file.read()
            for info in archive
            if (file := archive.extractfile(info)) is not None
        }
    folder = ROOT / "deploy" / "chart"
    assert packed == {
        f"numakube/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_manifests_are_what_deploy_applies(dist: Path) -> None:
    """For ``kubectl apply -f`` of a release's address."""
    found = load_manifests((dist / "install.yaml").read_text("utf-8"), "install.yaml")
    assert list(found) == objects_of(DEFAULT, Choices())


def test_the_list_of_software_is_about_this_version(dist: Path) -> None:
    """With everything that any component needs."""
    software = json.loads((dist / f"numakube-{VERSION}.cdx.json").read_text("utf-8"))
    assert software["metadata"]["component"]["version"] == VERSION
    assert {"numpy", "grpcio", "jinja2"} <= {
        component["name"].lower() for component in software["components"]
    }


def test_krew_gets_a_plug_in_that_runs_this_version(dist: Path, tmp_path: Path) -> None:
    """By uv or pipx, with the arguments as they are; without either it says what to do."""
    archive = dist / f"kubectl-numa-{VERSION}.tar.gz"
    manifest = load_yaml((dist / "numa.yaml").read_text("utf-8"), "numa.yaml")
    assert isinstance(manifest, dict)
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == digest(archive)
    assert platform["uri"].endswith(f"/v{VERSION}/{archive.name}")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    program = str(tmp_path / platform["bin"])
    bins = tmp_path / "bin"
    bins.mkdir()
    (bins / "sh").symlink_to("/bin/sh")
    assert f"pip install numakube=={VERSION}" in run(program, "top", PATH=str(bins))
    for name, words in (("pipx", "run --spec"), ("uvx", "--quiet --from")):
        tool = bins / name
        tool.write_text(f'#!/bin/sh\nprintf "%s|" {name} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
        printed = run(program, "top", "a b", PATH=str(bins))
        expected = [name, *words.split(), f"numakube=={VERSION}", "kubectl-numa", "top", "a b"]
        assert printed.split("|")[:-1] == expected
