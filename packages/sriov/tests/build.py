"""What tests of the plugin work with: a host that is a folder, and pools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numakube.node.pci.device_pools import Config
from numakube.node.pci.fake_pci import FakePci
from numakube.node.pci.host_scan import Survey, SurveyOptions, look
from numakube.node.pci.pci_discovery import Host
from numakube.node.pci.pool_config import read_config

PREFIX = "intel.com"
ROUTES = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def configured(*pools: dict[str, Any]) -> Config:
    """Return a configuration of *pools* that has to make sense."""
    return read_config(json.dumps({"resourceList": pools}), "config.json", prefix=PREFIX)


def pool(name: str = "nic", selectors: object = None, **keys: Any) -> dict[str, Any]:
    """Return the entry of a pool."""
    return {"resourceName": name, "selectors": {} if selectors is None else selectors, **keys}


@dataclass
class Bed:
    """A host that is a folder: ``sys``, ``dev`` and ``proc``."""

    root: Path
    survey: Survey | None = None
    options: SurveyOptions = field(default_factory=SurveyOptions)

    def __post_init__(self) -> None:
        """Make the folders."""
        self.pci = FakePci(self.root / "sys")
        self.host = Host(sysfs=self.root / "sys", dev=self.root / "dev", proc=self.root / "proc")

    def two_sockets(self, count: int = 2) -> tuple[list[str], list[str]]:
        """Add a physical function on each of two NUMA nodes, with virtual ones."""
        self.pci.pf("0000:3b:00.0", interface="ens1f0", numa_node=0)
        self.pci.pf("0000:af:00.0", interface="ens2f0", numa_node=1)
        return self.pci.vfs("0000:3b:00.0", count), self.pci.vfs("0000:af:00.0", count)

    def device_file(self, path: str) -> None:
        """Add a file below ``/dev``."""
        file = self.root / "dev" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def default_route(self, interface: str) -> None:
        """Let the host's default route go by *interface*."""
        table = self.root / "proc/net/route"
        table.parent.mkdir(parents=True, exist_ok=True)
        rows = (
            f"{interface}\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
            "other\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
        )
        table.write_text(ROUTES + rows)

    def look(self, config: Config, *, now: float = 0.0) -> Survey:
        """Look at the host, once more if that was done before."""
        self.survey = look(config, self.host, self.options, before=self.survey, now=now)
        return self.survey

    def offered(self, config: Config, name: str = "nic") -> list[str]:
        """Return the devices that a pool has after another look."""
        return list(self.look(config).standings[f"{PREFIX}/{name}"])

    def troubles(self, name: str = "nic") -> dict[str, str]:
        """Return what is wrong with devices of a pool as of the last look."""
        assert self.survey is not None
        standings = self.survey.standings[f"{PREFIX}/{name}"]
        return {id_: one.trouble for id_, one in standings.items() if one.trouble}

    def reasons(self, name: str = "nic") -> dict[str, str]:
        """Return why a pool does not have devices as of the last look."""
        assert self.survey is not None
        return dict(self.survey.shares.reasons(f"{PREFIX}/{name}"))
