"""``numakube lab`` and the commands that work with a cluster, on a lab in the background."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ended

from numakube.testing import until_blocking
from numakube_lab.run_folder import LabInfo, RunDir

PROGRAM = "from numakube.cli.main import main; main()"


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command as a user does, with *folder* for labs."""
    env = {"XDG_RUNTIME_DIR": str(folder), "PATH": ""}
    command = [sys.executable, "-c", PROGRAM, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)  # noqa: S603


def ended(folder: Path, *words: str) -> Ended:
    """Run a command as a user does."""
    with started(folder, *words) as process:
        out, err = process.communicate()
        return Ended(process.returncode, out, err)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Path]:
    """A runtime folder in which a lab of one node runs, started as a user starts it."""
    with tempfile.TemporaryDirectory(prefix="x-") as path:
        shape = "2 sockets, 4 cores, smt 2, 16Gi"
        up = ended(Path(path), "lab", "up", "--nodes", "1", "--machine", shape, "--detach")
        assert "Lab 'lab' is up with 1 nodes." in up.out
        (example,) = (line.split()[-1] for line in up.out.splitlines() if "kubectl apply" in line)
        assert Path(example).is_file()
        yield Path(path)
        assert "lab" in ended(Path(path), "lab", "down").out
        assert not run_dir(Path(path)).path.exists()


@pytest.fixture
def place() -> Iterator[Path]:
    """A runtime folder without labs."""
    with tempfile.TemporaryDirectory(prefix="x-") as path:
        yield Path(path)


def run_dir(folder: Path, name: str = "lab") -> RunDir:
    """Return where a lab keeps its files."""
    return RunDir.of(name, {"XDG_RUNTIME_DIR": str(folder)})


