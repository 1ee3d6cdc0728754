"""Container Device Interface: how a container learns what its claim has.

A claim has one file with one device for each of its requests. A runtime keeps what it has read
under a device's name, so a name never stands for anything else: it has the claim's uid in it. The
file stays until the claim is taken back, as containers that restart need it; ``/var/run`` is empty
after a reboot, so every Prepare looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import InvalidValue
from numakube.values.names import dns_label
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.ledger import is_uid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from numakube_dra_driver.ledger import Disk, GivenDevice, PreparedClaim

KIND: Final = f"{DRIVER}/claim"
# The lowest version that has everything used here, as older runtimes refuse newer ones.
_VERSION: Final = "0.3.0"
_FILE_PREFIX: Final = f"{DRIVER}-claim_"
PREFIX: Final = "NUMAKUBE_CLAIM"
"""What names of variables begin with that tell of claims."""


def device_name(entry: PreparedClaim, request: str) -> str:
    """Return the name of the device that stands for a request of a claim."""
    return f"{entry.uid}-{request}"


def full_name(entry: PreparedClaim, request: str) -> str:
    """Return the name by which a runtime finds the device."""
    return f"{KIND}={device_name(entry, request)}"


def variable(entry: PreparedClaim, request: str) -> str:
    """Return the variable that tells a container what its request has."""
    return f"{PREFIX}_{entry.uid}_{request}".replace("-", "_")


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

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def write(self, entry: PreparedClaim) -> None:
        """Let the file of a claim be there, and be right.

        Raises:
            OSError: it cannot be written.
        """
        path, text = self._path(entry.uid), specification(entry)
        if not _says(path, text):
            self._disk.write(path, text, mode=0o644)

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
        for uid in set(self._uids()) - set(uids):
            self.remove(uid)

    def _uids(self) -> Iterator[str]:
        for path in self._folder.glob(f"{_FILE_PREFIX}*.json"):
            yield path.name.removeprefix(_FILE_PREFIX).removesuffix(".json")

    def _path(self, uid: str) -> Path:
        return self._folder / f"{_FILE_PREFIX}{uid}.json"


def specification(entry: PreparedClaim) -> str:
    """Return the text of a claim's file."""
    requests: dict[str, list[GivenDevice]] = {}
    for result in entry.results:
        requests.setdefault(result.base_request, []).append(result)
    document: dict[str, Any] = {
        "cdiVersion": _VERSION,
        "kind": KIND,
        "devices": [
            {
                "name": device_name(entry, request),
                "containerEdits": {"env": [f"{variable(entry, request)}={_value(parts)}"]},
            }
            for request, parts in requests.items()
        ],
    }
    return msgspec.json.encode(document).decode()


def _value(parts: list[GivenDevice]) -> str:
    said = (
        ("cpus", [part.cpus for part in parts]),
        ("numa", [part.near for part in parts]),
        ("mems", [part.mems for part in parts]),
    )
    words = ((word, ",".join(filter(None, texts))) for word, texts in said)
    return ";".join(f"{word}:{text}" for word, text in words if text)


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
