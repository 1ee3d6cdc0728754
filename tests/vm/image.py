"""The disk of a guest, made of Debian packages without root, and kept until its recipe changes."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.vm import guest
from tests.vm.programs import Missing, search_path

PACKAGES: Final = {
    "mmdebstrap": "mmdebstrap",
    "genext2fs": "genext2fs",
    "mke2fs": "e2fsprogs",
    "resize2fs": "e2fsprogs",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
if os.geteuid() != 0:
    PACKAGES["newuidmap"] = "uidmap"
CACHE: Final = Path(os.environ.get("NUMAKUBE_VM_CACHE", ".vm")).absolute()
DISK_SIZE: Final = "4G"
FEATURES: Final = "has_journal,extent,dir_index,filetype"
"""What makes of an ext2 something that overlayfs can work on, without a long check."""
_EXECUTABLE: Final = ("usr/local/bin/numakube",)
_EXTRAS: Final = ("exporter", "sriov", "enforcer", "scheduler")


@dataclass(frozen=True, slots=True)
class Image:
    """A disk to boot from; it is never written to, guests have an overlay each.

    Attributes:
        folder: where its parts are.
        key: the private half of the key that its root lets in.
    """

    folder: Path
    key: Path

    @property
    def disk(self) -> Path:
        """The root file system."""
        return self.folder / "root.ext4"

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return _only(self.folder / "boot", "vmlinuz-*")

    @property
    def initrd(self) -> Path:
        """What loads the drivers of the disk."""
        return _only(self.folder / "boot", "initrd.img-*")

    @property
    def python(self) -> Path:
        """A layer with Python and what numakube imports, for container images."""
        return self.folder / "python.tar"

    @property
    def busybox(self) -> Path:
        """A shell and its commands in one file that needs no other, for container images."""
        return self.folder / "busybox"


def image() -> Image:
    """Return the image of the recipe as it is now; it is built if there is none yet."""
    key = _key(CACHE)
    folder = CACHE / _digest(key)
    found = Image(folder, key)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.disk.exists():
            _say(
                f"building a Debian {guest.SUITE} image, which takes a few minutes, once: {folder}"
            )
            unfinished = folder.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            _build(unfinished, key)
            unfinished.rename(folder)
    return found


def _digest(key: Path) -> str:
    """Return what changes with everything that an image is made of."""
    here = Path()
    recipe = [
        list(map(str, _mmdebstrap(here, early=here, late=here, libraries=here, out=here))),
        dict(guest.EARLY_FILES),
        dict(guest.LATE_FILES),
        DISK_SIZE,
        FEATURES,
        _requirements(),
        key.with_suffix(".pub").read_text(),
    ]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def _build(folder: Path, key: Path) -> None:
    late = {**guest.LATE_FILES, "root/.ssh/authorized_keys": key.with_suffix(".pub").read_text()}
    libraries = folder / "libraries"
    _install_libraries(libraries)
    early_tar, late_tar = folder / "early.tar", folder / "late.tar"
    early_tar.write_bytes(tar_of(guest.EARLY_FILES))
    late_tar.write_bytes(tar_of(late, executable=_EXECUTABLE))
    disk, raw = folder / "root.ext4", folder / "root.ext2"
    _run(_mmdebstrap(raw, early=early_tar, late=late_tar, libraries=libraries, out=folder))
    raw.rename(disk)
    _run(["e2fsck", "-fy", disk], accepted=(0, 1))
    _run(["resize2fs", disk, DISK_SIZE])
    _run(["tune2fs", "-O", FEATURES, disk])
    _run(["e2fsck", "-fy", disk], accepted=(0, 1))
    shutil.rmtree(libraries)


def _mmdebstrap(
    disk: Path, *, early: Path, late: Path, libraries: Path, out: Path
) -> list[str | Path]:
    inside = 'chroot "$1" '
    excluded = " ".join(f"--exclude={name}" for name in guest.NOT_PYTHON)
    hooks = [
        f"tar-in {late} /",
        f"sync-in {libraries} {guest.LIBRARIES}",
        f"{inside} python3 -m compileall -q {guest.LIBRARIES} || true",
        *(f"{inside} systemctl enable {name}" for name in guest.ENABLED),
        *(f"{inside} systemctl mask {name}" for name in guest.MASKED),
        f"{inside} tar -cf /python.tar -C / {excluded} {' '.join(guest.PYTHON_FILES)}",
        f"download /python.tar {out}/python.tar",
        'rm "$1"/python.tar',
        f"copy-out /boot {out}",
        f"download /usr/bin/busybox {out}/busybox",
    ]
    return [
        "mmdebstrap",
        "--variant=minbase",
        "--format=ext2",
        f"--include={','.join(guest.PACKAGES)}",
        f"--essential-hook=mkdir -p $1{guest.LIBRARIES}",
        f"--essential-hook=tar-in {early} /",
        *(f"--dpkgopt=path-exclude={path}" for path in guest.LEFT_OUT),
        "--dpkgopt=force-confold",
        *(f"--customize-hook={hook}" for hook in hooks),
        guest.SUITE,
        disk,
    ]


def _install_libraries(folder: Path) -> None:
    """Get what numakube imports, for the Python of the guest."""
    platforms = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    _run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder),
            *("--python-version", "3.13", "--only-binary=:all:"),
            *(part for name in platforms for part in ("--platform", name)),
            *("-c", "constraints.txt"),
            *_requirements(),
        ]
    )


def _requirements() -> list[str]:
    """Return what numakube's components need, from its own description."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return sorted({*project["dependencies"], *(one for name in _EXTRAS for one in optional[name])})


def tar_of(files: Mapping[str, str | bytes], *, executable: Sequence[str] = ()) -> bytes:
    """Return an archive of *files*, which belong to root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in sorted(files.items()):
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            entry.mode = 0o755 if path in executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _key(folder: Path) -> Path:
    key = folder / "id"
    if not key.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
    return key


def _run(command: Sequence[str | Path], *, accepted: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(  # noqa: S603 - the developer's own
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": search_path()},
        text=True,
    )
    if done.returncode not in accepted:
        raise Missing(f"{command[0]} failed:\n{done.stdout[-3000:]}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
