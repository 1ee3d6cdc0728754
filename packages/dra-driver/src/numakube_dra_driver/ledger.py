"""The ledger of a node: which claim has which CPUs, on disk before any answer.

Two processes may serve one node while a DaemonSet is updated, and the kubelet may call either. So
every call takes the lock, reads what the other has written, and writes before it answers. A file
that makes no sense is never taken for an empty one: CPUs would be given twice.

The text of a file is on the disk before it takes the place of the older one, so that a machine that
loses its power keeps one of the two. Which one does not matter, and nobody waits for the folder:
no container outlives the machine, kubelets prepare all claims of their pods again, and give back
what they remember of others.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.api.codec import BROKEN_JSON, Wire
from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.node import read_regular_file
from numakube.node.bounded_files import MOST_BYTES
from numakube.node.host_files import DeviceFile, HostMount  # noqa: TC001 - msgspec reads them
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, union

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from numakube.kube.clock import Clock

FILE: Final = "state.json"
LOCK: Final = "serialize.lock"
VERSION: Final = 1
LOCK_SECONDS: Final = 20.0
"""How long a call waits for another process that serves the node."""
_LOCK_PAUSE: Final = 0.005
_UID: Final = re.compile(r"[a-zA-Z0-9-]{1,64}")


class StateError(NumakubeError):
    """The ledger cannot be read or written; nothing was given."""


ClaimKey: TypeAlias = tuple[str, str]
"""A driver and the uid of a claim."""


class GivenFunction(Wire, frozen=True):
    """What a container gets of a PCI function, or of another device of a pool.

    It is kept, as containers that restart need it while the host does not show all of it: what
    belongs to a network interface goes with it into the pod.

    Attributes:
        id: its name on the host: the address of a PCI function.
        resource: the pool that it is of.
        info: what variables say of it, by who provides it.
        envs: variables of its own.
        nodes: device files.
        mounts: paths of the host.
        is_away: some device files are not seen from the host now.
        network_info: what CNI plugins are told of it in a file; empty if nothing.
    """

    id: str
    resource: str
    info: dict[str, dict[str, str]] = {}  # noqa: RUF012 - msgspec gives each its own
    envs: dict[str, str] = {}  # noqa: RUF012 - likewise
    nodes: tuple[DeviceFile, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    is_away: bool = False
    network_info: str = ""


class GivenDevice(Wire, frozen=True):
    """What one result of a claim's allocation has.

    Attributes:
        request: the request, with the alternative that was chosen.
        cpus: nobody else runs on these.
        near: the NUMA nodes whose shared CPUs it stands for, if it has no CPUs of its own.
        mems: the NUMA nodes that memory comes from; empty if that is not said.
        resource: what it takes of the device: CPU time in milli-CPUs, or bytes of memory.
        amount: how much of it.
        goes_with: containers that name one of these requests have this one, too.
        is_throttled: the limit of CPU time holds on its CPUs.
        function: the device of a pool that nobody else has.
    """

    request: str
    pool: str
    device: str
    share: str = ""
    cpus: str = ""
    near: str = ""
    mems: str = ""
    resource: str = ""
    amount: int = 0
    goes_with: tuple[str, ...] = ()
    is_throttled: bool = False
    function: GivenFunction | None = None

    @property
    def mask(self) -> CpuMask:
        """Its CPUs as bits."""
        return CpuSet.parse(self.cpus).mask

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What of an allocation it stands for."""
        return self.request, self.pool, self.device, self.share

    @property
    def base_request(self) -> str:
        """The name of the request that containers use; of alternatives it is the request's."""
        return self.request.partition("/")[0]

    def is_for(self, request: str) -> bool:
        """Tell whether a container has it that names *request*, or all with the empty text."""
        return not request or request in (self.base_request, *self.goes_with)


