"""The plugin's configuration, edited while the plugin runs."""

from __future__ import annotations

import pytest
from packages.sriov.tests.build import pool
from packages.sriov.tests.kubelets import NIC, Plugin, offers
from tests.lab.nodes.build import Lab

from numakube.errors import ConfigError
from numakube.testing import until


async def test_an_edited_configuration_is_taken_without_a_restart(lab: Lab, plugin: Plugin) -> None:
    """Pools come and go; one that stays keeps its socket."""
    plugin.configure(pool("a", {"pfNames": ["ens1f0"]}), pool("b", {"pfNames": ["ens2f0"]}))
    agent = await plugin.start()
    await offers(lab, 2, 2, "intel.com/a")
    await offers(lab, 2, 2, "intel.com/b")
    kept = agent.endpoints["intel.com/b"]

    plugin.configure(pool("c", {"pfNames": ["ens1f0"]}), pool("b", {"pfNames": ["ens2f0#1"]}))

    await offers(lab, 2, 2, "intel.com/c")
    await offers(lab, 2, 0, "intel.com/a")
    await offers(lab, 1, 1, "intel.com/b")
    assert agent.endpoints["intel.com/b"] is kept


async def test_an_edited_config_map_is_taken(lab: Lab, plugin: Plugin) -> None:
    """A kubelet replaces the files of a ConfigMap by turning a link."""
    folder = plugin.bed.root / "volume"
    for number, pf in enumerate(("ens1f0", "ens2f0#0")):
        (folder / f"..{number}").mkdir(parents=True)
        plugin.config_file = folder / f"..{number}" / "config.json"
        plugin.configure(pool(selectors={"pfNames": [pf]}))
    plugin.config_file = folder / "config.json"
    (folder / "..data").symlink_to("..0")
    plugin.config_file.symlink_to("..data/config.json")
    await plugin.start()
    await offers(lab, 2, 2)

    (folder / "..new").symlink_to("..1")
    (folder / "..new").rename(folder / "..data")

    await offers(lab, 1, 1)


async def test_a_broken_configuration_leaves_the_last_one_in_force(
    lab: Lab, plugin: Plugin
) -> None:
    """And says so until it is mended."""
    agent = await plugin.start()
    await offers(lab, 4, 4)

    plugin.config_file.write_text("{")
    await until(lambda: "is not JSON" in agent.config_trouble)
    assert plugin.metric("numakube_sriov_config_valid") == 0
    plugin.bed.pci.remove("0000:3b:01.1")
    await offers(lab, 4, 3)
    plugin.config_file.unlink()
    await until(lambda: "No such file" in agent.config_trouble)
    plugin.configure(pool(selectors={"pfNames": ["ens2f0"]}))
    await offers(lab, 2, 2)
    assert agent.config_trouble == ""
    assert plugin.metric("numakube_sriov_config_valid") == 1


async def test_a_changed_preference_is_announced_again(lab: Lab, plugin: Plugin) -> None:
    """The kubelet asks for a plugin's options when it registers, and never again."""
    plugin.configure(pool(preferredAllocation="none"))
    agent = await plugin.start()
    await offers(lab, 4, 4)
    first = agent.endpoints[NIC]

    plugin.configure(pool(preferredAllocation="packed"))

    await until(lambda: agent.endpoints.get(NIC) not in (None, first))
    await until(plugin.is_followed)
    await offers(lab, 4, 4)


async def test_a_configuration_that_never_made_sense_ends_the_plugin(plugin: Plugin) -> None:
    """With an error, not with success."""
    plugin.config_file.write_text('{"resourceList": [{"resourceName": "a.b"}]}')

    with pytest.raises(ConfigError, match="contains invalid characters"):
        await plugin.start()
