"""Prepare and Unprepare, as a kubelet asks for them, and the sweep for claims that it forgot.

A claim's CPUs are on disk before anything else is done with them, and an answer is given only when
all of it is done. So a process that dies at any point leaves either nothing or a claim that the
kubelet's next call finds: it gets the same CPUs. What is held is given back last, so that no CPU is
given twice; what was left by calls that were cut short is found by the sweep.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from msgspec.structs import replace

from numakube.api.resource_claims import ResourceClaim
from numakube.errors import InvalidValue, NotFound, NumakubeError
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.node.dra_plugin import ClaimRef, Prepared, PreparedDevice
from numakube.values.cpuset import union
from numakube.values.resources import CPU
from numakube.values.times import format_time
from numakube.version import VERSION
from numakube_dra_driver.assignment import ClaimRefusal, adopted, assign, ours, prepared_claim
from numakube_dra_driver.cdi import check_names
from numakube_dra_driver.identity import OWN
from numakube_dra_driver.ledger import PreparedClaim, StateError, is_uid
from numakube_dra_driver.metrics import ERROR, OK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from prometheus_client import Histogram

    from numakube.api.resource_claims import AllocationResult
    from numakube.kube import Client
    from numakube.node.podresources_client import PodResources
    from numakube_dra_driver.cdi import CdiFiles
    from numakube_dra_driver.device_metadata import MetadataFiles, NetworkInfoFiles
    from numakube_dra_driver.identity import Identity
    from numakube_dra_driver.ledger import GivenDevice, GivenFunction, Ledger
    from numakube_dra_driver.metrics import DraCpuMetrics, DraMetrics
    from numakube_dra_driver.offer import Offer

OWN_SECONDS: Final = 20.0
"""How long a call may take; the kubelet waits longer, and asks again."""
ORPHAN_SECONDS: Final = 120.0
"""How long nobody must know a claim before it is taken back."""
_STATUS_SECONDS: Final = 5.0
_MANAGER: Final = "numakube-dra-driver"
_CLAIMS: Final = RESOURCE_CLAIMS.decoded_as(ResourceClaim)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Confining(Protocol):
    """What keeps everybody else off the CPUs of claims."""

    async def settle(self) -> str:
        """Let all groups be as the ledger has it; return why that is not so, if it is not."""
        ...

    def runs(self, uid: str) -> bool:
        """Tell whether anything of the pod *uid* runs here."""
        ...


class PodLister(Protocol):
    """Tells which claims the kubelet knows of."""

    async def list_pods(self) -> Sequence[PodResources]:
        """Return what pods have."""
        ...


class FunctionSource(Protocol):
    """Tells what containers need of PCI functions."""

    async def taken(self, *, offered_too: bool = True) -> Mapping[str, str]:
        """Return which pods and device plugins have functions, by the functions' names."""
        ...

    def ready(self, resource: str, id_: str, *, is_held: bool) -> GivenFunction:
        """Return what a container needs of a function at this moment."""
        ...


