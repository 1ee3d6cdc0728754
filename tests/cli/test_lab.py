"""``numakube lab`` and the commands that work with a cluster, on a lab in the background."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numakube.lab.rundir import RunDir

if TYPE_CHECKING:
    from tests.cli.conftest import Ended

PROGRAM = "from numakube.cli.main import main; main()"


@pytest.fixture(scope="module")
def runtime() -> Iterator[Path]:
    """A runtime folder in which a lab of one node runs, started as a user starts it."""
    with tempfile.TemporaryDirectory(prefix="x-") as path:
        env = {"XDG_RUNTIME_DIR": path, "PATH": ""}

        def numakube(*words: str) -> str:
            command = [sys.executable, "-c", PROGRAM, *words]
            done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)  # noqa: S603
            return done.stdout

        shape = "2 sockets, 4 cores, smt 2, 16Gi"
        said = numakube("lab", "up", "--nodes", "1", "--machine", shape, "--detach")
        assert "Lab 'lab' is up with 1 nodes." in said
        (example,) = (line.split()[-1] for line in said.splitlines() if "kubectl apply" in line)
        assert Path(example).is_file()
        yield Path(path)
        assert "lab" in numakube("lab", "down")
        assert not RunDir.of("lab", env).path.exists()


@pytest.fixture
def lab(
    runtime: Path, numakube: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """What runs a command beside that lab."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    kubeconfig = RunDir.of("lab", {"XDG_RUNTIME_DIR": str(runtime)}).kubeconfig
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
    ended = lab("lab", "fault", *words)
    assert ended.code == code
    assert complaint in ended.err


def test_reports_of_vanished_nodes_are_collected(lab: Callable[..., Ended]) -> None:
    """The garbage collector works on any cluster; here it finds nothing."""
    ended = lab("gc", "--oneshot", "--grace-period", "0s", "--dry-run", "--log-level", "error")
    assert (ended.code, ended.out) == (0, "")


def test_a_node_is_exported_once(lab: Callable[..., Ended]) -> None:
    """By the program itself, beside the lab's own exporter, from the folder that it asks for."""
    node = Path(lab("lab", "node", "path", "node-0").out.strip())
    ended = lab(
        *("exporter", "--oneshot", "--hostname", "node-0", "--sysfs", node / "sys"),
        *("--kubelet-state-dir", node, "--kubelet-config-file", node / "config.yaml"),
        *("--podresources-socket", node / "pod-resources" / "kubelet.sock"),
        *("--metrics-mode", "disabled", "--log-level", "error"),
    )
    assert (ended.code, ended.err) == (0, "")
