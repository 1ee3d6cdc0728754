"""What registries store is made as files: the chart, and the image for two architectures."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import parse_wheel_filename
from release.archives import tar
from release.build import build
from release.image import MACHINES, NAMES, image, layer, read_layout, settings, target
from release.image_requirements import FILE
from release.oci import CONFIG, LAYER, MANIFEST, Layout, joined, sha256
from release.project import ROOT, projects
from release.wheels import needed

from numakube.manifests.release_image import VERSION

WHEEL = re.compile(r"^# (\S+\.whl)$", re.MULTILINE)
PYTHON = "/usr/local/bin/python3"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with our wheels, and an empty one for each that the image is built from."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder)
    for name in WHEEL.findall(FILE.read_text(encoding="utf-8")):
        empty_wheel(folder / name)
    return folder


def empty_wheel(path: Path, *requirements: str) -> None:
    """Write a wheel that has a description and a file that says which wheel it is from."""
    project, version, *_ = parse_wheel_filename(path.name)
    stem = f"{path.name.split('-')[0]}-{version}.dist-info"
    lines = [f"Name: {project}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requirements]
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{stem}/METADATA", "\n".join(["Metadata-Version: 2.1", *lines, ""]))
        packed.writestr(f"{stem}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        packed.writestr(f"{stem}/FROM", path.name)
        packed.writestr(f"{stem}/RECORD", "")


def base_for(architecture: str) -> Layout:
    """Return an image of one file, for one architecture."""
    layout = Layout()
    contents = tar({"usr/local/bin/python3": architecture})
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin", "LANG=C.UTF-8"], "Cmd": ["python3"]},
        "rootfs": {"type": "layers", "diff_ids": [sha256(contents)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add_json(config, CONFIG),
        "layers": [layout.add(gzip.compress(contents, mtime=0), LAYER)],
    }
    layout.listed = [layout.add_json(manifest, MANIFEST, platform={"architecture": architecture})]
    return layout


def unpacked(layer_: bytes) -> tarfile.TarFile:
    """Open what a layer contains."""
    return tarfile.open(fileobj=io.BytesIO(layer_))


def names_of(archive: tarfile.TarFile) -> set[str]:
    """Return the wheels that went into a layer."""
    files = [archive.extractfile(info) for info in archive if info.name.endswith(".dist-info/FROM")]
    return {file.read().decode() for file in files if file is not None}


def test_the_image_is_built_for_all_architectures_of_its_base(wheels: Path) -> None:
    """On the base's own layers, run as the Dockerfile says, and named by checksums alone."""
    base = joined([base_for("amd64"), base_for("s390x"), base_for("arm64")], "3.13")
    made = image(wheels, base, python=PYTHON)
    (index,) = made.listed
    listed = made.read(index)["manifests"]
    assert [entry["platform"] for entry in listed] == [
        {"architecture": one, "os": "linux"} for one in ("amd64", "arm64")
    ]
    for one in listed:
        manifest = made.read(one)
        config = made.read(manifest["config"])
        contents = [gzip.decompress(made.blobs[lay["digest"]]) for lay in manifest["layers"]]
        assert config["rootfs"]["diff_ids"] == [sha256(content) for content in contents]
        assert unpacked(contents[0]).getnames() == ["usr/local/bin/python3"]
        run = config["config"]
        assert (run["User"], run["Entrypoint"], run["Cmd"]) == ("65532:65532", ["numakube"], [])
        assert run["Env"][0].startswith("PATH=/opt/numakube/bin:")
        assert run["Env"][1] == "LANG=C.UTF-8"
    assert {sha256(blob) for blob in made.blobs.values()} == made.blobs.keys()


def test_a_base_without_our_architectures_is_refused(wheels: Path) -> None:
    with pytest.raises(LookupError, match="none of amd64, arm64"):
        image(wheels, base_for("s390x"), python=PYTHON)


@pytest.mark.parametrize("machine", MACHINES.values())
def test_each_architecture_has_its_own_wheels(machine: str, wheels: Path) -> None:
    """Compiled ones, and nothing that only builds the image or belongs to the lab."""
    archive = unpacked(layer(wheels, machine, python=PYTHON))
    used = names_of(archive)
    (other,) = set(MACHINES.values()) - {machine}
    assert not [name for name in used if other in name]
    assert {name.split("-")[0] for name in used if machine in name} >= {
        "numpy",
        "msgspec",
        "uvloop",
    }
    assert not [
        name for name in archive.getnames() if "hatchling" in name or "numakube_lab" in name
    ]


def test_the_layer_is_the_same_whenever_it_is_built(wheels: Path) -> None:
    """Of the same wheels."""
    first, second = (layer(wheels, "x86_64", python=PYTHON) for _ in range(2))
    assert first == second


