"""Container Device Interface: how a container learns what its claim has.

A claim has one file, with one device for each of its requests, or for all of them. A runtime keeps
what it has read under a device's name, so a name never stands for anything else: it has the claim's
uid in it. The file stays until the claim is taken back, as containers that restart need it;
``/var/run`` is empty after a reboot, so every Prepare looks again. What a machine that lost its
power kept of a file is looked at in the same way: nobody waits for a disk here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import InvalidValue
from numakube.node.host_files import cdi_edits, device_variables
from numakube.values.names import dns_label
from numakube_dra_driver.ledger import is_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from numakube_dra_driver.ledger import Disk, GivenDevice, PreparedClaim

# The lowest versions that have everything used here, as older runtimes refuse newer ones.
_VERSION: Final = "0.3.0"
_WITH_FILES: Final = "0.5.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDevice:
    """What runtimes know of a claim, or of one of its requests.

    Attributes:
        name: of the device, without its kind.
        variable: the variable that a container gets with it.
        value: what that says.
        given: what is behind it.
    """

    name: str
    variable: str
    value: str
    given: tuple[GivenDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiNames:
    """What files, devices and variables are called.

    Attributes:
        kind: of the devices.
        files: what names of files begin with, before the claim's uid.
        variables: what names of variables begin with that tell of claims.
        devices: those of a claim.
    """

    kind: str
    files: str
    variables: str
    devices: Callable[[PreparedClaim], list[ClaimDevice]]

    def full_names(self, entry: PreparedClaim, given: GivenDevice) -> tuple[str, ...]:
        """Return the names by which a runtime finds the devices that stand for *given*."""
        return tuple(
            f"{self.kind}={device.name}" for device in self.devices(entry) if given in device.given
        )


def _by_request(entry: PreparedClaim) -> list[ClaimDevice]:
    """Return a device for each request."""
    requests: dict[str, list[GivenDevice]] = {}
    for given in entry.results:
        requests.setdefault(given.base_request, []).append(given)
    return [
        ClaimDevice(
            name=f"{entry.uid}-{request}",
            variable=f"NUMAKUBE_CLAIM_{entry.uid}_{request}".replace("-", "_"),
            value=_value(parts),
            given=tuple(parts),
        )
        for request, parts in requests.items()
    ]


def _value(parts: list[GivenDevice]) -> str:
    said = (
        ("cpus", [part.cpus for part in parts]),
        ("numa", [part.near for part in parts]),
        ("mems", [part.mems for part in parts]),
        ("devices", [part.function.id for part in parts if part.function is not None]),
    )
    words = ((word, ",".join(filter(None, texts))) for word, texts in said)
    return ";".join(f"{word}:{text}" for word, text in words if text)


NAMES: Final = CdiNames(
    kind="numakube.dev/claim",
    files="numakube.dev-claim_",
    variables="NUMAKUBE_CLAIM_",
    devices=_by_request,
)


def _whole_claim(entry: PreparedClaim) -> list[ClaimDevice]:
    """Return the one device of a claim, as dra-driver-cpu has it."""
    return [
        ClaimDevice(
            name=f"claim-{entry.uid}",
            variable=f"DRA_CPUSET_{entry.uid}",
            value=str(entry.cpu_set),
            given=entry.results,
        )
    ]


DRA_CPU_NAMES: Final = CdiNames(
    kind="dra.k8s.io/cpu",
    files="dra.k8s.io-cpu_claim-",
    variables="DRA_CPUSET_",
    devices=_whole_claim,
)


def check_names(entry: PreparedClaim) -> None:
    """Refuse names of which no file and no variable may be made.

    Raises:
        InvalidValue: there is one.
    """
    if not is_uid(entry.uid):
        raise InvalidValue(f"{entry.uid!r} is not a uid")
    for result in entry.results:
        if problems := dns_label(result.base_request):
            raise InvalidValue(f"request {result.base_request!r}: {'; '.join(problems)}")


class CdiFiles:
    """The files of claims in the folder that runtimes read."""

    def __init__(self, folder: Path, disk: Disk, names: CdiNames = NAMES) -> None:
        self._folder = folder
        self._disk = disk
        self._names = names

    def write(self, entry: PreparedClaim) -> None:
        """Let the file of a claim be there, and be right.

        Raises:
            OSError: it cannot be written.
        """
        text = specification(entry, self._names)
        write_if_other(self._disk, self._path(entry.uid), text, lasting=False)

    def remove(self, uid: str) -> None:
        """Remove the file of a claim, if there is one.

        Raises:
            OSError: it cannot be removed.
        """
        self._disk.remove(self._path(uid))

    def remove_others(self, uids: Collection[str]) -> None:
        """Remove the files of claims other than *uids*: of calls that were cut short.

        Raises:
            OSError: they cannot be removed.
        """
        for uid in set(self.uids()) - set(uids):
            self.remove(uid)

    def uids(self) -> Iterator[str]:
        """Yield the uids of the claims that have files."""
        prefix = self._names.files
        for path in self._folder.glob(f"{prefix}*.json"):
            yield path.name.removeprefix(prefix).removesuffix(".json")

    def _path(self, uid: str) -> Path:
        return self._folder / f"{self._names.files}{uid}.json"


def specification(entry: PreparedClaim, names: CdiNames = NAMES) -> str:
    """Return the text of a claim's file."""
    return document(names.kind, {one.name: _edits(one) for one in names.devices(entry)})


def _edits(device: ClaimDevice) -> dict[str, Any]:
    """Return what a container gets with a device: variables, and the files of PCI functions."""
    functions = [one.function for one in device.given if one.function is not None]
    variables = {device.variable: device.value}
    for resource in dict.fromkeys(one.resource for one in functions):
        infos = {one.id: one.info for one in functions if one.resource == resource}
        variables |= device_variables(resource, infos)
    for function in functions:
        variables |= function.envs
    nodes = dict.fromkeys(node for one in functions for node in one.nodes)
    mounts = dict.fromkeys(mount for one in functions for mount in one.mounts)
    return {
        "env": [f"{name}={text}" for name, text in variables.items()],
        **cdi_edits(nodes, mounts),
    }


def document(kind: str, edits: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a file with devices of *kind*, and what containers get with each."""
    devices = [{"name": name, "containerEdits": one} for name, one in edits.items()]
    version = _WITH_FILES if any("deviceNodes" in one for one in edits.values()) else _VERSION
    tree = {"cdiVersion": version, "kind": kind, "devices": devices}
    return msgspec.json.encode(tree).decode()


def write_if_other(disk: Disk, path: Path, text: str, *, lasting: bool = True) -> None:
    """Let *path* say *text*; one that says so already is left alone.

    Raises:
        OSError: it cannot be written.
    """
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    disk.write(path, text, mode=0o644, lasting=lasting)
