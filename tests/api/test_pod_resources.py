"""What a pod amounts to: QoS class and effective requests."""

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.api.pod_resources import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    compute_qos_class,
    effective_limits,
    effective_requests,
    has_pod_level_resources,
    qos_class,
)
from numakube.values.quantity import parse_quantity


def container(name: str = "c", restart: str | None = None, **quantities: Any) -> dict[str, Any]:
    """Return a container whose limits equal its requests, unless ``limits`` is given."""
    limits = quantities.pop("limits", quantities)
    body: dict[str, Any] = {"name": name, "resources": {"requests": quantities, "limits": limits}}
    return body | ({"restartPolicy": restart} if restart else {})


def pod(*containers: dict[str, Any], init: Any = (), status: Any = None, **spec: Any) -> Pod:
    """Return a pod of these containers."""
    body = {"containers": list(containers), "initContainers": list(init), **spec}
    return convert(Pod, {"metadata": {"name": "p"}, "spec": body, "status": status})


def requests(of: Pod, **options: Any) -> dict[str, str]:
    """Return the effective requests as text."""
    return {name: str(one) for name, one in effective_requests(of, **options).items()}


def test_equal_requests_and_limits_of_all_containers_make_a_pod_guaranteed() -> None:
    """Init containers count, and zero is as good as nothing."""
    full = container(cpu="1", memory="1Gi")

    assert compute_qos_class(pod(full)) == GUARANTEED
    assert compute_qos_class(pod(full, init=[container("i", cpu="1", memory="1Gi")])) == GUARANTEED
    assert compute_qos_class(pod(full, container("d"))) == BURSTABLE
    assert compute_qos_class(pod(full, {"name": "bare"})) == BURSTABLE
    assert compute_qos_class(pod(full, init=[container("i", cpu="1")])) == BURSTABLE
    assert compute_qos_class(pod(container(cpu="1", memory="0"))) == BURSTABLE


def test_a_pod_without_cpu_and_memory_is_best_effort() -> None:
    """Devices and hugepages do not matter."""
    assert compute_qos_class(pod({"name": "c"})) == BEST_EFFORT
    assert compute_qos_class(pod(container(**{"vendor.example/gpu": "1"}))) == BEST_EFFORT
    assert compute_qos_class(pod(container(cpu="0"))) == BEST_EFFORT


def test_requests_below_limits_are_burstable() -> None:
    """Also if they only differ in sum."""
    low = container(cpu="1", memory="1Gi", limits={"cpu": "2", "memory": "1Gi"})

    assert compute_qos_class(pod(low)) == BURSTABLE


def test_the_recorded_class_wins() -> None:
    """The API server fixes the class for the life of the pod."""
    assert qos_class(pod({"name": "c"}, status={"qosClass": GUARANTEED})) == GUARANTEED
    assert qos_class(pod({"name": "c"}, status={})) == BEST_EFFORT


def test_koordinator_resources_decide_the_class_alone() -> None:
    """What the containers say does not matter then."""
    equal = {"cpu": "2", "memory": "2Gi"}
    whole = pod({"name": "c"}, resources={"requests": equal, "limits": equal})
    part = pod(container(cpu="1", memory="1Gi"), resources={"requests": {"cpu": "2"}})
    no_memory = pod({"name": "c"}, resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})

    assert compute_qos_class(whole) == GUARANTEED
    assert compute_qos_class(part) == BURSTABLE
    assert compute_qos_class(part, pod_level_resources=False) == GUARANTEED
    assert compute_qos_class(no_memory) == BURSTABLE


def test_empty_pod_level_resources_count_before_kubernetes_1_37() -> None:
    """Since 1.37 the containers decide."""
    empty = pod(container(cpu="1", memory="1Gi"), resources={})

    assert not has_pod_level_resources(empty)
    assert compute_qos_class(empty) == BEST_EFFORT
    assert compute_qos_class(empty, empty_counts=False) == GUARANTEED


