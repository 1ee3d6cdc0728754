"""Brings the pods of a dump into a lab, where they ran, in the order that gives them what they had.

What a kubelet gives a pod depends on what was free when it came. Pods that have ended since left
gaps which later ones took, so the order of admission alone does not lead to the same placement:
whenever several pods could be next, one is taken that gets exactly what it was reported to have.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import ENDED_PHASES, Pod
from numakube.errors import AlreadyExists, ApiError
from numakube.kube import Removed, key_of
from numakube.kube.catalog import NAMESPACES, PODS, PRIORITY_CLASSES
from numakube.kubelet import Admitted, KubeletNode, settings_of
from numakube.topology import Holding, NodeTopology, report_of, uid_hash, view_of
from numakube_lab.processes.program_table import OWN, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kube import Change, Client, ObjectKey, Resource
    from numakube.topology import ExactReport
    from numakube_lab.dumps.cluster_dump import Dump
    from numakube_lab.nodes.node_pool import NodePool

Document = dict[str, Any]
_FEW: Final = 3
_MIRROR: Final = "kubernetes.io/config."
_SET_BY_SERVER: Final = ("priority", "preemptionPolicy", "ephemeralContainers")


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
            yield from (pod.metadata.uid for pod in in_order(here, model, self._reports.get(name)))
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


def is_over(document: Mapping[str, Any]) -> bool:
    """Tell whether a pod has ended, so that it holds nothing."""
    return (document.get("status") or {}).get("phase") in ENDED_PHASES


def manifest_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to create for a pod that was dumped: without owners, who are not there.

    Containers of numakube's own image are simulated as all others are, under another name: they
    would need more of their cluster than pods.
    """
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    spec = deepcopy(dict(document.get("spec") or {}))
    for name in _SET_BY_SERVER:
        spec.pop(name, None)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        if is_own(container.get("image") or ""):
            container["image"] = f"dumped/{OWN}-of-a-dump"
    return {
        "metadata": {
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace") or "default",
            "labels": metadata.get("labels") or {},
            "annotations": {k: v for k, v in annotations.items() if not k.startswith(_MIRROR)},
        },
        "spec": spec,
    }


def priority_classes(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the classes that pods name, with the priorities that they have."""
    found: dict[str, dict[str, Any]] = {}
    for spec in (document.get("spec") or {} for document in documents):
        if name := spec.get("priorityClassName"):
            policy = spec.get("preemptionPolicy") or "PreemptLowerPriority"
            found[name] = {
                "metadata": {"name": name},
                "value": spec.get("priority") or 0,
                "preemptionPolicy": policy,
            }
    return list(found.values())


def in_order(pods: Sequence[Pod], model: KubeletNode, report: ExactReport | None) -> list[Pod]:
    """Return the pods of a node as they should come; *model* is the node before them."""
    waiting = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "")
    if report is None:
        return waiting
    places = {uid: place for place, uid in enumerate(report.pods)}
    waiting.sort(key=lambda pod: places.get(uid_hash(pod.metadata.uid), len(places)))
    idle = [pod for pod in waiting if _wanted(pod, report).empty]
    waiting = [pod for pod in waiting if not _wanted(pod, report).empty]
    chosen: list[Pod] = []
    while waiting:
        following = _next(waiting, model, report)
        waiting.remove(following)
        chosen.append(following)
        model.admit(following)
    return [*chosen, *idle]


def _next(waiting: Sequence[Pod], model: KubeletNode, report: ExactReport) -> Pod:
    """Return the first pod that gets what it had; the first of all if none does."""
    outcomes: dict[bytes, Holding | None] = {}
    for pod in waiting:
        # Pods that ask for the same get the same.
        shape = msgspec.json.encode((pod.spec.init_containers, pod.spec.containers))
        if shape not in outcomes:
            outcomes[shape] = _tried(pod, model)
        if outcomes[shape] == _wanted(pod, report):
            return pod
    return waiting[0]


def _tried(pod: Pod, model: KubeletNode) -> Holding | None:
    trial = model.clone()
    admitted = isinstance(trial.admit(pod), Admitted)
    return report_of(trial).holding(pod.metadata.uid) if admitted else None


def _wanted(pod: Pod, report: ExactReport) -> Holding:
    return report.holding(pod.metadata.uid) or Holding()


def describe(holding: Holding) -> str:
    """Return in words what a pod holds."""
    nodes = sorted({node for block in holding.memory for node in block.numa_nodes})
    parts = [f"CPUs {holding.cpus}"] if holding.cpus else []
    if nodes:
        parts.append(f"memory of NUMA {','.join(map(str, nodes))}")
    for name, positions in holding.devices.items():
        parts.append(f"{name} {','.join(map(str, positions))}")
    return ", ".join(parts) or "nothing of its own"
