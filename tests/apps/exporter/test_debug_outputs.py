"""Files that tell the pods behind fingerprints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.apps.exporter.objects import report

from numakube.apps.exporter.debug_outputs import SAMPLES, StatusFile, StatusRing
from numakube.apps.exporter.report import Report, ReportedPod
from numakube.kube.clock import ManualClock

NODE = "worker-0.example.com"


def with_pod(name: str) -> Report:
    """Return a report about one pod."""
    return replace(report(), pods=(ReportedPod("ns", name, None, None),))


def test_the_last_report_is_one_object(tmp_path: Path) -> None:
    """With the keys that are known; written when it changes."""
    path = tmp_path / "status.json"
    status = StatusFile(path, NODE)
    status.keep(with_pod("a"))
    assert json.loads(path.read_text()) == {
        "fingerprintComputed": "pfp0v001ef46db3751d8e999",
        "pods": [{"Namespace": "ns", "Name": "a"}],
        "nodeName": NODE,
    }
    path.unlink()
    status.keep(with_pod("a"))
    assert not path.exists()
    status.keep(with_pod("b"))
    assert json.loads(path.read_text())["pods"] == [{"Namespace": "ns", "Name": "b"}]
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


async def test_the_last_ten_that_differ_are_kept_with_their_times(
    tmp_path: Path, clock: ManualClock
) -> None:
    """In a file named after the node."""
    ring = StatusRing(tmp_path, NODE, clock)
    for number in range(SAMPLES + 2):
        await clock.advance(1)
        ring.keep(with_pod(f"p{number}"))
        ring.keep(with_pod(f"p{number}"))
    samples = json.loads((tmp_path / "worker-0_example_com").read_text())
    names = [sample["pods"][0]["Name"] for sample in samples]
    assert names == [f"p{number}" for number in range(2, SAMPLES + 2)]
    assert samples[0]["recordTime"].startswith("2026-01-01T00:00:03")


@pytest.mark.parametrize("missing", [True, False])
def test_a_folder_that_cannot_be_written_stops_nobody(
    tmp_path: Path, clock: ManualClock, *, missing: bool
) -> None:
    """Debugging is not worth an exporter."""
    folder = tmp_path / "folder"
    if not missing:
        folder.write_text("a file")
    StatusFile(folder / "file", NODE).keep(with_pod("a"))
    StatusRing(folder, NODE, clock).keep(with_pod("a"))
    assert not (folder / "file").exists()
