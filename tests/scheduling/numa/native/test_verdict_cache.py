"""What is done about nodes that promise less than a pod wants (B21)."""

from __future__ import annotations

import pytest
from tests.kubelet.build import guaranteed
from tests.kubelet.build import pod as pod_with

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.strictness import Leniency, Strictness, strictness_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.numa.native.verdict_cache import broken_promise
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_checks import pod_problems

WANTS = pod_with(guaranteed("main", "4", "4Gi"))
NO_DATA = "node(s) without a usable NodeResourceTopology"


def node(policy: str = "", shape: str = "2 sockets, 8 cores, 32Gi") -> NodeInfo:
    """Return an idle node whose kubelet has *policy*; without one it has no report."""
    cluster, cache = Cluster(), Passthrough()
    cluster.set_node(Node(metadata=ObjectMeta(name="n")))
    if policy:
        settings = KubeletSettings(
            topology_policy=policy, cpu_policy="static", reserved_cpus=CpuSet.parse("0")
        )
        report = nrt_of("n", KubeletNode(from_shape(shape), settings))
        cluster.take(cache.set_report(report), cache)
    found = cluster.node("n")
    assert found is not None
    return found


def annotated(**words: str) -> Pod:
    """Return the pod with annotations; ``_`` stands for ``-``."""
    annotations = {
        f"topology.numakube.dev/{name.replace('_', '-')}": word for name, word in words.items()
    }
    return Pod(metadata=ObjectMeta(annotations=annotations), spec=WANTS.spec)


def outcome(pod: Pod, on: NodeInfo, strictness: Strictness | None = None) -> str | int:
    """Return why *pod* is refused, or how the node is rated."""
    engine = NativeEngine(NativeOptions(strictness=strictness or Strictness()))
    verdict = engine.judge(PodInfo(pod), on)
    if isinstance(verdict, AlignmentRefusal):
        assert verdict.hopeless, "no eviction helps"
        return verdict.message
    return engine.score(CycleState(), PodInfo(pod), on)


def test_b21_nodes_without_data_are_refused_rated_last_or_as_good_as_others() -> None:
    """Rated last unless told otherwise; the pod's word counts before the profile's."""
    unknown = node()
    assert outcome(WANTS, unknown) == 0
    assert outcome(annotated(missing_data="Refuse"), unknown) == NO_DATA
    assert outcome(annotated(missing_data="Allow"), unknown) == 50
    strict = Strictness(missing_data=Leniency.REFUSE)
    assert outcome(WANTS, unknown, strict) == NO_DATA
    assert outcome(annotated(missing_data="Deprioritise"), unknown, strict) == 0


@pytest.mark.parametrize("policy", list(TopologyPolicy))
@pytest.mark.parametrize("asked", list(TopologyPolicy))
def test_b21_a_weaker_policy_is_refused_rated_last_or_as_good_as_others(
    policy: TopologyPolicy, asked: TopologyPolicy
) -> None:
    """From none by best-effort and restricted to single-numa-node; none asks for nothing."""
    on, plain = node(policy), outcome(WANTS, node(policy))
    weaker = list(TopologyPolicy).index(policy) < list(TopologyPolicy).index(asked)
    refused = f"node(s) whose kubelet policy {policy} is weaker than {asked}"
    strict = annotated(required_policy=asked, weaker_policy="Refuse")
    assert outcome(strict, on) == (refused if weaker else plain)
    assert outcome(annotated(required_policy=asked), on) == (0 if weaker else plain)
    assert outcome(annotated(required_policy=asked, weaker_policy="Allow"), on) == plain


def test_b21_a_machine_with_one_zone_keeps_every_promise() -> None:
    """Whatever its kubelet's policy is."""
    on = node("none", "1 socket, 8 cores, 32Gi")
    asked = annotated(required_policy="single-numa-node", weaker_policy="Refuse")
    assert outcome(asked, on) == outcome(WANTS, on)


def test_close_devices_are_not_promised_where_connections_are_unknown() -> None:
    """As without a report."""
    refused = broken_promise(strictness_of({"numakube.dev/closeness": "same-root"}), None)
    assert refused is not None
    assert refused.kind is Kind.CLOSENESS


def test_b21_pods_that_want_nothing_aligned_go_anywhere() -> None:
    """There is nothing that a report could promise them."""
    strict = Strictness(missing_data=Leniency.REFUSE, weaker_policy=Leniency.REFUSE)
    assert outcome(Pod(), node(), strict) == 100


def test_b21_a_word_that_is_not_known_places_the_pod_nowhere() -> None:
    """Scheduler, check and webhook say the same."""
    pod = annotated(missing_data="refuse", weaker_policy="Never")
    place = "metadata.annotations[topology.numakube.dev/missing-data]"
    first = f"{place}: unknown word 'refuse': use one of Allow, Deprioritise, Refuse"
    assert strictness_of(pod.metadata.annotations).mistakes[0] == first
    assert pod_problems(pod)[0] == first
    verdict = NativeEngine().judge(PodInfo(pod), node("single-numa-node"))
    assert isinstance(verdict, AlignmentRefusal)
    assert (verdict.kind, verdict.message.startswith(first)) == (Kind.ANNOTATION, True)
