"""Reading configurations: upstream's as they are, and mistakes told by pool and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.sriov.tests.build import configured, pool

from numakube.errors import ConfigError
from numakube.kubelet.preferred_allocation import Preference
from numakube.node.pci.device_pools import DeviceType
from numakube.node.pci.pool_config import read_config, read_config_file


def read(text: str, subject: str = "c.json") -> Any:
    """Read a configuration."""
    return read_config(text, subject, prefix="intel.com")


def complaints(*pools: Any) -> str:
    """Return what is said of a configuration that is refused."""
    with pytest.raises(ConfigError) as refused:
        configured(*pools)
    return str(refused.value)


def remarks(*pools: Any) -> list[str]:
    """Return what is said of a configuration that is taken."""
    return [str(remark) for remark in configured(*pools).remarks]


def test_every_key_of_upstream_is_taken() -> None:
    """In a pool with everything that a network device can be asked for."""
    selectors = {
        "vendors": ["8086"],
        "devices": ["154c", "10ed"],
        "drivers": ["i40evf", "iavf"],
        "pciAddresses": ["0000:03:02.0"],
        "acpiIndexes": ["101"],
        "pfNames": ["enp0s0f0", "enp2s2f1#0,3-5"],
        "rootDevices": ["0000:86:00.0#0-2"],
        "linkTypes": ["ether"],
        "ddpProfiles": ["GTPv1-C/U IPv4/IPv6 payload"],
        "pKeys": ["0xffff"],
        "isRdma": False,
        "needVhostNet": True,
        "vdpaType": "vhost",
    }
    entry = pool(
        "intel_sriov_dpdk",
        [selectors, {"isRdma": True}],
        resourcePrefix="example.com",
        deviceType="netDevice",
        excludeTopology=True,
        additionalInfo={"*": {"token": "x"}, "0000:03:02.0": {"token": "y"}},
    )

    config = configured(entry)

    (found,) = config.pools
    assert config.remarks == ()
    assert found.resource == "example.com/intel_sriov_dpdk"
    assert found.exclude_topology
    assert found.additional_info == {"*": {"token": "x"}, "0000:03:02.0": {"token": "y"}}
    first, second = found.selectors
    assert first.devices == ("154c", "10ed")
    assert first.pf_names[1].spans == ((0, 0), (3, 5))
    assert first.vdpa_type == "vhost"
    assert second.is_rdma


def test_keys_may_be_written_in_any_case_and_the_last_wins() -> None:
    """As Go reads them; null is as if nothing were said."""
    config = read(
        '{"RESOURCELIST": [{"resourcename": "a", "resourceName": "b", "deviceType": null,'
        ' "Selectors": {"VENDORS": ["8086", null], "vendors": null, "drivers": null}}]}'
    )

    (found,) = config.pools
    assert found.name == "b"
    assert found.type is DeviceType.NETWORK
    assert found.selectors[0].vendors == ("8086", "")


def test_the_same_in_yaml() -> None:
    """For those who prefer it."""
    config = read("resourceList:\n- resourceName: a\n  selectors: {vendors: ['8086']}\n", "c.yaml")

    assert config.pools == configured(pool("a", {"vendors": ["8086"]})).pools


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "{",
            "c.json: is not JSON: Expecting property name enclosed in double quotes (line 1, col",
        ),
        ("", "c.json: is not JSON: Expecting value (line 1, column 1)"),
        ("[]", "c.json: must be an object, not []"),
        ('{"resourceList": {}}', "c.json: resourceList: must be a list, not {}"),
        ('{"resourceList": [1]}', "c.json: resourceList[0]: must be an object, not 1"),
        ("[" * 100_000, "c.json: is nested too deeply"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(text: str, complaint: str) -> None:
    """With the place of the mistake."""
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert str(refused.value).startswith(complaint)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or not text."""
    with pytest.raises(ConfigError, match=r"no\.json: No such file or directory"):
        read_config_file(tmp_path / "no.json", prefix="p")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"x\.json: is not UTF-8"):
        read_config_file(tmp_path / "x.json", prefix="p")


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (pool(""), "resourceList[0]: resourceName: missing"),
        (pool("a.b"), 'pool intel.com/a.b: resourceName: resource name "a.b" contains invalid'),
        (pool("-a"), "pool intel.com/-a: resourceName: the kubelet would refuse a resource called"),
        (pool("a", resourcePrefix="kubernetes.io"), "the kubelet would refuse a resource called"),
        (pool("a", deviceType="gpu"), 'pool intel.com/a: deviceType: unsupported "gpu"'),
        ({"resourceName": 3}, "resourceList[0]: resourceName: must be a string, not 3"),
        (pool("a", excludeTopology="yes"), "pool intel.com/a: excludeTopology: must be true or"),
        (
            pool("a", {"isRdma": True, "vdpaType": "vhost"}),
            "pool intel.com/a: selectors: vdpaType and isRdma are mutually exclusive",
        ),
        (
            pool("a", deviceType="auxNetDevice"),
            "pool intel.com/a: selectors: auxTypes: not specified",
        ),
        (
            pool("a", [{"auxTypes": ["eth"]}], deviceType="auxNetDevice"),
            "pool intel.com/a: selectors[0]: auxTypes: 'eth': only 'sf' is supported",
        ),
        (
            pool("a", preferredAllocation="best"),
            'pool intel.com/a: preferredAllocation: unknown "best"; there are most-free, packed,',
        ),
        (
            pool("a", additionalInfo={"*": {"x": 1}}),
            "pool intel.com/a: additionalInfo.*.x: must be a string, not 1",
        ),
    ],
)
def test_mistakes_that_upstream_refuses_are_refused(entry: Any, complaint: str) -> None:
    """The pool and the key are named."""
    assert complaint in complaints(entry)


