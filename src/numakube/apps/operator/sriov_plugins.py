"""The SR-IOV device plugin on the nodes of a group, which is an addition of ours to node groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.apps.sriov.read_config import read_config
from numakube.errors import ConfigError
from numakube.manifests.components import pulled
from numakube.manifests.exporter import node_affinity
from numakube.manifests.sriov import SriovManifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.numaresources import NodeGroup, SriovGroup
    from numakube.apps.operator.node_pools import Pool
    from numakube.kube.resource_types import Document

ACCOUNT: Final = "numaresources-sriov"
_PREFIX: Final = "intel.com"
"""What the plugin takes for pools without a prefix; it plays no part in what is checked."""


def device_mistakes(groups: Sequence[NodeGroup]) -> Iterable[str]:
    """Tell for which groups the plugin would not start, or would leave something out."""
    for index, group in enumerate(groups):
        if group.sriov is not None:
            subject = f"node group {index}: sriov"
            yield from (f"{subject}: {problem}" for problem in _problems(group.sriov))


def _problems(sriov: SriovGroup) -> list[str]:
    if not sriov.resources:
        return ["names no resources"]
    text = json.dumps({"resourceList": list(sriov.resources)})
    try:
        config = read_config(text, "resources", prefix=_PREFIX)
    except ConfigError as error:
        return [str(error)]
    return [f"{remark.where}: {remark.what}" for remark in config.remarks]


def plugin_name(pool: Pool) -> str:
    """Return what the DaemonSet of a pool is called; no pool's exporters are called like that."""
    return f"{ACCOUNT}-{pool.name}"


def plugin_objects(
    pools: Iterable[Pool], *, namespace: str, image: str, pull_policy: str
) -> list[Document]:
    """Return what the plugins of *pools* take, in the order of creation."""
    documents: list[Document] = []
    for pool in pools:
        if pool.sriov is not None:
            account, *rest = _manifest(pool, pool.sriov, namespace, image).objects()
            documents += rest if documents else [account, *rest]
    return pulled(documents, image, pull_policy)


def _manifest(pool: Pool, sriov: SriovGroup, namespace: str, image: str) -> SriovManifest:
    return SriovManifest(
        namespace=namespace,
        name=plugin_name(pool),
        account=ACCOUNT,
        image=image,
        pools=sriov.resources,
        use_cdi=sriov.cdi,
        where=_where(pool),
    )


def _where(pool: Pool) -> dict[str, Any]:
    """Return what keeps the plugin where the pool's exporters are."""
    expressions = [msgspec.to_builtins(one) for one in pool.selector.match_expressions]
    where: dict[str, Any] = {
        "tolerations": [msgspec.to_builtins(one) for one in pool.config.tolerations]
    }
    if pool.selector.match_labels:
        where["nodeSelector"] = dict(pool.selector.match_labels)
    if affinity := node_affinity(expressions):
        where["affinity"] = affinity
    return where
