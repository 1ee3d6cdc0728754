"""What is deployed of the plugin."""

from __future__ import annotations

from tests.manifests.test_files import is_up_to_date, namespace

from numakube.node.pci.pool_config import read_config
from numakube_sriov.manifest import SriovManifest


def test_the_sriov_file_is_up_to_date() -> None:
    """With two pools as an example, which the plugin takes as they are."""
    manifest = SriovManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("sriov.yaml", documents)
    text = manifest.config_map()["data"]["config.json"]
    config = read_config(text, "config.json", prefix="intel.com")
    assert [pool.resource for pool in config.pools] == [
        "intel.com/sriov_netdevice",
        "intel.com/sriov_dpdk",
    ]
    assert config.remarks == ()
