"""What tools say of measurements: explanations, the doctor, tables, the map, the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from numakube.annexes import Group, load
from numakube.api.pod import Pod
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.explain import explain, pod_subject
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.observations import observed, observer
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod
from numakube.topology.exact_report import uid_hash
from numakube_measured.measurement import (
    ANNOTATION,
    FarInterrupts,
    Guest,
    MeasuredPod,
    MeasuredZone,
    Measurement,
    Settings,
    write_measurement,
)
from numakube_measured.memory_speed import ANNOTATION as SPEED
from numakube_measured.observing import percent, shares_text
from numakube_planning.audit import audit, observed_summary

GIB_MI = 1024


class Scene:
    """A node with one pod that has CPUs for itself, and one that shares."""

    def __init__(self) -> None:
        self.world = World()
        self.world.add_node("worker")
        self.db = self.world.run(pod("db", cpu="2"), "worker")
        self.web = self.world.run(pod("web", cpu="500m"), "worker")

    def facts(self, measurement: Measurement | str) -> ClusterFacts:
        """Return the cluster, with a report that has been given a measurement."""
        text = measurement if isinstance(measurement, str) else write_measurement(measurement)
        facts = self.world.facts()
        report = facts.topologies["worker"]
        annotations = {**report.metadata.annotations, ANNOTATION: text}
        metadata = msgspec.structs.replace(report.metadata, annotations=annotations)
        report = msgspec.structs.replace(report, metadata=metadata)
        return replace(facts, topologies={"worker": report})

    def spilled(self, **more: Any) -> Measurement:
        """Return a measurement by which memory of the pod is elsewhere."""
        fields: dict[str, Any] = {
            "uid": uid_hash(self.db.metadata.uid),
            "zones": (0,),
            "cpu_zones": (0,),
            "memory_mi": {0: 930, 1: 70},
            "since": "2026-11-19T12:00:00Z",
        }
        guest = Guest(uid=uid_hash(self.web.metadata.uid), memory_mi=3 * GIB_MI)
        zone = MeasuredZone(
            id=0,
            total_mi=32 * GIB_MI,
            free_mi=GIB_MI,
            available_mi=2 * GIB_MI,
            guests_mi=3 * GIB_MI,
            guests=(guest,),
        )
        found = MeasuredPod(**{**fields, **more})
        other = MeasuredZone(id=1, total_mi=32 * GIB_MI, available_mi=16 * GIB_MI)
        return Measurement(taken_at="2026-11-19T12:30:00Z", zones=(zone, other), pods=(found,))


@pytest.fixture
def scene() -> Scene:
    """Return a node with two pods."""
    return Scene()


def words_of(facts: ClusterFacts, one: Pod) -> tuple[str, ...]:
    """Return what an explanation of a running pod says of its place."""
    engine = engine_of(facts)
    found = explain(facts, engine, pod_subject(one), ExplainOptions(changes=False))
    assert found.placement is not None
    return found.placement.words


def test_an_explanation_says_where_memory_is_and_who_is_in_the_way(scene: Scene) -> None:
    words = words_of(scene.facts(scene.spilled()), scene.db)
    assert (
        "Measured: 1000Mi of memory, 93% on zone 0, 7% on zone 1; it was promised zone 0 since"
        " 2026-11-19T12:00:00Z."
    ) in words
    assert "Zone 0 has 2Gi left; pods without a place there use 3Gi: default/web 3Gi." in words


def test_an_explanation_says_how_to_move_interrupts(scene: Scene) -> None:
    far = FarInterrupts(
        device="0000:3b:00.1", count=2, numbers=(57, 58), zones=(1,), per_second=900
    )
    words = words_of(scene.facts(scene.spilled(far_interrupts=(far,))), scene.db)
    (told,) = (one for one in words if "0000:3b:00.1" in one)
    assert told.startswith(
        "2 interrupts of 0000:3b:00.1 are taken on zone 1 (900 a second), where the pod is not; on"
        " worker: echo "
    )
    assert told.endswith(" | tee /proc/irq/{57,58}/smp_affinity_list")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"version": 9}', '{"pods": [{"uid": "x", "memoryMi": {"0": -4}}]}', "[" * 9999],
)
def test_what_cannot_be_read_says_nothing(scene: Scene, text: str) -> None:
    facts = scene.facts(text)
    assert not any("easured" in word for word in words_of(facts, scene.db))
    seen = observer("measured").of_pod(observed(facts, "worker"), scene.db)
    assert (seen.is_known, seen.is_bad) == (False, False)
    assert "unknown" in seen.document


def test_a_zone_that_is_not_full_is_in_nobodys_way(scene: Scene) -> None:
    measurement = scene.spilled()
    zones = (msgspec.structs.replace(measurement.zones[0], available_mi=20 * GIB_MI),)
    facts = scene.facts(msgspec.structs.replace(measurement, zones=zones))
    words = words_of(facts, scene.db)
    assert "Zone 0 has 20Gi left now." in words
    assert not any("default/web" in word for word in words)


def test_an_explanation_says_what_the_placement_costs(scene: Scene) -> None:
    facts = scene.facts(scene.spilled(memory_mi={0: 500, 1: 500}))
    node = facts.nodes["worker"]
    annotations = {SPEED: "memory 0 1; 0: 40000 20000; 1: 20000 40000"}
    metadata = msgspec.structs.replace(node.metadata, annotations=annotations)
    node = msgspec.structs.replace(node, metadata=metadata)
    told = words_of(replace(facts, nodes={"worker": node}), scene.db)
    assert "Placed so, it reads memory at 67% of the best bandwidth of its CPUs." in told


def test_names_in_a_measurement_are_those_of_the_cluster(scene: Scene) -> None:
    """A pod that is gone has none."""
    measurement = scene.spilled()
    guest = Guest(uid="gone", memory_mi=GIB_MI)
    zones = (msgspec.structs.replace(measurement.zones[0], guests=(guest,)),)
    facts = scene.facts(msgspec.structs.replace(measurement, zones=zones))
    assert any("a pod that is gone 1Gi" in word for word in words_of(facts, scene.db))


def findings(facts: ClusterFacts) -> dict[str, list[str]]:
    """Return what the doctor finds of measurements, by rule."""
    entries = diagnose(facts, only=["NUMA-MEASURED"]).entries
    return {
        entry.rule.id.removeprefix("NUMA-MEASURED-"): [one.detail for one in entry.findings]
        for entry in entries
    }


def test_the_doctor_finds_what_pods_lack(scene: Scene) -> None:
    far = FarInterrupts(device="0000:3b:00.1", count=1, numbers=(57,), zones=(1,))
    measurement = scene.spilled(far_interrupts=(far,), others=0.2, confined=True)
    found = findings(scene.facts(measurement))
    assert found["MEMORY-ELSEWHERE"] == [
        "93% on zone 0, 7% on zone 1, it was promised zone 0, though its control group has these"
        " zones alone"
    ]
    assert found["CPUS-DISTURBED"] == ["others had 20% of the time of its CPUs"]
    assert found["FAR-INTERRUPTS"][0].startswith("1 interrupt of 0000:3b:00.1 on zone 1")


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (Settings(numa_balancing="1"), "NUMA-BALANCING"),
        (Settings(transparent_huge_pages="always"), "TRANSPARENT-HUGE-PAGES"),
        (Settings(zone_reclaim="7"), "ZONE-RECLAIM"),
    ],
)
def test_the_doctor_finds_settings_that_work_against_pinned_pods(
    scene: Scene, settings: Settings, rule: str
) -> None:
    measurement = msgspec.structs.replace(scene.spilled(), settings=settings)
    assert rule in findings(scene.facts(measurement))
    fine = Settings(numa_balancing="0", transparent_huge_pages="madvise", zone_reclaim="0")
    measurement = msgspec.structs.replace(scene.spilled(), settings=fine)
    assert rule not in findings(scene.facts(measurement))


def test_the_doctor_finds_zones_that_are_fuller_than_the_books_say(scene: Scene) -> None:
    (detail,) = findings(scene.facts(scene.spilled()))["ZONE-FULLER"]
    assert detail.startswith("zone 0: the books have ")
    assert "programs can have 2Gi" in detail


def test_the_doctor_says_nothing_where_nothing_is_measured(scene: Scene) -> None:
    assert findings(scene.world.facts()) == {}


def test_the_audit_tells_promised_from_measured(scene: Scene) -> None:
    facts = scene.facts(scene.spilled())
    found = audit(facts, facts.pods, watcher=observer("measured"))
    assert not found.misaligned
    (db,) = found.disappointed
    assert db.why[1].startswith("The kernel may take its memory from any zone")
    assert (db.name, db.text, db.since) == ("db", "93% local", "2026-11-19T12:00:00Z")
    assert observed_summary(found, "measured") == "0 of 1 pod measured have what was promised."


def test_the_audit_does_not_call_a_pod_fine_that_was_not_measured(scene: Scene) -> None:
    facts = scene.world.facts()
    found = audit(facts, facts.pods, watcher=observer("measured"))
    assert not found.disappointed
    assert observed_summary(found, "measured").startswith(
        "1 pod not measured (nothing is measured on its node"
    )


def test_the_map_tells_zones_as_they_are(scene: Scene) -> None:
    facts = scene.facts(scene.spilled())
    node = observed(facts, "worker")
    picture = node_picture(facts, "worker")
    seen = {zone.id: observer("measured").of_zone(node, zone.id) for zone in picture.zones}
    assert seen[0].words[0] == "programs can have 2Gi of 32Gi, 1Gi of it free"
    assert "default/web 3Gi" in seen[0].words[1]
    assert seen[0].is_bad
    assert not seen[1].is_bad


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.001, "1%"), (0.5, "50%"), (0.999, "99%"), (1.0, "100%")]
)
def test_shares_are_never_rounded_to_nothing_or_everything(share: float, text: str) -> None:
    assert percent(share) == text


def test_many_zones_are_told_in_few_words() -> None:
    assert shares_text(dict.fromkeys(range(34), 10)).endswith("88% on 30 others")


def test_the_entry_points_lead_to_code() -> None:
    assert load(Group.OBSERVATIONS, "measured") is observer("measured")