@pytest.fixture
def lab(
    runtime: Path, numakube: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """What runs a command beside that lab."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    kubeconfig = run_dir(runtime).kubeconfig
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return numakube


def faults(lab: Callable[..., Ended]) -> Any:
    """Return the faults in force."""
    return json.loads(lab("lab", "fault", "list", "-o", "json").out)


def test_the_lab_is_found_and_shown(lab: Callable[..., Ended]) -> None:
    """By its name, or among all."""
    assert "node-0" in lab("lab", "status", "--name", "lab").out


def test_exporters_are_frozen_thawed_skewed_and_left_alone(lab: Callable[..., Ended]) -> None:
    """By command; they run by default."""
    assert lab("lab", "fault", "freeze-exporter", "node-0").out == "frozen: node-0\n"
    assert faults(lab) == {"exporters": {"node-0": {"frozen": True}}}
    assert lab("lab", "fault", "thaw-exporter", "node-0").out == "thawed: node-0\n"
    words = ("node-0", "--amount", "cpu=-2", "--amount", "memory=1Gi", "--delay", "1")
    assert lab("lab", "fault", "skew-reports", *words).out == "skewed: node-0\n"
    assert faults(lab)["exporters"]["node-0"]["skew"] == {
        "amounts": {"cpu": -2, "memory": 1 << 30},
        "zone": "",
        "delay": 1.0,
    }
    assert lab("lab", "fault", "skew-reports", "node-0").out == "straight: node-0\n"
    lab("lab", "fault", "freeze-exporter", "node-0")
    lab("lab", "fault", "clear")
    assert faults(lab) == {}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("freeze-exporter", "node-9"), 1, "no exporter runs for: node-9"),
        (("freeze-exporter",), 2, "Missing argument"),
        (("skew-reports", "node-0", "--amount", "cpu"), 2, "write RESOURCE=QUANTITY"),
        (("skew-reports", "node-0", "--amount", "cpu=many"), 1, "amount of cpu"),
    ],
)
def test_mistakes_are_one_line(
    lab: Callable[..., Ended], words: tuple[str, ...], code: int, complaint: str
) -> None:
    """With the usual exit codes."""
    end = lab("lab", "fault", *words)
    assert end.code == code
    assert complaint in end.err


def test_reports_of_vanished_nodes_are_collected(lab: Callable[..., Ended]) -> None:
    """The garbage collector works on any cluster; here it finds nothing."""
    end = lab("gc", "--oneshot", "--grace-period", "0s", "--dry-run", "--log-level", "error")
    assert (end.code, end.out) == (0, "")


def test_a_node_is_exported_once(lab: Callable[..., Ended]) -> None:
    """By the program itself, beside the lab's own exporter, from the folder that it asks for."""
    node = Path(lab("lab", "node", "path", "node-0").out.strip())
    end = lab(
        *("exporter", "--oneshot", "--hostname", "node-0", "--sysfs", node / "sys"),
        *("--kubelet-state-dir", node, "--kubelet-config-file", node / "config.yaml"),
        *("--podresources-socket", node / "pod-resources" / "kubelet.sock"),
        *("--metrics-mode", "disabled", "--log-level", "error"),
    )
    assert (end.code, end.err) == (0, "")


def test_a_lab_that_is_still_starting_is_ended(place: Path) -> None:
    """And leaves nothing; the command that waits for it says so."""
    up = started(place, "lab", "up", "--nodes", "5000", "--detach")
    folder = run_dir(place)
    until_blocking(folder.progress)
    assert up.poll() is None
    said = ended(place, "lab", "status").out
    assert "is still starting" in said
    down = ended(place, "lab", "down")
    assert (down.code, down.out) == (0, "Lab 'lab' is down.\n")
    assert not folder.path.exists()
    assert "the lab was told to end before it was up" in up.communicate()[1]
    assert up.returncode == 1


def test_what_a_killed_lab_left_is_removed(place: Path) -> None:
    """By the command that ends labs."""
    assert ended(place, "lab", "up", "--nodes", "0", "--detach").code == 0
    folder = run_dir(place)
    pid = folder.owner()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until_blocking(lambda: folder.owner() is None)
    assert folder.path.exists()
    assert ended(place, "lab", "down").code == 0
    assert not folder.path.exists()
    assert "no lab called 'lab' is running" in ended(place, "lab", "down").err


def test_a_lab_that_cannot_start_in_the_background_says_why(place: Path) -> None:
    """Its log is gone with it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        up = ended(place, "lab", "up", "--nodes", "0", "--port", port, "--detach")
    assert up.code == 1
    assert up.err.startswith("error: the lab could not start: ")
    assert "address already in use" in up.err
    assert not run_dir(place).path.exists()


def test_a_lab_that_does_not_answer_hides_no_other(
    lab: Callable[..., Ended], runtime: Path
) -> None:
    """It is shown with the reason."""
    silent = run_dir(runtime, "silent")
    silent.create()
    silent.write_info(LabInfo("silent", os.getpid(), "http://x", "http://y", "/z"))
    shown = lab("lab", "status")
    silent.remove()
    assert shown.code == 0
    assert "node-0" in shown.out
    assert f"silent: the lab at {silent.control_socket} does not answer" in shown.out


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("--with-pods",), 2, "--with-pods needs --from"),
        (("--with-pods", "--rbac", "--host", "0.0.0.0"), 2, "--rbac also serves HTTPS"),
        (("--with-pods", "--rbac", "--host", "0.0.0.0"), 2, "--with-pods needs --from"),
        (("--from", __file__, "--nodes", "2"), 2, "leave out --nodes"),
        (("--from", __file__), 1, "test_lab.py: neither a dump of a cluster (kubectl get nodes"),
    ],
)
def test_a_lab_from_the_wrong_file_is_refused(
    numakube: Callable[..., Ended], words: tuple[str, ...], code: int, complaint: str
) -> None:
    """In one line."""
    end = numakube("lab", "up", *words)
    assert end.code == code
    assert complaint in end.err