class PreparedClaim(Wire, frozen=True):
    """A claim that is prepared.

    Attributes:
        driver: in whose name it was prepared.
        consumers: the uids that may use it.
        results: in the order of the allocation.
        pod_claim: what the pod calls it, if it was made for one from a template.
    """

    driver: str
    uid: str
    namespace: str
    name: str
    consumers: tuple[str, ...] = ()
    results: tuple[GivenDevice, ...] = ()
    pod_claim: str = ""

    @property
    def key(self) -> ClaimKey:
        """What it is found by: devices of one claim may be of several drivers."""
        return self.driver, self.uid

    @property
    def mask(self) -> CpuMask:
        """All CPUs of the claim as bits."""
        return union(result.mask for result in self.results) or NO_CPUS

    @property
    def cpu_set(self) -> CpuSet:
        """All CPUs of the claim."""
        return CpuSet(self.mask)

    @property
    def functions(self) -> tuple[GivenFunction, ...]:
        """All devices of pools that it has."""
        return tuple(result.function for result in self.results if result.function is not None)

    @property
    def holders(self) -> tuple[str, ...]:
        """The uids of the pods that have it; its own, if it is not known which do."""
        return self.consumers or (self.uid,)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What claims have together.

    Attributes:
        cpus: nobody else may have them.
        amounts: what they take of each device, in base units.
        functions: which claim has a device of a pool, by the device's name on the host.
    """

    cpus: CpuMask = NO_CPUS
    amounts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    functions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class _LedgerFile(Wire, frozen=True):
    """The whole file."""

    version: int = VERSION
    claims: tuple[PreparedClaim, ...] = ()


def is_uid(text: str) -> bool:
    """Tell whether *text* can be a uid: names of files and variables are made of it."""
    return _UID.fullmatch(text) is not None


class Disk:
    """What is done to files; a test stands in for it to fail at each step."""

    def write(self, path: Path, text: str, *, mode: int = 0o600, lasting: bool = True) -> None:
        """Replace a file as a whole; of a *lasting* one a lost power leaves this text or the older.

        Raises:
            OSError: it cannot be written; what was there is there.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        self.fill(temporary, text, mode, lasting=lasting)
        self.swap(temporary, path)

    def fill(self, path: Path, text: str, mode: int, *, lasting: bool = True) -> None:
        """Write a file that nobody reads yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if lasting:
                os.fsync(file.fileno())

    def swap(self, new: Path, path: Path) -> None:
        """Let *new* be what is at *path*."""
        new.replace(path)

    def remove(self, path: Path) -> None:
        """Remove a file that may not be there.

        Raises:
            OSError: it cannot be removed.
        """
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder with everything in it; it may not be there.

        Raises:
            OSError: it cannot be removed.
        """
        if path.is_dir():
            shutil.rmtree(path)


