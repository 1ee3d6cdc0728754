"""Taking over claims that dra-driver-cpu has prepared, without restarting a pod.

It keeps no state but the specifications that runtimes read: each names a claim and its CPUs. They
are held from the first moment on, whoever they belong to. Then the claims of the node's pods are
read: one whose allocation agrees with its CPUs is a claim like any other from then on. What agrees
with none stays held, as its CPUs may be in use, until the sweep finds that nobody knows it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec.structs import replace

from numakube.api.resource_claims import ResourceClaim
from numakube.dra.pod_claims import used_claims
from numakube.errors import InvalidValue, NotFound
from numakube.kube.catalog import PODS, RESOURCE_CLAIMS
from numakube.node import read_regular_file
from numakube.values.cpuset import CpuMask, CpuSet
from numakube_dra_driver.assignment import adopted
from numakube_dra_driver.cdi import DRA_CPU_NAMES, check_names
from numakube_dra_driver.devices import DRA_CPU
from numakube_dra_driver.ledger import GivenDevice, PreparedClaim, is_uid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numakube.kube import Client
    from numakube_dra_driver.ledger import Ledger
    from numakube_dra_driver.offer import Offer

UNKNOWN: Final = "unknown"
"""The device of CPUs of which it is not known what of a claim they are."""
_CLAIMS: Final = RESOURCE_CLAIMS.decoded_as(ResourceClaim)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def found_claims(folder: Path) -> Iterator[tuple[str, CpuSet]]:
    """Yield the uids and CPUs of the claims whose specifications are in *folder*."""
    prefix = DRA_CPU_NAMES.files
    for path in sorted(folder.glob(f"{prefix}*.json")):
        uid = path.name.removeprefix(prefix).removesuffix(".json")
        try:
            yield uid, _cpus(json.loads(read_regular_file(path)), uid)
        except (OSError, ValueError, InvalidValue, LookupError, TypeError, RecursionError) as error:
            _log.warning("specification_not_read", path=str(path), error=str(error))


def _cpus(tree: Any, uid: str) -> CpuSet:  # noqa: ANN401 - whatever a file says
    if not is_uid(uid):
        raise InvalidValue(f"{uid!r} is not a uid")
    (device,) = tree["devices"]
    (text,) = device["containerEdits"]["env"]
    name, _, value = text.partition("=")
    if name != f"{DRA_CPU_NAMES.variables}{uid}":
        raise InvalidValue(f"{name} is not the variable of claim {uid}")
    return CpuSet.parse(value)


def hold(ledger: Ledger, folder: Path) -> None:
    """Hold what claims have that the ledger does not know; its lock is held.

    Raises:
        StateError: it cannot be kept.
    """
    for uid, cpus in found_claims(folder):
        if (DRA_CPU, uid) in ledger.claims:
            continue
        free = CpuMask(cpus.mask & ~ledger.held.cpus)
        if free != cpus.mask:
            taken = CpuSet(CpuMask(cpus.mask & ~free))
            _log.error("cpus_found_twice", uid=uid, cpus=str(taken), held=str(CpuSet(free)))
        given = GivenDevice(request=UNKNOWN, pool="", device=UNKNOWN, cpus=str(CpuSet(free)))
        ledger.put(PreparedClaim(driver=DRA_CPU, uid=uid, namespace="", name="", results=(given,)))
        _log.info("claim_held", uid=uid, cpus=str(CpuSet(free)))


def is_held(entry: PreparedClaim) -> bool:
    """Tell whether it is not known yet what an entry is."""
    return not entry.name


async def adopt(client: Client, ledger: Ledger, offer: Offer, node: str) -> int:
    """Find out what is held; return of how many claims it is still not known.

    Raises:
        NumakubeError: the API server does not answer, or the ledger cannot be written.
    """
    if not any(is_held(entry) for entry in ledger.claims.values()):
        return 0
    for pod in (await client.list(PODS, fields=f"spec.nodeName={node}")).items:
        for name in sorted(used_claims(pod)):
            try:
                claim = await client.get(_CLAIMS, name, namespace=pod.metadata.namespace)
            except NotFound:
                continue
            async with ledger.locked():
                entry = ledger.claims.get((DRA_CPU, claim.metadata.uid))
                if entry is not None and is_held(entry):
                    _know(ledger, entry, claim, offer)
    return sum(is_held(entry) for entry in ledger.claims.values())


def _know(ledger: Ledger, entry: PreparedClaim, claim: ResourceClaim, offer: Offer) -> None:
    metadata = claim.metadata
    # Whose it is keeps the sweep from giving back what runs, even if nothing else is understood.
    entry = replace(
        entry,
        namespace=metadata.namespace,
        name=metadata.name,
        consumers=tuple(consumer.uid for consumer in claim.status.reserved_for),
    )
    try:
        known = adopted(entry, claim, offer.groups)
        check_names(known)
    except InvalidValue as error:
        _log.error("claim_not_adopted", claim=str(entry), uid=entry.uid, error=str(error))
        ledger.put(entry)
        return
    ledger.put(known)
    _log.info("claim_adopted", claim=str(known), uid=known.uid, cpus=str(known.cpu_set))
