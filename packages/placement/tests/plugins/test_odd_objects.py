"""Objects that make no sense: they count as saying nothing, and stop neither pod nor process."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packages.placement.tests.plugins.wishes import KoordinatorScheduler, pod

from numakube.api.koordinator import keys
from numakube.api.meta import ObjectMeta
from numakube.scheduling.cycle import Chosen, Refused
from numakube.testing import running

LABELS = (keys.NODE_POLICY, keys.NODE_SCOPE, keys.NODE_BIND_POLICY, keys.NODE_STRATEGY)
NODE_KEYS = (keys.NODE_RESERVATION, keys.NODE_SYSTEM_QOS, keys.NODE_AMPLIFICATION)
REPORT_KEYS = (keys.CPU_TOPOLOGY, keys.CPU_MANAGER_POLICY, keys.POD_CPU_ALLOCS)
POD_KEYS = (*keys.POD_HOLDING, keys.NUMA_TOPOLOGY_SPEC, keys.DEVICE_JOINT_ALLOCATE)

WORDS = st.sampled_from(
    ("", "None", "SingleNUMANode", "Restricted", "pod", "container", "FullPCPUsOnly", "nonsense")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 70) | st.floats() | WORDS | st.just("0-3,900"),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("cpu", "cpuset", "numaNodeResources", "node", "resources", "detail", "id", "core",
                 "socket", "reservedCPUs", "policy", "containers", "name", "gpu", "minor",
                 "numaTopologyPolicy", "requiredCPUBindPolicy", "deviceTypes")
            ),
            below,
            max_size=4,
        )
    ),
    max_leaves=8,
)  # fmt: skip
TEXTS = VALUES.map(lambda value: msgspec.json.encode(value).decode()) | st.text(max_size=8)


def oddly(*names: str) -> st.SearchStrategy[dict[str, str]]:
    """Return annotations of which some have texts that may mean anything."""
    return st.dictionaries(st.sampled_from(names), TEXTS, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    labels=st.dictionaries(st.sampled_from(LABELS), WORDS, max_size=3),
    of_node=oddly(*NODE_KEYS),
    of_report=oddly(*REPORT_KEYS),
    of_pods=st.lists(oddly(*POD_KEYS), max_size=2),
    of_pod=oddly(*POD_KEYS),
)
def test_one_odd_object_spoils_nothing_for_the_others(
    labels: dict[str, str],
    of_node: dict[str, str],
    of_report: dict[str, str],
    of_pods: list[dict[str, str]],
    of_pod: dict[str, str],
) -> None:
    """A pod that wants one NUMA node still gets one on the node beside the odd one."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("odd", labels=labels, annotations=of_node, reported=False)
    report = scheduler.report("odd")
    told = {**report.metadata.annotations, **of_report}
    metadata = ObjectMeta(name="odd", annotations=told, resource_version="3")
    scheduler.set_report(msgspec.structs.replace(report, metadata=metadata))
    for number, brought in enumerate(of_pods):
        scheduler.see(running(pod(f"there-{number}", annotations=brought), "odd"))
    assert isinstance(
        scheduler.decide(pod("odd", annotations=of_pod, bound=True)), Chosen | Refused
    )
    scheduler.add_node("sane")
    spec = {"numaTopologyPolicy": "SingleNUMANode"}
    assert isinstance(scheduler.decide(pod("p", cpu="4", spec=spec, bound=True)), Chosen)