class Preparer:
    """Answers the kubelet for one node."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        files: CdiFiles,
        *,
        pools: Collection[str],
        offer: Callable[[], Offer],
        metrics: DraMetrics,
        confining: Confining,
        metadata: MetadataFiles,
        network_info: NetworkInfoFiles,
        identity: Identity = OWN,
        cpu_metrics: DraCpuMetrics | None = None,
        functions: FunctionSource | None = None,
    ) -> None:
        """Prepare.

        Args:
            client: reads claims.
            ledger: what is held.
            files: what runtimes read.
            pools: those of this node.
            offer: what the node offers.
            metrics: counts calls.
            confining: keeps others off what is held.
            metadata: what containers read about devices.
            network_info: what CNI plugins read about them.
            identity: in whose name.
            cpu_metrics: counts in the words of dra-driver-cpu.
            functions: tells what containers need of PCI functions, if there are pools of them.
        """
        self._client = client
        self._ledger = ledger
        self._files = files
        self._pools = frozenset(pools)
        self._metadata = metadata
        self._network_info = network_info
        self._identity = identity
        self._cpu_metrics = cpu_metrics
        self._functions = functions
        self._offer = offer
        self._metrics = metrics
        self._confining = confining
        self._missing: dict[str, float] = {}
        self._untold: dict[str, PreparedClaim] = {}
        self._news = asyncio.Event()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """Give each of *claims* its CPUs; one that cannot have them does not keep others back."""
        return {ref.uid: await self._prepared(ref) for ref in claims}

    async def _prepared(self, ref: ClaimRef) -> Prepared:
        began = self._client.clock.monotonic()
        done = await self._within(self._prepare(ref), ref, self._metrics.prepare_seconds)
        if self._cpu_metrics is not None:
            seconds = self._client.clock.monotonic() - began
            self._cpu_metrics.prepared(ERROR if done.error else OK, seconds)
        return done

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Take back what each of *claims* has; one that is not known has nothing."""
        return {ref.uid: await self._unprepared(ref) for ref in claims}

    async def _unprepared(self, ref: ClaimRef) -> str:
        done = await self._within(self._unprepare(ref), ref, self._metrics.unprepare_seconds)
        if self._cpu_metrics is not None:
            self._cpu_metrics.unprepared(ERROR if done.error else OK)
        return done.error

    async def _within(
        self, work: Awaitable[Prepared], ref: ClaimRef, seconds: Histogram
    ) -> Prepared:
        """Do *work* in the time that a call may take; tell what went wrong as an answer."""
        clock = self._client.clock
        began = clock.monotonic()
        try:
            async with clock.timeout(OWN_SECONDS):
                done = await work
        except TimeoutError:
            done = Prepared(error=f"not done within {OWN_SECONDS:g} s; the next call goes on")
        except (NumakubeError, OSError) as error:
            done = Prepared(error=str(error))
        seconds.labels(ERROR if done.error else OK).observe(clock.monotonic() - began)
        if done.error:
            _log.warning("claim_refused", claim=str(ref), uid=ref.uid, error=done.error)
        self.show()
        return done

    async def _prepare(self, ref: ClaimRef) -> Prepared:
        claim, allocation = await self._read(ref)
        async with self._ledger.locked():
            known = self._ledger.claims.get((self._identity.driver, ref.uid))
            entry = self._entry_of(claim, allocation, known)
            if entry.functions:
                entry = await self._readied(entry, is_held=known is not None)
            if entry != known:
                self._ledger.put(entry)
            try:
                self._write_files(entry)
                if trouble := await self._confining.settle():
                    raise StateError(trouble)
            except (OSError, NumakubeError):
                if known is None:
                    await self._take_back(entry.uid)
                raise
        functions = [function.id for function in entry.functions]
        _log.info(
            "claim_prepared",
            claim=str(ref),
            uid=ref.uid,
            cpus=str(entry.cpu_set),
            **({"functions": functions} if functions else {}),
        )
        if known is None and self._cpu_metrics is not None:
            self._cpu_metrics.given(len(entry.cpu_set))
        self._untold[entry.uid] = entry
        self._news.set()
        return self._answer(entry)

    async def _readied(self, entry: PreparedClaim, *, is_held: bool) -> PreparedClaim:
        """Return a claim with what containers need of its functions at this moment.

        Raises:
            InvalidValue: one of them cannot be used, or somebody else has it.
        """
        if self._functions is None:
            raise InvalidValue("this driver has no pools of PCI functions any more")
        # What a claim has it keeps, whoever offers it meanwhile.
        taken = await self._functions.taken(offered_too=not is_held)
        results = [
            self._ready(given, given.function, taken, self._functions, is_held=is_held)
            if given.function is not None
            else given
            for given in entry.results
        ]
        return replace(entry, results=tuple(results))

    def _ready(
        self,
        given: GivenDevice,
        function: GivenFunction,
        taken: Mapping[str, str],
        functions: FunctionSource,
        *,
        is_held: bool,
    ) -> GivenDevice:
        if why := taken.get(function.id):
            raise InvalidValue(f"request {given.request}: {given.device} ({function.id}) {why}")
        fresh = functions.ready(function.resource, function.id, is_held=is_held)
        # What was seen of it before its interface went into the pod is still so.
        return given if fresh.is_away and function.nodes else replace(given, function=fresh)

    def _write_files(self, entry: PreparedClaim, *, is_restoring: bool = False) -> None:
        self._files.write(entry)
        if entry.name:
            self._metadata.write(entry)
        if not entry.functions:
            return
        try:
            self._network_info.write(entry)
        except OSError as error:
            # Whatever became of the folder, for instance when pools were taken away: claims of
            # CPUs are not to wait for it.
            if not is_restoring:
                raise
            _log.warning("device_info_not_written", claim=str(entry), error=str(error))

    async def _read(self, ref: ClaimRef) -> tuple[ResourceClaim, AllocationResult]:
        """Return the claim as the API server has it, with what was allocated to it."""
        claim = await self._client.get(_CLAIMS, ref.name, namespace=ref.namespace)
        if claim.metadata.uid != ref.uid:
            raise InvalidValue(f"claim {ref} was replaced by one with uid {claim.metadata.uid}")
        if claim.status.allocation is None:
            raise InvalidValue(f"claim {ref} is not allocated")
        return claim, claim.status.allocation

    def _entry_of(
        self, claim: ResourceClaim, allocation: AllocationResult, known: PreparedClaim | None
    ) -> PreparedClaim:
        """Return what a claim has from now on: what it has already, or what is chosen for it.

        Raises:
            InvalidValue: it cannot have it.
        """
        results = ours(allocation.devices, self._identity.driver)
        if not results:
            raise InvalidValue("nothing of this driver is allocated to the claim")
        for result in results:
            if result.pool not in self._pools:
                names = " or ".join(sorted(self._pools))
                raise InvalidValue(f"pool {result.pool} is not this node's, which is {names}")
        keys = [
            (result.request, result.pool, result.device, result.share_id or "")
            for result in results
        ]
        consumers = tuple(consumer.uid for consumer in claim.status.reserved_for)
        if known is not None and known.name:
            if [given.key for given in known.results] != keys:
                raise InvalidValue("the claim is prepared with another allocation")
            return replace(known, consumers=consumers)
        if known is not None:
            entry = adopted(known, claim, self._offer().groups)
        else:
            entry = prepared_claim(claim, self._identity.driver, self._choose(allocation))
        check_names(entry)
        return entry

    def _choose(self, allocation: AllocationResult) -> tuple[GivenDevice, ...]:
        offer, held = self._offer().of(self._identity.driver), self._ledger.held
        given = assign(allocation.devices, offer, held, self._identity)
        if isinstance(given, ClaimRefusal):
            raise InvalidValue(f"{given.why}{f' ({offer.refused})' if offer.refused else ''}")
        taken = union(result.mask for result in given)
        if taken and not offer.manager.topology.all_cpus & ~(held.cpus | taken):
            raise InvalidValue("no CPUs would be left for pods without claims; reserve some")
        return given

    async def _unprepare(self, ref: ClaimRef) -> Prepared:
        if not is_uid(ref.uid):
            raise InvalidValue(f"{ref.uid!r} is not a uid")
        async with self._ledger.locked():
            await self._take_back(ref.uid)
        _log.info("claim_unprepared", claim=str(ref), uid=ref.uid)
        return Prepared()

    async def _take_back(self, uid: str) -> None:
        """Let a claim have nothing, and others have what it had."""
        key = self._identity.driver, uid
        self._files.remove(uid)
        if (entry := self._ledger.claims.get(key)) is not None:
            self._metadata.remove(entry)
            self._network_info.remove(entry)
        self._ledger.drop(key)
        if trouble := await self._confining.settle():
            # Nobody is where they must not be; they have less than they could until the next pass.
            _log.warning("groups_not_settled", uid=uid, error=trouble)

    async def tell(self) -> None:
        """Write what claims have into their statuses, for people and tools, until cancelled.

        Nobody waits for it: what cannot be written is tried again, and forgotten with the claim.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            for uid, entry in list(self._untold.items()):
                try:
                    await self._write_status(entry)
                except NotFound:
                    pass
                except NumakubeError as error:
                    _log.warning("status_not_written", claim=str(entry), error=str(error))
                    await self._client.clock.sleep(_STATUS_SECONDS)
                    self._news.set()
                    continue
                self._untold.pop(uid, None)

    async def _write_status(self, entry: PreparedClaim) -> None:
        if entry.key not in self._ledger.claims:
            return
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Prepared",
            "message": "",
            "lastTransitionTime": format_time(self._client.clock.now()),
        }
        devices = [
            {
                "driver": self._identity.driver,
                "pool": result.pool,
                "device": result.device,
                **({"shareID": result.share} if result.share else {}),
                "conditions": [ready],
                "data": _told(result),
            }
            for result in entry.results
        ]
        document = {
            "apiVersion": RESOURCE_CLAIMS.api_version,
            "kind": RESOURCE_CLAIMS.kind,
            # With its uid, so that a claim that has taken its name is left alone.
            "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
            "status": {"devices": devices},
        }
        await self._client.apply(
            RESOURCE_CLAIMS, document, subresource="status", force=True, field_manager=_MANAGER
        )

    async def restore(self) -> None:
        """Let everything be as the ledger has it: after a start, and a start of the machine.

        Raises:
            StateError: the ledger cannot be read.
        """
        async with self._ledger.locked():
            for entry in self._entries():
                self._write_files(entry, is_restoring=True)
        self.show()

    async def sweep(self, kubelet: PodLister) -> None:
        """Take back claims that nobody has known for a while.

        Raises:
            NumakubeError: it cannot be told which: the API server or the kubelet does not answer.
        """
        listed = {
            (resource.claim_namespace, resource.claim_name)
            for pod in await kubelet.list_pods()
            for container in pod.containers
            for resource in container.dynamic_resources
        }
        now = self._client.clock.monotonic()
        entries = self._entries()
        missing = [
            entry
            for entry in entries
            if (entry.namespace, entry.name) not in listed
            and not any(self._confining.runs(uid) for uid in entry.holders)
            and not await self._is_allocated(entry)
        ]
        self._missing = {one.uid: self._missing.get(one.uid, now) for one in missing}
        for entry in missing:
            if now - self._missing[entry.uid] >= ORPHAN_SECONDS:
                await self._unprepare(ClaimRef(entry.namespace, entry.name, entry.uid))
                self._metrics.orphans.inc()
        async with self._ledger.locked():
            entries = self._entries()
            self._files.remove_others({entry.uid for entry in entries})
            self._metadata.remove_others(entries)
        self.show()

    async def _is_allocated(self, entry: PreparedClaim) -> bool:
        """Tell whether the claim is allocated as it was prepared, and has somebody who uses it."""
        if not entry.name:
            return False
        try:
            claim = await self._client.get(_CLAIMS, entry.name, namespace=entry.namespace)
        except NotFound:
            return False
        allocation = claim.status.allocation
        if claim.metadata.uid != entry.uid or allocation is None or not claim.status.reserved_for:
            return False
        results = ours(allocation.devices, self._identity.driver)
        shares = {(result.device, result.share_id or "") for result in results}
        return shares == {(result.device, result.share) for result in entry.results}

    def _entries(self) -> tuple[PreparedClaim, ...]:
        """Return what was prepared in this name."""
        driver = self._identity.driver
        return tuple(entry for entry in self._ledger.claims.values() if entry.driver == driver)

    def _answer(self, entry: PreparedClaim) -> Prepared:
        return Prepared(
            devices=tuple(
                PreparedDevice(
                    requests=(result.base_request, *result.goes_with),
                    pool=result.pool,
                    device=result.device,
                    cdi_devices=(
                        *self._identity.cdi.full_names(entry, result),
                        self._metadata.full_name(entry, result.base_request),
                    ),
                    share=result.share,
                )
                for result in entry.results
            )
        )

    def show(self) -> None:
        """Show what is held."""
        offer, held = self._offer(), self._ledger.held
        self._metrics.show(offer, held, len(self._ledger.claims))
        if self._cpu_metrics is not None:
            self._cpu_metrics.show(offer, held, len(self._entries()))


def _told(given: GivenDevice) -> dict[str, Any]:
    """Return what a claim's status says of a device, for schedulers and tools."""
    said: dict[str, Any] = {"cpus": given.cpus, "mems": given.mems}
    told = {word: text for word, text in said.items() if text}
    if given.resource == CPU:
        told["exclusive"] = bool(given.cpus)
    if given.function is not None:
        told |= {"deviceID": given.function.id, "resourceName": given.function.resource}
    return {**told, "driverVersion": VERSION}