def test_koordinator_resources_are_those_that_may_be_set_there() -> None:
    """CPU, memory and hugepages, in requests or in limits."""
    assert has_pod_level_resources(pod(resources={"limits": {"hugepages-2Mi": "2Mi"}}))
    assert not has_pod_level_resources(pod(resources={"requests": {"vendor.example/gpu": "1"}}))
    assert not has_pod_level_resources(pod())


@pytest.mark.parametrize(
    ("init", "app", "total"),
    [
        (["2"], ["5"], "5"),
        (["5"], ["2"], "5"),
        (["2", "4"], ["2", "4"], "6"),
        (["1!"], ["1"], "2"),
        (["5", "1!", "2!", "3!"], ["1"], "7"),
        (["5", "1!", "2!", "5", "3!"], ["1"], "8"),
        (["10!", "200"], ["100"], "210"),
    ],
)
def test_init_containers_and_sidecars_add_up(init: list[str], app: list[str], total: str) -> None:
    """``!`` marks a sidecar; a plain init container runs beside the sidecars before it."""
    inits = [
        container(f"i{n}", "Always" if "!" in cpu else None, cpu=cpu.rstrip("!"))
        for n, cpu in enumerate(init)
    ]
    apps = [container(f"c{n}", cpu=cpu) for n, cpu in enumerate(app)]

    assert requests(pod(*apps, init=inits)) == {"cpu": total}


def test_overhead_is_added_and_pod_level_resources_replace_the_sums() -> None:
    """Devices stay as the containers ask for them."""
    one = pod(
        container(cpu="1", **{"vendor.example/gpu": "1"}),
        overhead={"cpu": "250m", "memory": "64Mi"},
        resources={"requests": {"cpu": "4"}},
    )

    assert requests(one) == {"cpu": "4250m", "memory": "64Mi", "vendor.example/gpu": "1"}
    assert requests(one, overhead=False) == {"cpu": "4", "vendor.example/gpu": "1"}
    assert requests(one, pod_level_resources=False)["cpu"] == "1250m"


def test_limits_get_overhead_only_where_there_is_a_limit() -> None:
    """No limit plus overhead is still no limit."""
    one = pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "64Mi"})

    assert {name: str(limit) for name, limit in effective_limits(one).items()} == {"cpu": "1250m"}
    assert effective_limits(one, overhead=False) == {"cpu": parse_quantity("1")}
    level = pod(container(cpu="1"), resources={"limits": {"cpu": "3"}})
    assert effective_limits(level) == {"cpu": parse_quantity("3")}


def test_defaults_stand_in_for_missing_requests() -> None:
    """An explicit zero is not missing."""
    one = pod(container("a", cpu="0"), container("b", cpu="1"), {"name": "c"})

    assert requests(one, defaults={"cpu": parse_quantity("100m")}) == {"cpu": "1100m"}


def test_a_resize_counts_as_the_larger_of_asked_and_given() -> None:
    """Unless the kubelet has refused it for good; plain init containers cannot be resized."""
    given = {"requests": {"cpu": "3"}}
    statuses = [{"name": "c", "resources": given, "allocatedResources": {"cpu": "2"}}]
    inits = [{"name": "i", "resources": {"requests": {"cpu": "9"}}}]
    status = {"containerStatuses": statuses, "initContainerStatuses": inits}
    refused = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    }
    asking = container("c", cpu="1"), container("new", cpu="5")

    one = pod(container("c", cpu="1"), init=[container("i", cpu="1")], status=status)

    assert requests(one) == {"cpu": "1"}
    assert requests(one, from_status=True) == {"cpu": "3"}
    shrunk = pod(container("c", cpu="7"), status=status | refused)
    assert requests(shrunk, from_status=True) == {"cpu": "3"}
    assert requests(pod(*asking, status=status), from_status=True) == {"cpu": "8"}
    assert requests(pod(container(cpu="1")), from_status=True) == {"cpu": "1"}
