"""What programs in containers can read about the devices of their claims (KEP-5304).

Each request of a claim has a file with the attributes of its devices, which is mounted into the
containers that have the request. Places, names and form are those of Kubernetes' own library
(``kubeletplugin`` 1.37): a stream of JSON documents, the newest version first. Besides what slices
say, there is what the claim has: which CPUs, and which NUMA nodes its memory comes from.

CNI plugins are told of network functions in files, too, in the form of the Network Plumbing Working
Group's device information specification, as device plugins do: by pool and address.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from numakube.api.codec import to_tree
from numakube.node.host_files import info_file
from numakube.values.resources import CPU
from numakube_dra_driver.cdi import document, write_if_other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from numakube.api.resource_slices import Device, DeviceAttribute
    from numakube_dra_driver.ledger import Disk, GivenDevice, PreparedClaim

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

VERSIONS: Final = ("v1beta1", "v1alpha1")
FOLDER: Final = "dra-device-metadata"
INSIDE: Final = "/var/run/kubernetes.io/dra-device-attributes"
"""Where containers find the files."""
_GROUP: Final = "metadata.resource.k8s.io"
_LONGEST_TEXT: Final = 64
_CPUSET_DOMAINS: Final = ("numakube.dev", "dra.cpu")


class MetadataFiles:
    """The files about devices in the driver's own folder, and those that mount them."""

    def __init__(
        self,
        driver: str,
        disk: Disk,
        *,
        folder: Path,
        cdi_folder: Path,
        devices: Callable[[], Mapping[str, Device]],
    ) -> None:
        """Prepare.

        Args:
            driver: whose devices they are.
            disk: writes.
            folder: of the driver, in the kubelet's.
            cdi_folder: where runtimes look.
            devices: what is offered, by name.
        """
        self._driver = driver
        self._disk = disk
        self._folder = folder / FOLDER
        self._cdi = cdi_folder
        self._devices = devices

    def full_name(self, entry: PreparedClaim, request: str) -> str:
        """Return the name by which a runtime finds what mounts the file of a request."""
        return f"{self._driver}/metadata={entry.uid}_{request}"

    def write(self, entry: PreparedClaim) -> None:
        """Let the files of a claim be there, and be right.

        Raises:
            OSError: they cannot be written.
        """
        mounts: dict[str, dict[str, Any]] = {}
        for request in dict.fromkeys(given.base_request for given in entry.results):
            path = self._claim(entry) / request / "metadata.json"
            write_if_other(self._disk, path, self._text(entry, request), lasting=False)
            mount = {
                "hostPath": str(path),
                "containerPath": f"{_inside(entry)}/{request}/{self._driver}-metadata.json",
                "options": ["ro", "bind"],
            }
            mounts[f"{entry.uid}_{request}"] = {"mounts": [mount]}
        text = document(f"{self._driver}/metadata", mounts)
        write_if_other(self._disk, self._specification(entry.uid), text, lasting=False)

    def remove(self, entry: PreparedClaim) -> None:
        """Remove the files of a claim, as far as there are any.

        Raises:
            OSError: they cannot be removed.
        """
        self._disk.remove(self._specification(entry.uid))
        self._disk.remove_folder(self._claim(entry))

    def remove_others(self, entries: Collection[PreparedClaim]) -> None:
        """Remove the files of claims other than *entries*: of calls that were cut short.

        Raises:
            OSError: they cannot be removed.
        """
        kept = {self._claim(entry) for entry in entries}
        files = {self._specification(entry.uid) for entry in entries}
        for path in self._cdi.glob(f"{self._driver}-metadata-*.json"):
            if path not in files:
                self._disk.remove(path)
        for folder in self._folder.glob("*"):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _claim(self, entry: PreparedClaim) -> Path:
        return self._folder / f"{entry.namespace}_{entry.name}"

    def _specification(self, uid: str) -> Path:
        return self._cdi / f"{self._driver}-metadata-{uid}.json"

    def _text(self, entry: PreparedClaim, request: str) -> str:
        tree = {
            "kind": "DeviceMetadata",
            "metadata": {
                "name": entry.name,
                "namespace": entry.namespace,
                "uid": entry.uid,
                "generation": 1,
            },
            **({"podClaimName": entry.pod_claim} if entry.pod_claim else {}),
            "requests": self._requests(entry, request),
        }
        versions = ({"apiVersion": f"{_GROUP}/{version}", **tree} for version in VERSIONS)
        return "".join(f"{msgspec.json.encode(one).decode()}\n" for one in versions)

    def _requests(self, entry: PreparedClaim, request: str) -> list[dict[str, Any]]:
        """Return a request by the names of the alternatives that were chosen."""
        devices: dict[str, list[dict[str, Any]]] = {}
        for given in entry.results:
            if given.base_request == request:
                devices.setdefault(given.request, []).append(self._device(given))
        return [{"name": name, "devices": found} for name, found in devices.items()]

    def _device(self, given: GivenDevice) -> dict[str, Any]:
        offered = self._devices().get(given.device)
        attributes: dict[str, DeviceAttribute] = dict(offered.attributes) if offered else {}
        tree = {name: to_tree(attribute) for name, attribute in attributes.items()}
        return {
            "driver": self._driver,
            "pool": given.pool,
            "name": given.device,
            "attributes": {**tree, **dict(_own(given))},
        }


def _inside(entry: PreparedClaim) -> str:
    if entry.pod_claim:
        return f"{INSIDE}/resourceclaimtemplates/{entry.pod_claim}"
    return f"{INSIDE}/resourceclaims/{entry.name}"


def _own(given: GivenDevice) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a claim has of a device, as attributes that no slice has."""
    for domain in _CPUSET_DOMAINS:
        if given.resource == CPU:
            yield f"{domain}/allocatedNumCPUs", {"int": given.mask.bit_count()}
        parts = list(_pieces(given.cpus))
        for number, text in enumerate(parts):
            yield f"{domain}/cpuset{number if len(parts) > 1 else ''}", {"string": text}
    if given.mems:
        yield f"{_CPUSET_DOMAINS[0]}/mems", {"string": given.mems}


def _pieces(cpus: str) -> Iterator[str]:
    """Yield a set of CPUs in texts that attributes can have."""
    piece = ""
    for run in filter(None, cpus.split(",")):
        longer = f"{piece},{run}" if piece else run
        if len(longer) > _LONGEST_TEXT:
            yield piece
            longer = run
        piece = longer
    if piece:
        yield piece


class NetworkInfoFiles:
    """The files of claims in the folder that CNI plugins read."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def write(self, entry: PreparedClaim) -> None:
        """Let the files of a claim be there, and be right.

        Raises:
            OSError: they cannot be written.
        """
        for path, text in self._files(entry):
            write_if_other(self._disk, path, text, lasting=False)

    def remove(self, entry: PreparedClaim) -> None:
        """Remove the files of a claim as far as that can be done: nobody reads them any more."""
        for path, _ in self._files(entry):
            try:
                self._disk.remove(path)
            except OSError as error:
                _log.warning("device_info_left", path=str(path), error=str(error))

    def _files(self, entry: PreparedClaim) -> Iterator[tuple[Path, str]]:
        for function in entry.functions:
            if function.network_info:
                path = info_file(self._folder, function.resource, function.id)
                yield path, function.network_info
