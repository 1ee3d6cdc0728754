"""Machines that people have, and devices of theirs that are left to pair."""

from __future__ import annotations

from hypothesis import strategies as st

from numakube.kubelet.machine import Device

MACHINES = {
    "dgx-h100": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "dgx-h200": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "dgx-b200": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "hgx-b200": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "gb300": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "mi300x": ("amd.com/gpu", "amd.com/nic"),
    "mi300x-8": ("amd.com/gpu", "amd.com/nic"),
    "telco-2s": ("intel.com/acc100", "intel.com/sriov"),
}
"""By name the two resources whose devices belong together."""


def free(data: st.DataObject, devices: tuple[Device, ...]) -> list[Device]:
    """Draw the devices that are left, anywhere on the machine."""
    return data.draw(st.lists(st.sampled_from(devices), min_size=1, max_size=6, unique=True))
