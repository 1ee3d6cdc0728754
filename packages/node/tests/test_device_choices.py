"""How a device plugin chooses, as it tells exporters by files."""

from __future__ import annotations

from pathlib import Path

import pytest

from numakube.node.device_plugin.device_choices import ChoiceFile, PluginChoice, read_choices

NIC = "intel.com/nic"
CHOICE = PluginChoice(NIC, "most-free", (("a0", "a1"), ("b0",)))


def test_what_a_plugin_tells_is_read_while_it_runs(tmp_path: Path) -> None:
    """And what it tells next; nothing once it has taken it back."""
    folder = tmp_path / "numakube"
    file = ChoiceFile(folder, "intel.com_nic")
    assert read_choices(folder) == {}

    file.tell(CHOICE)
    assert read_choices(folder) == {NIC: CHOICE}

    other = PluginChoice(NIC, "packed", (("a0",),))
    file.tell(other)
    assert read_choices(folder) == {NIC: other}

    file.tell(None)
    assert read_choices(folder) == {}
    assert not folder.exists()


def test_a_file_that_nobody_holds_was_left_behind(tmp_path: Path) -> None:
    """Its plugin died, and another may serve the resource; it comes back as itself."""
    ChoiceFile(tmp_path, "intel.com_nic").tell(CHOICE)
    file = tmp_path / "intel.com_nic.json"
    left = file.read_bytes()
    file.unlink()
    file.write_bytes(left)

    assert read_choices(tmp_path) == {}

    again = ChoiceFile(tmp_path, "intel.com_nic")
    again.tell(CHOICE)
    assert read_choices(tmp_path) == {NIC: CHOICE}


@pytest.mark.parametrize(
    "choice",
    [
        PluginChoice(NIC, "by-colour", (("a0",),)),
        PluginChoice(NIC, "most-free", (("a0",),), v=2),
    ],
)
def test_what_is_not_understood_counts_as_not_told(tmp_path: Path, choice: PluginChoice) -> None:
    """A newer plugin may have other rules."""
    file = ChoiceFile(tmp_path, "intel.com_nic")
    file.tell(choice)

    assert read_choices(tmp_path) == {}
