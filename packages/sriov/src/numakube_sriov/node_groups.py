"""The SR-IOV device plugin on the nodes of an operator's node group: the field ``sriov``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.operator import GroupAddition, where_of
from numakube.manifests import service_account
from numakube.node.pci.pool_config import DEFAULT_PREFIX, config_mistakes
from numakube_sriov.manifest import SriovManifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.numaresources import SriovGroup
    from numakube.apps.operator import OperatorPool
    from numakube.kube import Document
    from numakube.manifests import AdditionSite

ACCOUNT: Final = "numaresources-sriov"


def _mistakes(sriov: SriovGroup) -> list[str]:
    if not sriov.resources:
        return ["names no resources"]
    return config_mistakes(sriov.resources, prefix=DEFAULT_PREFIX)


def _name(pool: OperatorPool) -> str:
    return f"{ACCOUNT}-{pool.name}"


def _shared(site: AdditionSite) -> list[Document]:
    return [service_account(ACCOUNT, site.namespace)]


def _objects(
    asking: Sequence[tuple[OperatorPool, SriovGroup]], site: AdditionSite
) -> list[Document]:
    """Return what the plugins take; all share the account."""
    documents: list[Document] = []
    for pool, sriov in asking:
        _, *rest = _manifest(pool, sriov, site).objects()
        documents += rest
    return documents


def _manifest(pool: OperatorPool, sriov: SriovGroup, site: AdditionSite) -> SriovManifest:
    return SriovManifest(
        namespace=site.namespace,
        name=_name(pool),
        account=ACCOUNT,
        image=site.image,
        pools=sriov.resources,
        use_cdi=sriov.cdi,
        where=where_of(pool),
    )


ADDITION: Final = GroupAddition(
    account=ACCOUNT, mistakes=_mistakes, daemon_set=_name, objects=_objects, shared=_shared
)
