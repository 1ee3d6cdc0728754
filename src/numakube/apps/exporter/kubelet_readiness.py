"""Whether the kubelet's answers are true: that it has loaded its state, and who counts already.

A kubelet serves PodResources from its first moment on. After a start it answers with no CPUs until
its managers have started, and without pods until it has heard of them from the API server: a report
made of that would call everything free while pods run. And it lists a new pod before its managers
have given it anything: a report made of that would say that the pod holds nothing.

What tells is the order in which the kubelet writes (Kubernetes 1.35, ``HandlePodAdditions`` in
``pkg/kubelet/kubelet.go`` and ``AddPod`` in ``pkg/kubelet/allocation/allocation_manager.go``):

1. the pod is listed;
2. managers allocate container by container and write their state files;
3. the pod is put into ``allocated_pods_state`` (since 1.33);
4. its status gets a start time.

So a pod that was seen in 3 or 4 *before* the list was asked for holds all it will ever hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.checkpoints import CPU_STATE, MEMORY_STATE
from numakube.apps.exporter.kubelet_checkpoints import blocks_by_pod
from numakube.errors import CorruptCheckpoint, KubeletStartError, NumakubeError
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numakube.api.checkpoints import CpuManagerState, MemoryManagerState
    from numakube.apps.exporter.scan_inputs import KubeletFacts, PodName
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.state_files import StateFiles
    from numakube.node.podresources_client import AllocatableResources, PodResources

_MOST_NAMED: Final = 3
_UNLESS: Final = " (unless flags of the kubelet say otherwise)"


def admitted_pods(
    pods: Sequence[PodResources], uids: Mapping[PodName, str], admitted: Collection[str]
) -> tuple[PodResources, ...]:
    """Return the *pods* that are not being admitted at this moment.

    Args:
        pods: as the kubelet lists them.
        uids: of the pods that the API knows; the others are taken as they are listed.
        admitted: uids of pods that had been admitted before the list was asked for.
    """
    arriving = {name for name, uid in uids.items() if uid not in admitted}
    return tuple(pod for pod in pods if (pod.namespace, pod.name) not in arriving)


def managers_down(kubelet: KubeletFacts, allocatable: AllocatableResources) -> str:
    """Return which manager has not started yet; an empty text if they all have."""
    if kubelet.running_cpu_policy == "static" and not allocatable.cpu_ids:
        return "its CPU Manager has not started yet"
    if kubelet.running_memory_policy == "Static" and not allocatable.memory:
        return "its Memory Manager has not started yet"
    return ""


def state_trouble(kubelet: KubeletFacts) -> str:
    """Return which state files were written under another policy than the configured one.

    A kubelet that finds such a file when it starts gives up (Kubernetes 1.35, ``restoreState`` of
    both managers).
    """
    config = kubelet.config
    if config is None:
        return ""
    policies = (
        (CPU_STATE, kubelet.cpu_policy, config.cpu_manager_policy),
        (MEMORY_STATE, kubelet.memory_policy, config.memory_manager_policy),
    )
    differing = [
        f"{file} was written under the policy {was}, and the configuration says {wanted}"
        for file, was, wanted in policies
        if was is not None and was != wanted
    ]
    return "; ".join(differing) + _UNLESS if differing else ""


def group_trouble(state: MemoryManagerState | None) -> str:
    """Return which NUMA nodes are said to be in a group that no pod uses.

    A pod may get memory of a single NUMA node that is in a group already. The kubelet says of the
    node then that it is alone, and goes on saying so when that pod has gone. A kubelet that starts
    works groups out from its pods, and gives up where they differ (Kubernetes 1.35,
    ``validateState`` in ``pkg/kubelet/cm/memorymanager/policy_static.go``).
    """
    if state is None:
        return ""
    used: dict[int, set[tuple[int, ...]]] = {}
    for _, blocks in blocks_by_pod(state):
        for block in blocks:
            for number in block.numa_nodes:
                used.setdefault(number, set()).add(block.numa_nodes)
    odd = [
        f"NUMA node {number} in group {CpuSet.of(node.cells)}, while pods use its memory in group "
        + " and ".join(str(CpuSet.of(group)) for group in sorted(used[number]))
        for number, node in state.machine_state.items()
        if number in used and node.cells not in used[number]
    ]
    if not odd:
        return ""
    return f"{MEMORY_STATE} has {'; '.join(odd)}: until they have ended, no kubelet starts from it"


def start_trouble(kubelet: KubeletFacts, machine: Machine | None, files: StateFiles) -> str:
    """Return why a kubelet would not start from *files*, in its own words; empty if it would."""
    if kubelet.config is None or machine is None or kubelet.version is None:
        return ""
    # While the kubelet is there, an exporter does without the model and its memory.
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.kubelet_versions import NEWEST, behaviour_of, release_of
    from numakube.kubelet.manager_settings import modelled, unmodelled_option
    from numakube.kubelet.settings_from_config import settings_of
    from numakube.kubelet.state_files import restore

    try:
        settings = modelled(settings_of(kubelet.config, machine))
        newer = release_of(kubelet.version) > NEWEST
        if newer and unmodelled_option(settings, behaviour_of(kubelet.version)):
            return ""  # it has options that are unknown here, and starts with them
        restore(KubeletNode(machine, settings, kubernetes=kubelet.version), files)
    except (KubeletStartError, CorruptCheckpoint) as error:
        return f"{error}{_UNLESS}"
    except NumakubeError:
        return ""
    return ""


def pods_not_loaded(expected: Collection[PodName], pods: Sequence[PodResources]) -> str:
    """Return which pods the kubelet has admitted some time and does not list yet."""
    missing = sorted(set(expected) - {(pod.namespace, pod.name) for pod in pods})
    if not missing:
        return ""
    named = ", ".join("/".join(name) for name in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return f"it has not loaded its pods yet: {named}{more}"


def cpus_not_loaded(state: CpuManagerState | None, pods: Sequence[PodResources]) -> str:
    """Return whether pods hold CPUs that the kubelet does not list, for want of the API's word.

    A kubelet that has loaded its pods drops entries of pods that are gone within its reconcile
    period (ten seconds); one that has not keeps them all.
    """
    listed = {(one.name, frozenset(one.cpu_ids)) for pod in pods for one in pod.containers}
    entries = state.entries if state is not None else {}
    missing = sum(
        not any((name, frozenset(cpus)) in listed for name, cpus in containers.items())
        for containers in entries.values()
    )
    return f"it does not list {missing} pods of its cpu_manager_state" if missing else ""
