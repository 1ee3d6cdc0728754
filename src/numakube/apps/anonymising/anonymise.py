"""From a bundle to one without names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import to_tree
from numakube.api.kubelet_config import read_kubelet_config
from numakube.api.meta import CoreEvent, Lease
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaimTemplate
from numakube.api.volcano_numatopology import PLURAL as NUMATOPOLOGIES
from numakube.api.volcano_numatopology import Numatopology
from numakube.api.workloads import Namespace, PriorityClass, Workload
from numakube.apps.anonymising.name_fields import renamed
from numakube.apps.anonymising.pseudonyms import NameCollector, Sort
from numakube.apps.anonymising.report_digests import rewritten
from numakube.errors import NumakubeError
from numakube.insight import collected as names
from numakube.insight.collected import Collected
from numakube.insight.facts import facts_of
from numakube.insight.list_reading import Unreadable, read_list
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS, POD_GROUP_KINDS
from numakube.topology.report_update import current_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rename = Callable[[Sort, str], str]

_TYPES: Final[dict[str, type[Any]]] = {
    names.NODES: Node,
    names.PODS: Pod,
    names.TOPOLOGIES: NodeResourceTopology,
    names.TOPOLOGY_UPDATES: NodeResourceTopologyUpdate,
    NUMATOPOLOGIES: Numatopology,
    names.NAMESPACES: Namespace,
    names.EVENTS: CoreEvent,
    names.LEASES: Lease,
    names.DAEMON_SETS: Workload,
    names.DEPLOYMENTS: Workload,
    names.PRIORITY_CLASSES: PriorityClass,
    names.CLAIM_TEMPLATES: ResourceClaimTemplate,
    **{
        names.list_name(kind.plural, kind.group): kind.object_type
        for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS)
    },
}

_NOT_LISTS: Final = frozenset({names.META, names.VERSION, names.ERRORS})


def anonymise(collected: Collected) -> Collected:
    """Return *collected* without names; verdicts about it stay the same."""
    objects = dict(_objects(collected))
    # Reports are digests of names in part, so they are put together first.
    updates = objects.pop(names.TOPOLOGY_UPDATES)
    objects[names.TOPOLOGIES] = tuple(current_reports(objects[names.TOPOLOGIES], updates))
    collector = NameCollector()
    for plural, members in objects.items():
        for member in members:
            renamed(to_tree(member), plural, collector)
    rename = collector.numbered()
    objects[names.TOPOLOGIES] = _topologies(objects, rename)
    files = {
        names.list_file(plural): _encoded(
            [renamed(to_tree(member), plural, rename) for member in members]
        )
        for plural, members in objects.items()
        if names.list_file(plural) in collected.files
    }
    files |= _plain_files(collected) | _configurations(collected, rename)
    return Collected(collected.taken_at, dict(sorted(files.items())))


def _objects(collected: Collected) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the objects of each kind with nothing but the fields that numakube reads."""
    for plural, type_ in _TYPES.items():
        content = collected.files.get(names.list_file(plural))
        yield plural, read_list(type_, content, plural)[0]


def _topologies(
    objects: dict[str, tuple[Any, ...]], rename: Rename
) -> tuple[NodeResourceTopology, ...]:
    pods: dict[str, list[Pod]] = {}
    for pod in objects[names.PODS]:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    return tuple(
        rewritten(one, pods.get(one.metadata.name, ()), rename) for one in objects[names.TOPOLOGIES]
    )


def _plain_files(collected: Collected) -> dict[str, bytes]:
    """Return the files without names, and what could not be read or had to be left out."""
    kept = (names.META, names.VERSION)
    files = {name: collected.files[name] for name in kept if name in collected.files}
    refused = [fact for fact in facts_of(collected).unreadable if fact.what in _TYPES]
    dropped = (name.removesuffix(".json") for name in collected.files if name not in _NOT_LISTS)
    left_out = [name for name in dropped if "/" not in name and name not in _TYPES]
    told = {
        **{unreadable.what: "it could not be read" for unreadable in refused},
        **dict.fromkeys(left_out, "the bundle is anonymous, and this is about names"),
    }
    files[names.ERRORS] = msgspec.json.encode([Unreadable(*item) for item in sorted(told.items())])
    return files


def _configurations(collected: Collected, rename: Rename) -> dict[str, bytes]:
    """Return the kubelets' configurations, and what schedulers say of theirs."""
    files: dict[str, bytes] = {}
    for name, content in collected.files.items():
        folder, _, rest = name.partition("/")
        if folder == names.CONFIGZ:
            node = rename(Sort.NODE, rest.removesuffix(".json"))
            try:
                config = read_kubelet_config(content, name)
            except NumakubeError:
                continue
            tree = {"kubeletconfig": config}
            files[names.configz_file(node)] = msgspec.json.encode(tree)
        elif folder == names.SCHEDULER and rest.endswith("/configz.json"):
            files[name] = content
    return files


def _encoded(trees: list[dict[str, Any]]) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": trees})
