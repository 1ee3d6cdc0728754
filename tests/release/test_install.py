"""A release can be installed: by pip from a folder, and by Helm from a registry."""

from __future__ import annotations

import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from pathlib import Path

import pytest
from release.build import build
from release.image import read_layout
from release.oci import MANIFEST, Layout
from release.project import projects
from release.publishing import commands
from tests.release.test_oci import empty_wheel

from numakube.manifests.release_image import VERSION

HELM = Path(sys.executable).with_name("helm")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a release."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


def stand_ins(folder: Path) -> Path:
    """Write a wheel without modules for all that is installed here and is not ours.

    pip sees their names, versions and requirements, so that it resolves as with an index.
    """
    folder.mkdir()
    ours = {project.name for project in projects()}
    for distribution in distributions():
        stem = distribution.name.lower().replace("-", "_").replace(".", "_")
        if stem.replace("_", "-") not in ours:
            name = f"{stem}-{distribution.version}-py3-none-any.whl"
            empty_wheel(folder / name, *(distribution.requires or ()))
    return folder


def run(*words: str | Path, **environment: str) -> str:
    """Run a program with just this environment, and return what it prints."""
    done = subprocess.run(  # noqa: S603 - what was built
        words, env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_pip_installs_everything_from_the_folder(dist: Path, tmp_path: Path) -> None:
    """All of ours, of this version, with what they need; and the programs run.

    What others provide is listed by stand-ins, and used as it is installed here.
    """
    place = tmp_path / "env"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    others = [one for one in sys.path if one.endswith("site-packages")]
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--python",
        python,
        "install",
    ]
    index = stand_ins(tmp_path / "others")
    links: list[str | Path] = ["--find-links", dist, "--find-links", index]
    quiet = ["--quiet", "--no-cache-dir", "--no-compile", "--disable-pip-version-check"]
    run(*pip, *quiet, "--no-index", *links, f"numakube[all]=={VERSION}")

    (library,) = place.glob("lib/python*/site-packages")
    installed = {
        distribution.metadata["Name"]: distribution.version
        for distribution in distributions(path=[str(library)])
    }
    assert {p.name: installed[p.name] for p in projects()} == dict.fromkeys(
        (project.name for project in projects()), VERSION
    )
    path = {"PYTHONPATH": ":".join([str(library), *others]), "PATH": "/usr/bin:/bin"}
    for program in ("numakube", "kubectl-numa"):
        assert f"v{VERSION}" in run(place / "bin" / program, "version", "--client", **path)
    assert "--nodes" in run(place / "bin" / "numakube", "lab", "up", "--help", **path)
    assert run(python, "-c", "import numakube as n; print(*n.__path__)", **path).startswith(
        str(library)
    )


@contextmanager
def registry(repository: str, layout: Layout) -> Iterator[str]:
    """Serve what is in *layout*, as the distribution specification says, and yield the address."""
    (listed,) = layout.listed

    class Pull(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            start, _, what = self.path.removeprefix(f"/v2/{repository}/").partition("/")
            digest = listed["digest"] if (start, what) == ("manifests", VERSION) else what
            content = layout.blobs.get(digest, b"")
            self.send_response(200 if content or self.path == "/v2/" else 404)
            kind = MANIFEST if start == "manifests" else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pull)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_helm_pulls_the_chart_from_a_registry(dist: Path, tmp_path: Path) -> None:
    """Helm itself, from a server that has nothing but the blobs of the layout."""
    layout = read_layout(dist / f"numakube-chart-{VERSION}.oci.tar")
    with registry("charts/numakube", layout) as address:
        chart = f"oci://{address}/charts/numakube"
        words = ("pull", chart, "--version", VERSION, "--plain-http", "-d", tmp_path)
        run(HELM, *words, HOME=str(tmp_path), PATH="/usr/bin:/bin")
    name = f"numakube-{VERSION}.tgz"
    assert (tmp_path / name).read_bytes() == (dist / name).read_bytes()


def test_the_commands_that_publish_name_every_file(dist: Path) -> None:
    """Every distribution is uploaded, and nothing has a name that is not there."""
    text = commands(dist, "3.13")
    (line,) = [line for line in text.splitlines() if line.startswith("twine upload ")]
    uploaded = {Path(word) for word in line.split()[2:]}
    wheels = {*dist.glob("*.whl")}
    assert len(wheels) == len(projects())
    assert uploaded == wheels | {
        dist / f"{project.stem}-{VERSION}.tar.gz" for project in projects()
    }
    files = [word.strip(";") for word in text.split() if word.startswith(f"{dist}/numakube-")]
    assert files
    assert [file for file in files if not Path(file).exists() and "oci" not in file] == []
    assert f"git tag -s v{VERSION}" in text
    assert "linux/amd64,linux/arm64" in text
