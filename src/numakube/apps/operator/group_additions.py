"""What annexes run on the nodes of a group beside its exporters.

A node group of a NUMAResourcesOperator has a field for each (`NodeGroup`), which means something
where the annex of that name is installed. Where it is not, the field is a mistake: a device plugin
that is asked for and does not come would leave pods waiting without a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from numakube.annexes import Group, added_to, load
from numakube.manifests.exporter import node_affinity
from numakube.manifests.release_image import pulled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.api.numaresources import NodeGroup
    from numakube.apps.operator.node_pools import OperatorPool
    from numakube.kube.resource_types import Document
    from numakube.manifests.node_agents import AdditionSite


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAddition:
    """What an annex adds to node groups; the first argument of each call is what the field says.

    Attributes:
        account: what its pods run as.
        shared: returns what its pods on all pools have in common, in the order of creation; the
            operator may make all of that, and give what its roles allow.
        mistakes: tells for which reasons it would not start, or would leave something out.
        daemon_set: returns what the DaemonSet of a pool is called; no pool's exporters may be
            called so.
        objects: returns what it takes on given pools, in the order of creation.
    """

    account: str
    shared: Callable[[AdditionSite], list[Document]]
    mistakes: Callable[[Any], Iterable[str]]
    daemon_set: Callable[[OperatorPool], str]
    objects: Callable[[Sequence[tuple[OperatorPool, Any]], AdditionSite], list[Document]]


def asked_of(group: NodeGroup) -> dict[str, Any]:
    """Return what *group* asks of annexes, by the names of its fields."""
    said = {name: getattr(group, name, None) for name in added_to(Group.NODE_GROUPS)}
    return {name: asked for name, asked in said.items() if asked is not None}


def addition_mistakes(groups: Sequence[NodeGroup]) -> Iterable[str]:
    """Tell what is wrong with what *groups* ask of annexes."""
    for index, group in enumerate(groups):
        for name, asked in asked_of(group).items():
            yield from (f"node group {index}: {name}: {why}" for why in _mistakes(name, asked))


def _mistakes(name: str, asked: object) -> Iterable[str]:
    annex = added_to(Group.NODE_GROUPS)[name]
    if not annex.is_installed:
        return [f"needs numakube[{annex.extra}], which the operator's image does not have"]
    return _addition(name).mistakes(asked)


def accounts_of(pools: Iterable[OperatorPool]) -> tuple[str, ...]:
    """Return what pods of annexes run as on *pools*, each account once."""
    found = (_addition(name).account for pool in pools for name in pool.additions)
    return tuple(dict.fromkeys(found))


def daemon_sets_of(pools: Iterable[OperatorPool]) -> list[str]:
    """Return the names of the DaemonSets of annexes on *pools*."""
    return [_addition(name).daemon_set(pool) for pool in pools for name in pool.additions]


def addition_objects(
    pools: Sequence[OperatorPool], site: AdditionSite, pull_policy: str
) -> list[Document]:
    """Return what annexes take on *pools*, in the order of creation."""
    documents: list[Document] = []
    for name in dict.fromkeys(name for pool in pools for name in pool.additions):
        asking = [(pool, pool.additions[name]) for pool in pools if name in pool.additions]
        addition = _addition(name)
        documents += [*addition.shared(site), *addition.objects(asking, site)]
    return pulled(documents, site.image, pull_policy)


def where_of(pool: OperatorPool) -> dict[str, Any]:
    """Return the fields of a pod that keep it where the pool's exporters are."""
    expressions: list[dict[str, Any]] = msgspec.to_builtins(pool.selector.match_expressions)
    where: dict[str, Any] = {"tolerations": list(msgspec.to_builtins(pool.config.tolerations))}
    if pool.selector.match_labels:
        where["nodeSelector"] = dict(pool.selector.match_labels)
    if affinity := node_affinity(list(expressions)):
        where["affinity"] = affinity
    return where


def _addition(name: str) -> GroupAddition:
    addition: GroupAddition = load(Group.NODE_GROUPS, name)
    return addition
