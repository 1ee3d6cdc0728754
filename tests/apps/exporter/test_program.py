"""``numakube run exporter`` as a program of its own."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest
from tests.apps.own_process import MEGABYTE, fetch, logged, own_process, peak_of

from numakube.cli.main import run
from numakube.kubelet.machines.shape_text import from_shape
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node, which knows the objects and exports nothing."""
    plans = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        yield site


async def test_it_runs_serves_and_ends_when_told(site: Site) -> None:
    """In less than 60 MB, and every line of its log is an event."""
    sockets = site.crew.pool.sockets("node-0")
    assert sockets is not None
    node = await site.crew.pool.folder("node-0")
    args = (
        *("--kubeconfig", str(site.kubeconfig), "--hostname", "node-0"),
        *("--sysfs", str(node / "sys"), "--kubelet-state-dir", str(node)),
        *("--podresources-socket", str(sockets.pod_resources)),
        *("--kubelet-config-file", str(node / "config.yaml")),
        *("--metrics-port", "0"),
    )
    async with own_process("exporter", *args) as process:
        url = (await logged(process, "serving"))["url"]
        await logged(process, "object_written")
        assert await fetch(f"{url}/readyz") == (200, "ok")
        status, text = await fetch(f"{url}/metrics")
        assert status == 200
        assert (
            'rte_noderesourcetopology_writes_total{node="node-0",operation="create",'
            'trigger="reactive"} 1.0' in text
        )
        assert 'numakube_exporter_wakeups_total{trigger="start"} 1.0' in text
        assert peak_of(process.pid) < 60 * MEGABYTE
        await site.crew.pool.kill("node-0")
        await logged(process, "kubelet_away")
        status, text = await fetch(f"{url}/readyz")
        assert status == 503
        assert "kubelet" in text
        process.send_signal(signal.SIGTERM)
        await logged(process, "exporter_ended")
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (("--sleep-interval", "soon"), 2, "time: invalid duration"),
        (("--no-kubelet",), 2, "--no-kubelet goes with --dry-run only"),
        (("--kubeconfig", "/nowhere"), 1, "/nowhere"),
        (("--dry-run", "--podresources-socket", "tcp://x"), 1, 'protocol "tcp" not supported'),
    ],
)
def test_a_mistake_in_the_command_line_is_one_line(
    args: tuple[str, ...], code: int, complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And exit code 2 for wrong usage, 1 for what cannot work."""
    assert run(["exporter", "--log-level", "error", *args], program="numakube") == code
    error = capfd.readouterr().err
    assert complaint in error
    assert "Traceback" not in error
