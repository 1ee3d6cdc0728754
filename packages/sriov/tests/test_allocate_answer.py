"""What containers are told, and what is written for runtimes and CNI plugins."""

from __future__ import annotations

import json
from pathlib import Path

from packages.sriov.tests.build import configured, pool

from numakube.api.yaml_text import load_yaml
from numakube.node.host_files import DeviceFile, HostMount, variable_names
from numakube.node.pci.device_files import (
    Description,
    forget_info,
    remove_other_specifications,
    save_info,
    write_specification,
)
from numakube.node.pci.device_pools import PoolSpec
from numakube.node.pci.network_devices import VdpaDevice
from numakube_sriov.pool_plugin import answer


def the(name: str = "nic", prefix: str = "intel.com") -> PoolSpec:
    """Return a pool."""
    (found,) = configured(pool(name, resourcePrefix=prefix)).pools
    return found


def test_variables_are_upstreams_and_ones_that_shells_can_name() -> None:
    """Dots become underscores; hyphens stay, and stand for underscores in a second one."""
    assert variable_names("intel.com/sriov_a") == ("PCIDEVICE_INTEL_COM_SRIOV_A",)
    assert variable_names("my-corp.com/a-b") == (
        "PCIDEVICE_MY-CORP_COM_A-B",
        "PCIDEVICE_MY_CORP_COM_A_B",
    )


def test_info_is_json_as_go_writes_it() -> None:
    """Sorted by key, compact, and escaped for HTML; ids in the order of the request."""
    devices = {
        "b": Description(info={"generic": {"deviceID": "b"}, "extra": {"z": "<&>", "a": "ü"}}),
        "a": Description(info={"generic": {"deviceID": "a"}}),
    }

    envs = answer(the(), devices, use_cdi=False).envs

    assert envs["PCIDEVICE_INTEL_COM_NIC"] == "b,a"
    assert envs["PCIDEVICE_INTEL_COM_NIC_INFO"] == (
        '{"a":{"generic":{"deviceID":"a"}},"b":{"extra":{"a":"ü","z":"\\u003c\\u0026\\u003e"},'
        '"generic":{"deviceID":"b"}}}'
    )


def test_device_files_are_named_once() -> None:
    """By the path on the host, as upstream does; mounts, too."""
    shared, own = DeviceFile("/dev/vfio/vfio", "/dev/vfio/vfio"), DeviceFile("/dev/x", "/dev/y")
    mount = HostMount("/a", "/b")
    devices = {
        "a": Description(nodes=[shared, own], mounts=[mount]),
        "b": Description(nodes=[shared], mounts=[mount]),
    }

    answered = answer(the(), devices, use_cdi=False)

    assert answered.devices == (shared, own)
    assert answered.mounts == (mount,)


def test_a_cdi_specification_has_everything_but_variables(tmp_path: Path) -> None:
    """It is replaced as a whole, and removed when there is nothing to say."""
    node = DeviceFile("/dev/vfio/7", "/dev/vfio/noiommu-7")
    devices = {
        "0000:3b:01.0": Description(nodes=[node], mounts=[HostMount("/c", "/h", read_only=True)])
    }
    folder = tmp_path / "cdi"

    write_specification(folder, the(), devices)

    (path,) = folder.iterdir()
    assert path.name == "sriov-dp-intel.com-net-pci-nic.yaml"
    assert load_yaml(path.read_text(), "cdi") == {
        "cdiVersion": "0.5.0",
        "kind": "intel.com/net-pci",
        "devices": [
            {
                "name": "0000:3b:01.0",
                "containerEdits": {
                    "deviceNodes": [
                        {
                            "path": "/dev/vfio/7",
                            "hostPath": "/dev/vfio/noiommu-7",
                            "permissions": "rw",
                        }
                    ],
                    "mounts": [
                        {"hostPath": "/h", "containerPath": "/c", "options": ["bind", "ro"]}
                    ],
                },
            }
        ],
    }
    before = path.stat().st_ino
    write_specification(folder, the(), devices)
    assert path.stat().st_ino == before
    write_specification(folder, the(), {})
    assert list(folder.iterdir()) == []


def test_pools_of_one_type_have_files_of_their_own(tmp_path: Path) -> None:
    """A container may have devices of several: their names do not collide."""
    for name in ("a", "b"):
        write_specification(tmp_path, the(name), {f"dev-{name}": Description()})
    (tmp_path / "other.yaml").touch()

    remove_other_specifications(tmp_path, [the("b")])

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other.yaml",
        "sriov-dp-intel.com-net-pci-b.yaml",
    ]


def test_device_info_of_rdma_and_vdpa_devices(tmp_path: Path) -> None:
    """In the form of the specification, version 1.1."""
    rdma = Description(rdma=("mlx5_2", "mlx5_3"))
    vhost = Description(vdpa=VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0"))
    virtio = Description(vdpa=VdpaDevice("vdpa1", "virtio"))

    def saved(description: Description) -> object:
        save_info(tmp_path, the(), "0000:3b:01.0", "0000:3b:01.0", description)
        path = tmp_path / "intel.com-nic-0000:3b:01.0-device.json"
        return json.loads(path.read_text())

    assert saved(rdma) == {
        "type": "pci",
        "version": "1.1.0",
        "pci": {"pci-address": "0000:3b:01.0", "rdma-device": "mlx5_2,mlx5_3"},
    }
    assert saved(vhost) == {
        "type": "vdpa",
        "version": "1.1.0",
        "vdpa": {
            "parent-device": "vdpa0",
            "driver": "vhost",
            "path": "/dev/vhost-vdpa-0",
            "pci-address": "0000:3b:01.0",
        },
    }
    assert saved(virtio) == {
        "type": "vdpa",
        "version": "1.1.0",
        "vdpa": {"parent-device": "vdpa1", "driver": "virtio", "pci-address": "0000:3b:01.0"},
    }
    forget_info(tmp_path, the(), "0000:3b:01.0")
    assert list(tmp_path.iterdir()) == []