def test_all_mistakes_are_told_at_once() -> None:
    """And the same name twice is one."""
    said = complaints(pool("a"), pool("a"), pool("b", deviceType="x"), pool("c!"))

    assert 'pool intel.com/a: resourceName: resource name "intel.com/a" already exists' in said
    assert "pool intel.com/b: deviceType" in said
    assert "pool intel.com/c!: resourceName" in said


def test_the_same_name_with_another_prefix_is_another_pool() -> None:
    """Names are compared with their prefixes."""
    config = configured(pool("a"), pool("a", resourcePrefix="nvidia.com"))

    assert [one.resource for one in config.pools] == ["intel.com/a", "nvidia.com/a"]


@pytest.mark.parametrize(
    ("entry", "remark"),
    [
        ({"resourceName": "a"}, "selectors: missing; write {} to select every device of the type"),
        (pool("a", []), "selectors: need at least one selector, got 0"),
        (pool("a", [1]), "selectors[0]: must be an object, not 1"),
        (pool("a", {"vendors": "8086"}), 'selectors: vendors: must be a list, not "8086"'),
        (pool("a", {"vendors": [8086]}), "selectors: vendors[0]: must be a string, not 8086"),
        (pool("a", {"isRdma": "true"}), 'selectors: isRdma: must be true or false, not "true"'),
        (pool("a", deviceType="pciDevice"), "selectors: a pciDevice pool needs classes, vendors,"),
        (
            {"resourceName": "a", "deviceType": "staticDevice"},
            "devices: a staticDevice pool needs at least one",
        ),
    ],
)
def test_a_pool_that_cannot_be_read_is_left_out_and_the_others_work(
    entry: Any, remark: str
) -> None:
    """Upstream crashes on the first of these."""
    config = configured(entry, pool("b"))

    assert [one.name for one in config.pools] == ["b"]
    (found,) = config.remarks
    assert found.skipped
    assert str(found).startswith(f"pool intel.com/a: {remark}")
    assert str(found).endswith("; it is left out")


