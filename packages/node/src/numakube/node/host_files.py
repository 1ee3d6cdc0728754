"""What a container is given of its host's files: mounts and device files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the host that a container sees."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A device file of the host that a container may use; permissions of ``r``, ``w``, ``m``."""

    container_path: str
    host_path: str
    permissions: str = "rw"
