"""What namespaces hold, and what is stranded because of their pods."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts
from numakube.insight.usage.namespace_usage import NOBODY, NamespaceUsage, _parts, namespace_usages
from numakube.insight.usage.zone_usage import node_usage
from numakube.testing import World, pod

GPU = "vendor.example/gpu"


def of(namespace: str, name: str, **amounts: str) -> Pod:
    made = pod(name, **amounts)
    return replace(made, metadata=replace(made.metadata, namespace=namespace))


def usages(facts: ClusterFacts) -> dict[str, NamespaceUsage]:
    return {usage.namespace: usage for usage in namespace_usages(facts, facts.nodes)}


def test_pods_are_added_up_by_namespace() -> None:
    world = World()
    world.add_node("node-a")
    world.run(of("web", "one", cpu="4", memory="2Gi"), "node-a")
    world.run(of("web", "two", cpu="2", memory="1Gi"), "node-a")
    world.run(of("ai", "train", cpu="1", memory="1Gi", gpu="1"), "node-a")
    found = usages(world.facts())
    web, train = found["web"], found["ai"]
    assert (web.pods, web.cpus, web.memory["memory"], web.aligned) == (2, 6, 3 << 30, 2)
    assert (train.pods, train.devices[GPU]) == (1, 1)


def test_who_holds_the_cpus_of_a_zone_strands_its_devices() -> None:
    world = World()
    world.add_node("node-a")
    # Zone 0 has 7 CPUs, 15Gi and 2 GPUs; one CPU is left over, and then none.
    world.run(of("web", "most", cpu="5", memory="1Gi"), "node-a")
    world.run(of("ai", "some", cpu="2", memory="1Gi"), "node-a")
    facts = world.facts()
    _, (zone, other) = node_usage(facts, "node-a")
    assert (zone.stranded[GPU], other.stranded) == (2, {})
    found = usages(facts)
    assert (found["web"].strands[GPU], found["ai"].strands[GPU]) == (1, 1)
    # All of the zone's free memory, 13Gi, by 5 to 2.
    total = zone.stranded["memory"]
    assert found["web"].strands["memory"] == round(total * 5 / 7)
    assert NOBODY not in found


def test_what_nobody_holds_for_himself_is_stranded_by_nobody() -> None:
    world = World()
    world.add_node("node-a")
    world.run(of("web", "all", cpu="7", memory="1Gi"), "node-a")
    facts = world.facts(exact=False)
    found = usages(facts)
    assert found["web"].unknown == 1
    assert found["web"].strands == Counter()
    assert found[NOBODY].strands[GPU] == 2
    assert [usage.namespace for usage in namespace_usages(facts, facts.nodes)][-1] == NOBODY


def test_only_the_nodes_asked_about_count() -> None:
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name)
        world.run(of(f"of-{name}", f"p-{name}", cpu="2", memory="1Gi"), name)
    facts = world.facts()
    assert [usage.namespace for usage in namespace_usages(facts, ["node-b"])] == ["of-node-b"]


@given(
    st.integers(0, 1 << 40),
    st.dictionaries(st.text("abc", max_size=2), st.integers(0, 1 << 40), max_size=5),
)
def test_the_parts_are_the_whole_and_in_proportion(amount: int, weights: dict[str, int]) -> None:
    parts = _parts(amount, weights)
    assert sum(parts.values()) == amount
    total = sum(weights.values())
    for name, part in parts.items():
        if total:
            assert abs(part - amount * weights[name] / total) <= 1 + amount / (1 << 50)
