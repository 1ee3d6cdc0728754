"""The DRA driver on the nodes of an operator's node group: the field ``dra``.

On OpenShift its pods have security context constraints of their own: they write control groups,
which an unconfined SELinux type alone may do where SELinux is enforced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.operator import GroupAddition, where_of
from numakube.errors import ConfigError, InvalidValue
from numakube.manifests import security_constraints
from numakube.node.pci.pool_config import DEFAULT_PREFIX, config_mistakes
from numakube.values.cpuset import CpuSet
from numakube.values.safe_text import quoted
from numakube_dra_driver.annex import CORES, CPUS
from numakube_dra_driver.device_classes import pool_classes
from numakube_dra_driver.devices import Grouping
from numakube_dra_driver.manifest import SELINUX, DraManifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.numaresources import DraGroup
    from numakube.apps.operator import OperatorPool
    from numakube.kube import Document
    from numakube.manifests import AdditionSite

ACCOUNT: Final = "numaresources-dra"


def _options(dra: DraGroup) -> tuple[str, ...]:
    """Return what the driver is told; it has a default for everything else."""
    said = {
        "--cpu-devices": dra.cpu_devices,
        "--cpu-step": dra.cpu_step,
        "--reserved-cpus": dra.reserved_cpus,
    }
    return tuple(f"{option}={text}" for option, text in said.items() if text)


def _mistakes(dra: DraGroup) -> Iterator[str]:
    for field, said, known in (
        ("cpuDevices", dra.cpu_devices, [*Grouping]),
        ("cpuStep", dra.cpu_step, [CORES, CPUS]),
    ):
        if said and said not in known:
            yield f"{field}: {quoted(said)} is none of {', '.join(known)}"
    if dra.resources:
        yield from config_mistakes(dra.resources, prefix=DEFAULT_PREFIX) or _class_mistakes(dra)
    try:
        CpuSet.parse(dra.reserved_cpus)
    except InvalidValue as error:
        yield f"reservedCPUs: {error}"


def _class_mistakes(dra: DraGroup) -> list[str]:
    try:
        pool_classes(dra.resources)
    except ConfigError as error:
        return [str(error)]
    return []


def _name(pool: OperatorPool) -> str:
    return f"{ACCOUNT}-{pool.name}"


def _shared(site: AdditionSite) -> list[Document]:
    documents = DraManifest(namespace=site.namespace, name=ACCOUNT).shared()
    if not site.openshift:
        return documents
    user = f"system:serviceaccount:{site.namespace}:{ACCOUNT}"
    return [*documents, security_constraints(ACCOUNT, [user], SELINUX)]


def _objects(asking: Sequence[tuple[OperatorPool, DraGroup]], site: AdditionSite) -> list[Document]:
    return [
        document
        for pool, dra in asking
        for document in DraManifest(
            namespace=site.namespace,
            name=_name(pool),
            account=ACCOUNT,
            image=site.image,
            where=where_of(pool),
            options=_options(dra),
            constraints=ACCOUNT if site.openshift else "",
            pools=dra.resources,
        ).on_nodes()
    ] + list(_classes(asking))


def _classes(asking: Sequence[tuple[OperatorPool, DraGroup]]) -> list[Document]:
    """Return the classes for the pools of all groups; several groups may have the same pool."""
    classes = [one for _, dra in asking for one in pool_classes(dra.resources)]
    return list({one["metadata"]["name"]: one for one in classes}.values())


ADDITION: Final = GroupAddition(
    account=ACCOUNT, mistakes=_mistakes, daemon_set=_name, objects=_objects, shared=_shared
)
