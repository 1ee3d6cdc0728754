"""What a host says of its kubelet: configuration files, flags in units, state files, the machine.

    host = read_host(Path("/"))

Nothing of the kubelet has to run: this is what it will read when it starts the next time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numakube.api.checkpoints import CPU_STATE, DEVICE_STATE, MEMORY_STATE
from numakube.api.kubelet_config import flags_in, merged, read_source, with_defaults
from numakube.errors import ConfigError
from numakube.kubelet.state_files import StateFiles
from numakube.node.bounded_files import read_regular_file
from numakube.node.sysfs_machine import read_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.kubelet_config import KubeletConfiguration, KubeletSource
    from numakube.kubelet.machine import Machine

# In the order in which systemd reads them; kubeadm's unit names its own file before that of users.
_FLAG_FILES: Final = (
    "lib/systemd/system/kubelet.service",
    "usr/lib/systemd/system/kubelet.service",
    "etc/systemd/system/kubelet.service",
    "lib/systemd/system/kubelet.service.d/*.conf",
    "usr/lib/systemd/system/kubelet.service.d/*.conf",
    "etc/systemd/system/kubelet.service.d/*.conf",
    "var/lib/kubelet/kubeadm-flags.env",
    "etc/default/kubelet",
    "etc/sysconfig/kubelet",
)
_PACKAGES: Final = "var/lib/dpkg/status"
_KUBELET_PACKAGE: Final = re.compile(
    rb"^Package: kubelet\n(?:.+\n)*?Version: (?:\d+:)?(?P<version>[\d.]+)", re.MULTILINE
)
_DEFAULT_CONFIG: Final = "/var/lib/kubelet/config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKubelet:
    """The kubelet of a host, as it would start now.

    Attributes:
        config: with the kubelet's defaults filled in.
        state: its state files; their folder is ``root_dir``.
        files: what the configuration was read from.
        arguments: the command line, as far as files have it.
        version: of the installed package, such as ``1.35.2``; empty if that is not known.
    """

    config: KubeletConfiguration
    machine: Machine
    state: StateFiles
    root_dir: str
    files: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    version: str = ""


def files_in(path: str) -> list[str]:
    """Return *path* itself, or the files that count in a folder.

    Of drop-ins the kubelet reads ``*.conf`` in all folders below, by name; of patches kubeadm
    reads ``kubeletconfiguration*``, by name.

    Raises:
        ConfigError: a folder has neither.
    """
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    found = sorted(folder.rglob("*.conf")) or sorted(folder.glob("kubeletconfiguration*"))
    if not found:
        raise ConfigError(
            f"{path}: neither drop-ins (*.conf) nor patches of kubeadm (kubeletconfiguration*)"
        )
    return list(map(str, found))


def read_host(root: Path) -> HostKubelet:
    """Return the kubelet of the host whose root folder is *root*.

    Raises:
        ConfigError: it has no configuration, or one that cannot be read.
    """
    read = dict(_read(path) for path in _flag_files(root))
    flags = flags_in(read.values())
    if flags.config or (root / _DEFAULT_CONFIG.lstrip("/")).exists():
        read |= [_read(_inside(root, flags.config or _DEFAULT_CONFIG))]
    if flags.config_dir:
        read |= [_read(Path(file)) for file in files_in(str(_inside(root, flags.config_dir)))]
    if not read:
        raise ConfigError(f"{root}: there is no configuration of a kubelet below this folder")
    return HostKubelet(
        config=with_defaults(merged(read.values())),
        machine=read_machine(root / "sys"),
        state=_state(_inside(root, flags.root_dir)),
        root_dir=flags.root_dir,
        files=tuple(read),
        arguments=tuple(argument for source in read.values() for argument in source.arguments),
        version=_package_version(root),
    )


def _package_version(root: Path) -> str:
    """Return the version of Debian's package of the kubelet; empty if there is none."""
    try:
        packages = read_regular_file(root / _PACKAGES)
    except OSError:
        return ""
    found = _KUBELET_PACKAGE.search(packages)
    return found["version"].decode() if found else ""


def _flag_files(root: Path) -> Iterator[Path]:
    for pattern in _FLAG_FILES:
        yield from sorted(path for path in root.glob(pattern) if path.is_file())


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _read(path: Path) -> tuple[str, KubeletSource]:
    try:
        text = read_regular_file(path).decode()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    return str(path), read_source(text, str(path))


def _state(folder: Path) -> StateFiles:
    return StateFiles(
        cpu=_content(folder / CPU_STATE),
        memory=_content(folder / MEMORY_STATE),
        devices=_content(folder / DEVICE_STATE),
    )


def _content(path: Path) -> bytes | None:
    """Return what is in a file; ``None`` if it is not there.

    Raises:
        ConfigError: it is there, and cannot be read: what follows from it is not known.
    """
    try:
        return read_regular_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
