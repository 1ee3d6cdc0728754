"""Models of kubelets that start: copied for nodes that are alike, each on its own afterwards."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.nodes.build import plan

from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.state_files import save
from numakube.testing.pods import pod
from numakube_lab.nodes.kubelet_admission import FreshModels


def test_what_a_pod_gets_on_one_node_stays_free_on_nodes_like_it() -> None:
    """Before the pod came and after it."""
    first, models = plan("n1"), FreshModels()
    alike = [models.of(replace(first, name=name)) for name in ("n1", "n2")]
    untouched = save(alike[1])
    assert isinstance(alike[0].admit(pod("a")), Admitted)
    later = models.of(replace(first, name="n3"))
    assert alike[0].shared_cpus != alike[1].shared_cpus
    assert save(alike[1]) == save(later) == untouched


def test_nodes_that_differ_have_models_that_differ() -> None:
    """In their machine, their configuration or their version."""
    models = FreshModels()
    plain, old = models.of(plan("n1")), models.of(plan("n2", kubernetes="1.31"))
    reserved = models.of(plan("n3", reserved_system_cpus="0-1,8-9"))
    large = models.of(plan("n4", "2 sockets, 8 cores, smt 2, 32Gi"))
    assert old.behaviour != plain.behaviour
    assert reserved.settings != plain.settings
    assert large.machine != plain.machine
