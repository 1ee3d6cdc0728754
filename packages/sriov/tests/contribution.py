"""What tests of the whole know of the device plugin; see `tests.annexes.contributions`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from numakube.apps.host.program import load_program
from numakube_sriov.manifest import SriovManifest
from numakube_sriov.metrics import SriovMetrics

if TYPE_CHECKING:
    from tests.apps.test_endpoints import Scene

MODULE_CEILINGS = {"sriov": 79}
METRICS = {"sriov": SriovMetrics}
METRIC_TITLES = {"sriov": "SR-IOV device plugin"}
METRIC_UNITS = {
    "numakube_sriov_registered": "0 or 1",
    "numakube_sriov_config_valid": "0 or 1",
}
FLAVOURS = {"sriov cdi": lambda: SriovManifest(use_cdi=True).objects()}
AS_ROOT = {"sriov": "the kubelet's sockets", "sriov cdi": "the kubelet's sockets"}


async def _sriov(scene: Scene, stop: asyncio.Event) -> object:
    config = scene.folder / "config.json"
    config.write_text(json.dumps({"resourceList": [{"resourceName": "a", "selectors": [{}]}]}))
    more = (
        f"--config-file={config}",
        scene.address,
        f"--sysfs={scene.folder}",
        *scene.certificate(),
    )
    return await load_program("sriov").perform(more, scene.around, stop)


SERVERS = {"sriov": _sriov}