def test_what_is_in_the_image_runs(wheels: Path, tmp_path: Path) -> None:
    """With this Python in place of the base's, and what it has of others."""
    with unpacked(layer(wheels, "x86_64", python=sys.executable)) as archive:
        archive.extractall(tmp_path, filter="tar")
    bins = tmp_path / "opt" / "numakube" / "bin"
    (library,) = (tmp_path / "opt" / "numakube" / "lib").glob("python*/site-packages")
    others = [one for one in sys.path if one.endswith("site-packages")]
    # Without site, which would find this tree; programs start by a path that only the image has.
    words = [sys.executable, "-S", str(bins / "numakube"), "--version"]
    environment = {"PYTHONPATH": ":".join([str(library), *others])}
    printed = subprocess.run(  # noqa: S603 - what was built
        words, env=environment, cwd="/", capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"numakube {VERSION}\n"
    assert (bins / "numakube").read_text("utf-8").startswith("#!/opt/numakube/bin/python\n")
    assert (bins / "python").readlink() == Path(sys.executable)
    for name in ("gather", "kube-scheduler"):
        assert os.access(tmp_path / "usr" / "bin" / name, os.X_OK)


def test_the_image_and_the_dockerfile_agree() -> None:
    """About who runs it, the programs of others that it replaces, and its settings."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    config = settings()["config"]
    assert f"USER {config['User']}\n" in text
    assert f"ENTRYPOINT {json.dumps(config['Entrypoint'])}\n" in text
    assert dict(re.findall(r"([a-z-]+)=(scheduler|exporter)\b", text)).items() >= NAMES.items()
    for value in config["Env"][1:]:
        assert value in text


def test_requirements_are_followed_as_pip_does(tmp_path: Path) -> None:
    """By extras and markers of the target, to the best wheel of each."""
    empty_wheel(tmp_path / "a-1-py3-none-any.whl", "b; extra == 'x'", "c; python_version < '3'")
    arm = "b-1-cp313-cp313-manylinux_2_17_aarch64.whl"
    for name in ("b-1-py3-none-any.whl", arm, "b-1-cp313-cp313-manylinux_2_17_x86_64.whl"):
        empty_wheel(tmp_path / name)
    there = target("aarch64")
    assert [path.name for path in needed(tmp_path, "a[x]", there)] == ["a-1-py3-none-any.whl", arm]
    assert [path.name for path in needed(tmp_path, "a", there)] == ["a-1-py3-none-any.whl"]
    with pytest.raises(LookupError, match="no wheel of d"):
        needed(tmp_path, "d", there)
    with pytest.raises(LookupError, match="is not a>=2"):
        needed(tmp_path, "a>=2", there)


def test_the_chart_is_stored_as_helm_pushes_it(wheels: Path) -> None:
    """One layer that is the packed chart, and its metadata, under its version."""
    layout = read_layout(wheels / f"numakube-chart-{VERSION}.oci.tar")
    (listed,) = layout.listed
    manifest = layout.read(listed)
    (content,) = manifest["layers"]
    assert content["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    assert layout.blobs[content["digest"]] == (wheels / f"numakube-{VERSION}.tgz").read_bytes()
    config: dict[str, Any] = layout.read(manifest["config"])
    assert (config["name"], config["version"]) == ("numakube", VERSION)
    assert listed["annotations"] == {"org.opencontainers.image.ref.name": VERSION}


def test_a_layout_is_read_from_a_folder_and_from_an_archive(tmp_path: Path) -> None:
    """As skopeo and others write them."""
    layout = base_for("amd64")
    (tmp_path / "base.tar").write_bytes(layout.archive())
    with tarfile.open(tmp_path / "base.tar") as packed:
        packed.extractall(tmp_path / "base", filter="data")
    for path in (tmp_path / "base.tar", tmp_path / "base"):
        assert read_layout(path) == layout


def test_the_statement_names_every_file_and_its_source(wheels: Path) -> None:
    """In the words of SLSA; without times, so that whoever builds the commit has the same."""
    told = json.loads((wheels / f"numakube-{VERSION}.intoto.json").read_text("utf-8"))
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://slsa.dev/provenance/v1"
    named = {entry["name"]: entry["digest"]["sha256"] for entry in told["subject"]}
    assert {f"{project.stem}-{VERSION}.tar.gz" for project in projects()} < named.keys()
    for name, checksum in named.items():
        assert hashlib.sha256((wheels / name).read_bytes()).hexdigest() == checksum
    source, *inputs = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["uri"].endswith(f"@refs/tags/v{VERSION}")
    assert re.fullmatch("[0-9a-f]{40}", source["digest"]["gitCommit"])
    assert [entry["uri"] for entry in inputs] == [
        "file:constraints.txt", "file:release/image-requirements.txt",
    ]  # fmt: skip