@pytest.mark.parametrize(
    ("entry", "remark"),
    [
        (
            pool("a", excludeTopolgy=True),
            "pool intel.com/a: unknown key 'excludeTopolgy' is ignored (is 'excludeTopology'",
        ),
        (
            pool("a", {"vendor": ["8086"]}),
            "pool intel.com/a: selectors: unknown key 'vendor' is ignored (is 'vendors' meant?)",
        ),
        (
            pool("a", {"pfNames": ["x"]}, deviceType="accelerator"),
            "pool intel.com/a: selectors: unknown key 'pfNames' is ignored",
        ),
        (
            pool("a", {"vendors": ["0x8086"]}),
            "pool intel.com/a: selectors: vendors: '0x8086' can never match: write 4 hexadecimal",
        ),
        (
            pool("a", {"pfNames": ["x#1,b"]}),
            "pool intel.com/a: selectors: pfNames: 'x#1,b': 'b' is not a number or a range",
        ),
        (
            pool("a", {"linkTypes": ["ether", "infiniband"]}),
            "pool intel.com/a: selectors: linkTypes: should have a single value",
        ),
    ],
)
def test_what_is_odd_is_remarked_upon(entry: Any, remark: str) -> None:
    """The pool works all the same, as it does upstream."""
    config = configured(entry)

    assert len(config.pools) == 1
    assert str(config.remarks[0]).startswith(remark)


def test_an_empty_configuration_is_one_that_is_to_be_filled_yet() -> None:
    """It may be edited while the plugin runs."""
    assert remarks() == ["config.json: resourceList has no pools"]
    assert read("{}").pools == ()


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ({"id": ""}, "devices[0]: id: '': must have at most 63 letters"),
        ({"id": "a b"}, "devices[0]: id: 'a b': must have"),
        ({"id": "a", "numaNode": "0"}, "devices[0]: numaNode: must be a number"),
        ({"id": "a", "numaNode": 0, "numaNodes": [1]}, "numaNode and numaNodes are mutually"),
        ({"id": "a", "numaNodes": ["x"]}, "numaNodes: 'x' is not a number"),
        ({"id": "a", "count": 10**9}, "devices[0]: count: must be a number of 1 to 4096"),
        ({"id": "a", "deviceNodes": ["dev/x"]}, "hostPath: 'dev/x' is not an absolute path"),
        ({"id": "a", "deviceNodes": [{"hostPath": "/x", "permissions": "q"}]}, "permissions: 'q'"),
        ({"id": "a", "numanod": 1}, "devices[0]: unknown key 'numanod' (is 'numaNode' meant?)"),
        ("a", 'devices[0]: must be an object, not "a"'),
    ],
)
def test_static_devices_are_checked(device: Any, complaint: str) -> None:
    """They are ours alone, so that every mistake is one."""
    entry = {"resourceName": "s", "deviceType": "staticDevice", "devices": [device]}

    said = complaints(entry)

    assert said.startswith("config.json: pool intel.com/s: devices[0]")
    assert complaint in said


def test_the_same_static_device_twice_is_a_mistake() -> None:
    """Also by its count."""
    devices = [{"id": "a1"}, {"id": "a", "count": 2}]
    entry = {"resourceName": "s", "deviceType": "staticDevice", "devices": devices}

    assert "devices[1]: id: 'a1' already exists" in complaints(entry)


def test_our_own_keys() -> None:
    """How to prefer devices, and whether to mind links."""
    (found,) = configured(pool("a", preferredAllocation="spread", checkLink=False)).pools

    assert found.preference is Preference.SPREAD
    assert found.check_link is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["vendors", "pfNames", "isRdma", "id", "selectors", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
ENTRY = st.dictionaries(
    st.sampled_from(
        ["resourceName", "selectors", "deviceType", "devices", "additionalInfo", "resourcePrefix"]
    ),
    JSON | st.sampled_from(["nic", *DeviceType]),
)


@given(st.lists(ENTRY | JSON, max_size=3))
def test_whatever_is_written_is_taken_or_refused_with_a_text(entries: list[Any]) -> None:
    """Nothing makes the reader fail otherwise."""
    said = ""
    try:
        read(json.dumps({"resourceList": entries}))
    except ConfigError as refused:
        said = str(refused)
    assert not said or said.startswith("c.json: ")