class Ledger:
    """The claims that are prepared on this node; to be used while its lock is held."""

    def __init__(self, folder: Path, clock: Clock, *, disk: Disk | None = None) -> None:
        """Use the file in *folder*, which is made if need be.

        Raises:
            ConfigError: it cannot be.
        """
        self._folder = folder
        self._path = folder / FILE
        self._clock = clock
        self._disk = disk or Disk()
        self._claims: dict[ClaimKey, PreparedClaim] = {}
        self._held: tuple[Mapping[ClaimKey, PreparedClaim], Held] | None = None
        self._text: bytes | None = None
        self._turns = asyncio.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot keep state in {folder}: {error.strerror}") from None

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other processes out, and know what they wrote.

        Raises:
            StateError: the lock is not to be had in time, or the file cannot be read.
        """
        async with self._turns:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                descriptor = os.open(self._folder / LOCK, flags, 0o600)
            except OSError as error:
                raise StateError(f"cannot lock {self._folder}: {error.strerror}") from None
            try:
                await self._lock(descriptor)
                self.load()
                yield
            finally:
                os.close(descriptor)

    @property
    def claims(self) -> Mapping[ClaimKey, PreparedClaim]:
        """What is prepared; as of the last reading."""
        return self._claims

    @property
    def held(self) -> Held:
        """What all claims have."""
        if self._held is None or self._held[0] is not self._claims:
            self._held = self._claims, self._sum()
        return self._held[1]

    def _sum(self) -> Held:
        amounts: dict[str, int] = {}
        for entry in self._claims.values():
            for given in entry.results:
                amounts[given.device] = amounts.get(given.device, 0) + given.amount
        cpus = union(entry.mask for entry in self._claims.values()) or NO_CPUS
        functions = {
            one.id: f"claim {entry}" for entry in self._claims.values() for one in entry.functions
        }
        return Held(cpus=cpus, amounts=amounts, functions=functions)

    def load(self) -> None:
        """Take what the file says, if another process has written it.

        Raises:
            StateError: it cannot be read, or makes no sense.
        """
        try:
            text = read_regular_file(self._path)
        except FileNotFoundError:
            self._claims, self._text = {}, None
            return
        except OSError as error:
            raise StateError(f"cannot read {self._path}: {error.strerror}") from None
        # Neither its inode nor its time tells that it is another: file systems give the inode of a
        # replaced file out again, and clocks of files stand still for milliseconds.
        if text != self._text:
            self._claims = self._read(text)
            self._text = text

    def put(self, entry: PreparedClaim) -> None:
        """Keep a claim.

        Raises:
            StateError: it cannot be written; nothing has changed.
        """
        self._save({**self._claims, entry.key: entry})

    def drop(self, key: ClaimKey) -> None:
        """Forget a claim; it may not be there.

        Raises:
            StateError: it cannot be written; nothing has changed.
        """
        if key in self._claims:
            self._save({one: entry for one, entry in self._claims.items() if one != key})

    def forget(self) -> None:
        """Put a file aside that makes no sense, and begin without claims."""
        if self._path.exists():
            self._path.replace(self._path.with_suffix(".forgotten"))
        self._claims, self._text = {}, None

    def _save(self, claims: dict[ClaimKey, PreparedClaim]) -> None:
        text = msgspec.json.encode(_LedgerFile(claims=tuple(claims.values())))
        if len(text) > MOST_BYTES:
            # It could not be read again: no claim would get or give back anything any more.
            raise StateError(f"{self._path} would have more than {MOST_BYTES} bytes")
        try:
            self._disk.write(self._path, text.decode())
        except OSError as error:
            # What is on the disk now is not known: the next call reads it.
            self._text = None
            raise StateError(f"cannot write {self._path}: {error.strerror}") from None
        self._claims, self._text = claims, text

    def _read(self, text: bytes) -> dict[ClaimKey, PreparedClaim]:
        try:
            file = msgspec.json.decode(text, type=_LedgerFile)
            _check(file)
        except (*BROKEN_JSON, InvalidValue) as error:
            raise StateError(
                f"{self._path} makes no sense ({error}); nothing is prepared with it. Drain the "
                "node, and start once with --forget-state"
            ) from None
        return {entry.key: entry for entry in file.claims}

    async def _lock(self, descriptor: int) -> None:
        until = self._clock.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() >= until:
                    raise StateError(
                        f"another process has held {self._folder / LOCK} for {LOCK_SECONDS:g} s"
                    ) from None
                await self._clock.sleep(_LOCK_PAUSE)
            else:
                return


def _check(file: _LedgerFile) -> None:
    """Raise `InvalidValue` for uids and sets of CPUs that are none, and for CPUs given twice."""
    if file.version != VERSION:
        raise InvalidValue(f"version {file.version} is not known")
    taken = NO_CPUS
    functions: set[str] = set()
    for entry in file.claims:
        if not is_uid(entry.uid):
            raise InvalidValue(f"{entry.uid!r} is not a uid")
        if both := taken & entry.mask:
            raise InvalidValue(f"CPUs {CpuSet(both)} of claim {entry} are another claim's as well")
        taken |= entry.mask
        for function in entry.functions:
            if function.id in functions:
                raise InvalidValue(f"{function.id} of claim {entry} is another claim's as well")
            functions.add(function.id)
        for result in entry.results:
            CpuSet.parse(result.mems)
            CpuSet.parse(result.near)
            if result.amount < 0:
                raise InvalidValue(f"claim {entry} takes {result.amount} of {result.device}")
