"""What must hold in every world once it is quiet; each oracle yields what does not.

They know the kubelets' own books and the objects of the API server. Where a tool is judged, its
answer is compared with what schedulers and kubelets have really done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tests.worlds.oracles.books import (
    audit_says_where_pods_are,
    caches_equal_a_fresh_list,
    maps_show_who_holds_what,
    namespaces_have_what_their_pods_have,
    no_zone_holds_more_than_it_has,
    schedulers_count_on_nothing_that_is_held,
    schedulers_know_what_is_free,
    tools_show_what_kubelets_hold,
)
from tests.worlds.oracles.claimed_devices import (
    claimed_devices_are_near,
    no_pod_waits_for_devices_that_are_near,
)
from tests.worlds.oracles.confinement import enforcers_keep_pods_on_their_cpus
from tests.worlds.oracles.domains import gangs_are_where_they_asked_to_be
from tests.worlds.oracles.figures import figures_are_the_same_everywhere
from tests.worlds.oracles.findings import Finding, Oracle
from tests.worlds.oracles.measurements import (
    measurements_are_true,
    nothing_is_measured_to_be_elsewhere,
)
from tests.worlds.oracles.notices import (
    a_quiet_cluster_is_quiet,
    doctor_is_right,
    doctor_tells_of_pods_that_fit,
    events_are_true,
    nothing_is_logged_as_an_error,
)
from tests.worlds.oracles.owned_cpus import (
    claims_have_cpus_of_their_own,
    no_pod_waits_for_cpus_that_claims_can_have,
)
from tests.worlds.oracles.placement import (
    explanations_of_nodes_and_claims_are_true,
    no_kubelet_rejects_a_pod,
    no_pod_is_bound_twice,
    no_pod_of_the_stock_scheduler_waits_that_fits,
    no_pod_waits_that_fits,
    nobody_is_evicted_in_vain,
    pods_run_where_their_disks_are,
    schedulers_say_what_fits,
    simulation_says_what_fits,
    the_webhook_refuses_what_cannot_run,
)
from tests.worlds.oracles.zone_relations import pods_are_in_the_zones_that_they_insist_on
from tests.worlds.virtual_lab import Lab

__all__ = ["ORACLES", "Finding", "Oracle", "asked"]

ORACLES: Final[tuple[Oracle, ...]] = (
    no_pod_is_bound_twice,
    no_kubelet_rejects_a_pod,
    nothing_is_logged_as_an_error,
    no_zone_holds_more_than_it_has,
    schedulers_count_on_nothing_that_is_held,
    schedulers_know_what_is_free,
    caches_equal_a_fresh_list,
    no_pod_waits_that_fits,
    no_pod_of_the_stock_scheduler_waits_that_fits,
    pods_run_where_their_disks_are,
    nobody_is_evicted_in_vain,
    schedulers_say_what_fits,
    simulation_says_what_fits,
    the_webhook_refuses_what_cannot_run,
    tools_show_what_kubelets_hold,
    maps_show_who_holds_what,
    audit_says_where_pods_are,
    namespaces_have_what_their_pods_have,
    explanations_of_nodes_and_claims_are_true,
    enforcers_keep_pods_on_their_cpus,
    claimed_devices_are_near,
    no_pod_waits_for_devices_that_are_near,
    pods_are_in_the_zones_that_they_insist_on,
    claims_have_cpus_of_their_own,
    no_pod_waits_for_cpus_that_claims_can_have,
    gangs_are_where_they_asked_to_be,
    figures_are_the_same_everywhere,
    measurements_are_true,
    nothing_is_measured_to_be_elsewhere,
    events_are_true,
    a_quiet_cluster_is_quiet,
    doctor_is_right,
    doctor_tells_of_pods_that_fit,
)


async def asked(lab: Lab) -> AsyncIterator[Finding]:
    """Ask all oracles."""
    for oracle in ORACLES:
        async for text in oracle(lab):
            yield Finding(oracle.__name__, text)
