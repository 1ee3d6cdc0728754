"""The command line, and what a dry run prints."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from packages.sriov.tests.build import Bed, pool

from numakube.api.yaml_text import load_yaml
from numakube.apps.host.process_life import Surroundings
from numakube_sriov.process import PROGRAM


async def printed(bed: Bed, *flags: str, pools: tuple[Any, ...]) -> str:
    """Return what a dry run on *bed* prints."""
    config = bed.root / "config.json"
    config.write_text(json.dumps({"resourceList": pools}))
    places = [
        f"--{name}={bed.root / path}"
        for name, path in (("sysfs", "sys"), ("dev", "dev"), ("proc", "proc"))
    ]
    line = ("--dry-run", f"--config-file={config}", *places, *flags)
    out: list[str] = []
    around = Surroundings(env={}, echo=out.append)
    assert await PROGRAM.perform(line, around, asyncio.Event()) == 0
    return "\n".join(out)


@pytest.mark.parametrize(
    "words",
    [
        ("--config-file", "/c", "--resource-prefix", "p", "--use-cdi", "--log-level=10"),
        ("-config-file", "/c", "-resource-prefix=p", "-use-cdi", "-v", "5", "-logtostderr"),
        ("--config-file=/c", "--resource-prefix=p", "--use-cdi", "--log-dir=sriovdp", "-v=4"),
        (
            *("-config-file=/c", "-resource-prefix", "p", "-use-cdi=true", "-alsologtostderr"),
            *("-log_dir=/x", "-stderrthreshold=INFO", "-vmodule=a=1", "-v=10"),
        ),
    ],
)
def test_upstreams_flags_are_taken(words: tuple[str, ...]) -> None:
    """With one dash or two, with values of their own or after an equals sign."""
    flags = PROGRAM.parse(words)

    assert flags["config_file"] == "/c"
    assert flags["prefix"] == "p"
    assert flags["use_cdi"] is True
    assert flags["log_level"] == "debug"


def test_a_switch_can_be_said_to_be_off() -> None:
    """As in Go, where a switch may have a value."""
    assert PROGRAM.parse(("-use-cdi=false", "-logtostderr=false"))["use_cdi"] is False


def test_the_environment_sets_what_flags_do_not() -> None:
    """Flags win."""
    env = {"SRIOV_CONFIG_FILE": "/env.json", "SRIOV_USE_CDI": "true"}
    settings = PROGRAM.read({"config_file": "/flag.json"}, Surroundings(env=env))

    assert settings.config_file == "/flag.json"
    assert settings.use_cdi is True
    assert settings.prefix == "intel.com"


async def test_a_dry_run_is_a_table_with_numa_nodes(bed: Bed) -> None:
    """A device a line, and a summary of every pool."""
    bed.two_sockets(1)
    bed.pci.interface("0000:af:00.0", "ens2f0", operstate="down")

    text = await printed(bed, pools=(pool(), pool("none", {"vendors": ["15b3"]})))

    assert text == (
        "RESOURCE       DEVICE        NUMA  DRIVER  PF      VF  LINK   HEALTH\n"
        "intel.com/nic  0000:3b:01.0  0     iavf    ens1f0  0   ether  Healthy\n"
        "intel.com/nic  0000:af:01.0  1     iavf    ens2f0  0   ether  "
        "Unhealthy: physical function ens2f0 (0000:af:00.0) has no link\n"
        "\n"
        "intel.com/nic: 2 devices (NUMA 0: 1, NUMA 1: 1), 1 unhealthy\n"
        "intel.com/none: no devices; --explain tells why"
    )


async def test_a_dry_run_explains_what_is_not_offered(bed: Bed) -> None:
    """One line for each device that a pool has looked at."""
    bed.two_sockets(1)
    bed.pci.bind("0000:af:01.0", "")

    text = await printed(bed, "--explain", pools=(pool(), pool("second")))

    assert text.partition("DEVICE        POOL")[2].splitlines()[1:] == [
        "0000:3b:00.0  intel.com/nic     is a physical function with 1 virtual functions",
        "0000:3b:00.0  intel.com/second  is a physical function with 1 virtual functions",
        "0000:3b:01.0  intel.com/second  pool intel.com/nic has it already",
        "0000:af:00.0  intel.com/nic     is a physical function with 1 virtual functions",
        "0000:af:00.0  intel.com/second  is a physical function with 1 virtual functions",
        "0000:af:01.0  intel.com/nic     has no driver",
        "0000:af:01.0  intel.com/second  has no driver",
    ]


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_a_dry_run_for_programs(bed: Bed, form: str) -> None:
    """The same, with device files and what containers are told."""
    near, _ = bed.two_sockets(1)
    bed.pci.bind(near[0], "vfio-pci")
    bed.pci.iommu_group(near[0], 5)
    only = pool(selectors={"drivers": ["vfio-pci"], "x": 1})

    text = await printed(bed, "-o", form, "--explain", pools=(only,))

    tree: Any = load_yaml(text, "out")
    (device,) = tree["pools"][0]["devices"]
    assert device["id"] == near[0]
    assert device["numaNodes"] == [0]
    assert device["deviceNodes"] == ["/dev/vfio/vfio", "/dev/vfio/5"]
    assert device["info"]["vfio"]["dev-mount"] == "/dev/vfio/5"
    assert {entry["device"] for entry in tree["notOffered"]} == {
        "0000:3b:00.0",
        "0000:af:00.0",
        "0000:af:01.0",
    }
    assert tree["warnings"] == ["pool intel.com/nic: selectors: unknown key 'x' is ignored"]


async def test_a_host_without_a_pci_bus_is_told(tmp_path: Path) -> None:
    """As in some containers."""
    bed = Bed(tmp_path)
    (tmp_path / "sys/bus/pci/devices").rmdir()

    text = await printed(bed, pools=(pool(),))

    assert "sys/bus/pci/devices: No such file or directory" in text
