"""Brings the pods of a dump into a lab, where they ran."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.errors import AlreadyExists, ApiError
from numakube.kube.catalog import NAMESPACES, PODS, PRIORITY_CLASSES
from numakube.kube.object_keys import key_of
from numakube.kube.store import Removed
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.settings_from_config import settings_of
from numakube.topology.rebuild import report_of
from numakube.topology.view import NodeTopology, view_of
from numakube_lab.dumps.dumped_pods import (
    describe,
    in_order,
    is_over,
    manifest_of,
    priority_classes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kube.client import Client
    from numakube.kube.object_keys import ObjectKey
    from numakube.kube.resource_types import Resource
    from numakube.kube.store import Change
    from numakube.topology.exact_report import ExactReport
    from numakube_lab.dumps.dump import Dump
    from numakube_lab.nodes.node_pool import NodePool

Document = dict[str, Any]
_FEW: Final = 3


class Bringing:
    """Pods on their way from a dump into a lab whose nodes are those of the dump.

    Attributes:
        notes: what is other than it was.
    """

    def __init__(self, client: Client, pool: NodePool, dump: Dump) -> None:
        self.notes: list[str] = []
        self._client = client
        self._pool = pool
        self._reports = {name: _report(one) for name, one in dump.topologies.items()}
        self._documents = {
            document["metadata"]["uid"]: document
            for document in map(_identified, dump.pods)
            if not is_over(document)
        }

    async def bring(self, tell: Callable[[str], None]) -> None:
        """Create all pods; returns when those that ran are admitted again, or refused."""
        await self._prepare()
        made: dict[str, Pod] = {}
        for number, old in enumerate(self._in_order(), 1):
            if (new := await self._create(PODS, manifest_of(self._documents[old]))) is not None:
                made[old] = new
            tell(f"{number} of {len(self._documents)} pods are created")
        await self._decided([key_of(new) for new in made.values() if new.spec.node_name])
        now = {name: self._holdings(name) for name in {new.spec.node_name for new in made.values()}}
        for old, new in made.items():
            self._compare(old, new, now[new.spec.node_name])

    async def _prepare(self) -> None:
        documents = self._documents.values()
        spaces = {manifest_of(document)["metadata"]["namespace"] for document in documents}
        for name in sorted(spaces):
            await self._create(NAMESPACES, {"metadata": {"name": name}})
        for found in priority_classes(documents):
            await self._create(PRIORITY_CLASSES, found)

    def _in_order(self) -> Iterator[str]:
        """Yield the old uids: node by node as they came, then what waits."""
        pods: dict[str, list[Pod]] = {}
        for document in self._documents.values():
            pod = convert(Pod, document)
            pods.setdefault(pod.spec.node_name, []).append(pod)
        waiting = pods.pop("", [])
        if unknown := [name for name in pods if self._is_unknown(name)]:
            told = f"no exact data of {', '.join(unknown[:_FEW])}"
            more = f" and {len(unknown) - _FEW} more" if len(unknown) > _FEW else ""
            self.notes.append(f"what pods held is not known, and may differ: {told}{more}")
        for name, here in pods.items():
            kubelet = self._pool.kubelets.get(name)
            if kubelet is None:
                self.notes.append(f"pods of {name} are left out: that node was not dumped")
                continue
            plan = kubelet.plan
            settings = settings_of(plan.config, plan.machine)
            model = KubeletNode(plan.machine, settings, kubernetes=plan.kubernetes)
            yield from (one.metadata.uid for one in in_order(here, model, self._reports.get(name)))
        yield from (pod.metadata.uid for pod in waiting)

    def _is_unknown(self, node: str) -> bool:
        return node in self._pool.kubelets and self._reports.get(node) is None

    async def _create(self, resource: Resource[Any], document: Document) -> Any:  # noqa: ANN401
        """Create an object; return it unless it was there or is refused."""
        try:
            return await self._client.create(resource, document)
        except AlreadyExists:
            return None
        except ApiError as error:
            metadata = document["metadata"]
            where = f"{metadata.get('namespace', '')}/".lstrip("/")
            self.notes.append(f"{where}{metadata['name']} could not be created: {error}")
            return None

    async def _decided(self, keys: Iterable[ObjectKey]) -> None:
        """Return as soon as the kubelets have admitted or refused these pods."""
        changed, waiting = asyncio.Event(), set(keys)

        def note(change: Change[Pod]) -> None:
            pod = change.object
            if isinstance(change, Removed) or (pod.status is not None and pod.status.start_time):
                waiting.discard(key_of(pod))
                changed.set()

        end = self._pool.pods.subscribe(note)
        while waiting:
            changed.clear()
            await changed.wait()
        end()

    def _holdings(self, node: str) -> ExactReport | None:
        kubelet = self._pool.kubelets.get(node)
        if kubelet is None or kubelet.admission is None:
            return None
        return report_of(kubelet.admission.model)

    def _compare(self, old: str, new: Pod, now: ExactReport | None) -> None:
        """Note what is other with a pod than it was."""
        node, key = new.spec.node_name, key_of(new)
        pod, before = self._pool.pods.get(key), self._reports.get(node)
        if pod is not None and pod.status is not None and pod.status.phase == "Failed":
            self.notes.append(f"{key} is refused by {node}: {pod.status.message}")
            return
        had = before.holding(old) if before is not None else None
        has = now.holding(new.metadata.uid) if now is not None else None
        if had is not None and has is not None and has != had:
            self.notes.append(f"{key} on {node} has {describe(has)}; it had {describe(had)}")


def _report(topology: NodeResourceTopology) -> ExactReport | None:
    view = view_of(topology)
    return view.report if isinstance(view, NodeTopology) else None


def _identified(document: Mapping[str, Any]) -> Document:
    """Return a pod that can be told from others, even after an edit."""
    metadata = document.get("metadata") or {}
    uid = metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}"
    return {**document, "metadata": {**metadata, "uid": uid}}
