"""Claims that are written for pods: what is asked for, who uses it, and who is left alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.api.pod_resources import effective_requests
from numakube.api.resource_slices import (
    CELDeviceSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
)
from numakube.errors import InvalidValue
from numakube.values.quantity import parse_quantity
from numakube_dra_driver.claims.claim_writing import (
    RECORD,
    LeftAlone,
    Policy,
    Scope,
    Wish,
    Written,
    read_record,
    template_of,
    without_claims,
    write_claims,
)
from numakube_dra_driver.claims.served_resources import LABEL, ServedBy, serving_of

SERVING = {
    "cpu": ServedBy("numa-cpus"),
    "memory": ServedBy("numa-memory"),
    "hugepages-2Mi": ServedBy("numa-hugepages-2mi"),
    "intel.com/vfs": ServedBy("vfs"),
    "gpu.example/gpu": ServedBy("gpus", is_ours=False),
}
CPUS_ALONE = {"cpu": SERVING["cpu"]}


def container(name: str = "app", **amounts: str) -> dict[str, Any]:
    """Return a container that asks for amounts: ``cpu="4"``, ``memory="1Gi"``."""
    limits = {"memory": "1Gi", **{_RESOURCES.get(key, key): one for key, one in amounts.items()}}
    return {"name": name, "image": "i", "resources": {"limits": limits, "requests": dict(limits)}}


_RESOURCES = {"vfs": "intel.com/vfs", "gpus": "gpu.example/gpu", "huge": "hugepages-2Mi"}


def sidecar(name: str = "side", **amounts: str) -> dict[str, Any]:
    """Return an init container that goes on running."""
    return {**container(name, **amounts), "restartPolicy": "Always"}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Any:
    """Return a pod."""
    whole = {"containers": list(containers), **spec}
    return {
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {**whole, "initContainers": list(init)} if init else whole,
    }


def written(tree: Any, wish: Wish | None = None, serving: Any = SERVING) -> Written:
    """Return the pod with its claim, which it must get."""
    found = write_claims(tree, wish or Wish(), serving)
    assert isinstance(found, Written), found
    return found


def asked(found: Written) -> dict[str, str]:
    """Return what is asked for: amount and class by the names of requests."""
    requests = found.template["spec"]["spec"]["devices"]["requests"]
    return {one["name"]: _amount(one["exactly"]) for one in requests}


def _amount(exactly: dict[str, Any]) -> str:
    (amount,) = exactly.get("capacity", {}).get("requests", {"": exactly.get("count")}).values()
    return f"{amount} {exactly['deviceClassName']}"


def uses(found: Written) -> dict[str, str]:
    """Return which request each container names; ``*`` for the whole claim."""
    spec = found.pod["spec"]
    return {
        one["name"]: use.get("request", "*")
        for one in (*spec.get("initContainers", ()), *spec["containers"])
        for use in one["resources"].get("claims", ())
    }


def constraints(found: Written) -> Any:
    """Return the constraints of the template."""
    return found.template["spec"]["spec"]["devices"].get("constraints", [])


NUMA = "resource.kubernetes.io/numaNode"
SHAPES: list[tuple[str, Any, dict[str, str], dict[str, str]]] = [
    (
        "one container",
        pod(container(cpu="4")),
        {"c0": "4 numa-cpus", "c0-memory": "1Gi numa-memory"},
        {"app": "*"},
    ),
    (
        "hugepages and devices",
        pod(container(cpu="2", huge="4Mi", vfs="2")),
        {
            "c0": "2 numa-cpus",
            "c0-hugepages-2mi": "4Mi numa-hugepages-2mi",
            "c0-memory": "1Gi numa-memory",
            "c0-vfs-3": "2 vfs",
        },
        {"app": "*"},
    ),
    (
        "a device of another driver",
        pod(container(cpu="2", gpus="1")),
        {"c0": "2 numa-cpus", "c0-memory": "1Gi numa-memory", "c0-gpu-2": "1 gpus"},
        {"app": "*"},
    ),
    (
        "two containers with CPUs, and one without",
        pod(container(cpu="4"), container("log", cpu="100m"), container("db", cpu="2")),
        {
            "c0": "4 numa-cpus",
            "c0-memory": "1Gi numa-memory",
            "c2": "2 numa-cpus",
            "c2-memory": "1Gi numa-memory",
        },
        {"app": "c0", "db": "c2"},
    ),
    (
        "a container with a device and a part of a CPU",
        pod(container(cpu="4"), container("net", cpu="500m", vfs="1")),
        {"c0": "4 numa-cpus", "c0-memory": "1Gi numa-memory", "c1": "1 vfs"},
        {"app": "c0", "net": "c1"},
    ),
    (
        "a sidecar with CPUs",
        pod(container(cpu="4"), init=(sidecar(cpu="2"),)),
        {
            "c0": "4 numa-cpus",
            "c0-memory": "1Gi numa-memory",
            "s0": "2 numa-cpus",
            "s0-memory": "1Gi numa-memory",
        },
        {"side": "s0", "app": "c0"},
    ),
    (
        "an init container before a larger container",
        pod(container(cpu="4"), container("db", cpu="2"), init=(container("load", cpu="3"),)),
        {
            "c0": "4 numa-cpus",
            "c0-memory": "1Gi numa-memory",
            "c1": "2 numa-cpus",
            "c1-memory": "1Gi numa-memory",
        },
        {"load": "c0", "app": "c0", "db": "c1"},
    ),
    (
        "an init container that needs what several have together",
        pod(container(cpu="4"), container("db", cpu="2"), init=(container("load", cpu="6"),)),
        {
            "c0": "4 numa-cpus",
            "c0-memory": "1Gi numa-memory",
            "c1": "2 numa-cpus",
            "c1-memory": "1Gi numa-memory",
        },
        {"load": "*", "app": "c0", "db": "c1"},
    ),
    (
        "an init container that needs more than the only container",
        pod(container(cpu="4"), init=(container("load", cpu="6", memory="2Gi"),)),
        {"c0": "6 numa-cpus", "c0-memory": "2Gi numa-memory"},
        {"load": "*", "app": "*"},
    ),
    (
        "an init container without whole CPUs",
        pod(container(cpu="4"), init=(container("wait", cpu="100m"),)),
        {"c0": "4 numa-cpus", "c0-memory": "1Gi numa-memory"},
        {"app": "*"},
    ),
    (
        "an init container with the devices of the container after it",
        pod(container(cpu="4", vfs="1"), init=(container("probe", cpu="100m", vfs="1"),)),
        {"c0": "4 numa-cpus", "c0-memory": "1Gi numa-memory", "c0-vfs-2": "1 vfs"},
        {"probe": "*", "app": "*"},
    ),
    (
        "limits alone",
        pod({"name": "app", "resources": {"limits": {"cpu": "2", "memory": "64Mi"}}}),
        {"c0": "2 numa-cpus", "c0-memory": "64Mi numa-memory"},
        {"app": "*"},
    ),
    (
        "an amount as a number",
        pod({"name": "app", "resources": {"limits": {"cpu": 2, "memory": 67108864}}}),
        {"c0": "2 numa-cpus", "c0-memory": "64Mi numa-memory"},
        {"app": "*"},
    ),
]


@pytest.mark.parametrize(
    ("tree", "requests", "users"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES]
)
def test_a_pod_asks_by_claim_for_what_it_asked_for(
    tree: Any, requests: dict[str, str], users: dict[str, str]
) -> None:
    found = written(tree)
    assert asked(found) == requests
    assert uses(found) == users
    assert constraints(found) == ([{"matchAttribute": NUMA}] if len(requests) > 1 else [])


@pytest.mark.parametrize("tree", [s[1] for s in SHAPES], ids=[s[0] for s in SHAPES])
@pytest.mark.parametrize("serving", [SERVING, CPUS_ALONE])
def test_a_second_call_changes_nothing_and_the_first_can_be_taken_back(
    tree: Any, serving: Any
) -> None:
    found = write_claims(tree, Wish(), serving)
    assert isinstance(found, Written)
    again = written(found.pod, serving=serving)
    assert again == found
    back = without_claims(found.pod)
    for document in (back, tree):
        for part in ("annotations", "labels"):
            document["metadata"].pop(part, None)
    assert back == tree


def test_what_another_webhook_changes_is_followed() -> None:
    found = written(pod(container(cpu="4")))
    for part in ("limits", "requests"):
        found.pod["spec"]["containers"][0]["resources"][part]["cpu"] = "6"
    assert asked(written(found.pod))["c0"] == "6 numa-cpus"
    found.pod["spec"]["containers"].append({"name": "injected", "image": "i"})
    assert isinstance(write_claims(found.pod, Wish(), SERVING), LeftAlone)


def test_requests_stay_and_devices_of_the_claim_leave_them() -> None:
    """What is counted from requests is what was; a device is not asked for twice."""
    tree = pod(container(cpu="2", vfs="1", huge="4Mi"))
    before = tree["spec"]["containers"][0]["resources"]["requests"]
    resources = written(tree).pod["spec"]["containers"][0]["resources"]
    kept = {name: one for name, one in before.items() if name != "intel.com/vfs"}
    assert resources["requests"] == resources["limits"] == kept


def test_a_resource_that_no_class_serves_stays_and_is_remarked_on() -> None:
    found = written(pod(container(cpu="2", vfs="1")), serving=CPUS_ALONE)
    assert asked(found) == {"c0": "2 numa-cpus"}
    assert found.pod["spec"]["containers"][0]["resources"]["limits"]["intel.com/vfs"] == "1"
    (remark,) = found.remarks
    assert "no DeviceClass serves intel.com/vfs" in remark


def test_of_several_containers_none_gets_a_device_that_it_could_not_name() -> None:
    """Another driver would give it to whoever names its request, which nobody does."""
    found = written(pod(container(cpu="2", gpus="1"), container("db", cpu="2")))
    assert "gpus" not in str(asked(found))
    assert found.pod["spec"]["containers"][0]["resources"]["limits"]["gpu.example/gpu"] == "1"
    assert "class gpus is of another driver" in found.remarks[0]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(), [{"matchAttribute": NUMA}]),
        (Wish(policy=Policy.SOCKET), [{"matchAttribute": "numakube.dev/socket"}]),
        (Wish(policy=Policy.NONE), []),
        (
            Wish(scope=Scope.CONTAINER),
            [
                {"matchAttribute": NUMA, "requests": ["c0", "c0-memory"]},
                {"matchAttribute": NUMA, "requests": ["c1", "c1-memory"]},
            ],
        ),
    ],
)
def test_what_devices_have_in_common_is_wished_for(wish: Wish, expected: Any) -> None:
    tree = pod(container(cpu="2"), container("db", cpu="2"))
    assert constraints(written(tree, wish)) == expected


def test_requests_come_together_where_containers_can_name_one_alone() -> None:
    """The driver is told so; a claim that one container has as a whole needs no such word."""
    devices = written(pod(container(cpu="2"), container("db", cpu="2"))).template
    (config,) = devices["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"]["bundle"] is True
    for tree, serving in (
        (pod(container(cpu="2")), SERVING),
        (pod(container(cpu="2"), container("db", cpu="2")), CPUS_ALONE),
    ):
        found = written(tree, serving=serving)
        assert "config" not in found.template["spec"]["spec"]["devices"]


BURSTABLE = {"name": "app", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}


def annotated(**annotations: str) -> Any:
    """Return a pod with annotations of ours."""
    tree = pod(container(cpu="2"))
    tree["metadata"]["annotations"] = {
        f"numakube.dev/{key}": value for key, value in annotations.items()
    }
    return tree


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        (pod(BURSTABLE), "it is Burstable"),
        (pod({"name": "app"}), "it is BestEffort"),
        (pod(container(cpu="2"), BURSTABLE), "it is Burstable"),
        (pod(container(cpu="1500m")), "no container asks for whole CPUs"),
        (pod(container(cpu="2"), resourceClaims=[{"name": "mine"}]), "it has claims of its own"),
        (pod(container(cpu="2"), nodeName="n1"), "it is bound to node n1"),
        (pod(container(cpu="2"), os={"name": "windows"}), "it is for Windows"),
        (pod(container(cpu="2"), resources={"limits": {"cpu": "2"}}), "for the pod as a whole"),
        (annotated(claims="false"), "numakube.dev/claims: false"),
        (
            pod(container(cpu="2"), container("b", cpu="2"), init=(container("load", cpu="8"),)),
            "init container load needs more than the containers after it",
        ),
        (
            pod(container(cpu="2"), init=(sidecar(cpu="1"), container("load", cpu="4"))),
            "init container load needs more",
        ),
        (pod(container(cpu="2", vfs="40")), "it would need 42 devices"),
    ],
)
def test_pods_for_which_no_claim_would_do_are_left_alone(tree: Any, why: str) -> None:
    found = write_claims(tree, Wish(), SERVING)
    assert isinstance(found, LeftAlone)
    assert why in found.why


def test_static_pods_are_left_alone() -> None:
    tree = pod(container(cpu="2"))
    tree["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert isinstance(write_claims(tree, Wish(), SERVING), LeftAlone)


def test_without_the_drivers_class_nothing_is_written() -> None:
    """A claim that nobody can serve would keep the pod from running."""
    found = write_claims(pod(container(cpu="2")), Wish(), {})
    assert isinstance(found, LeftAlone)
    assert "is the DRA driver deployed?" in found.why


def test_pods_that_are_alike_share_a_template() -> None:
    one, other = pod(container(cpu="2")), pod(container(cpu="2", image="x"))
    other["metadata"]["name"] = "q"
    del other["spec"]["containers"][0]["resources"]["limits"]["image"]
    del other["spec"]["containers"][0]["resources"]["requests"]["image"]
    names = {written(tree).template["metadata"]["name"] for tree in (one, other)}
    assert len(names) == 1
    assert written(pod(container(cpu="3"))).template["metadata"]["name"] not in names


def test_the_record_makes_the_template_again() -> None:
    found = written(pod(container(cpu="2", vfs="1"), container("db", cpu="2")))
    record = read_record(found.pod["metadata"]["annotations"][RECORD])
    assert template_of(record, "shop") == found.template


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 10_000,
        '{"policy":"none","scope":"pod","requests":[]}',
        '{"policy":"none","scope":"pod","requests":[],"adminAccess":true}',
        '{"policy":"best","scope":"pod","requests":[{"name":"a","container":"a","resource":"cpu",'
        '"class":"c","amount":1}]}',
        '{"policy":"none","scope":"pod","requests":[{"name":"a","container":"a","resource":"cpu",'
        '"class":"c","amount":-1}]}',
        '{"policy":"none","scope":"pod","requests":[{"name":"a","container":"a","resource":"cpu",'
        '"class":"c","amount":1,"adminAccess":true}]}',
        " " * 20_000,
    ],
)
def test_a_record_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=RECORD):
        read_record(text)


def test_classes_serve_what_they_say() -> None:
    def device_class(name: str, resource: str = "", rule: str = "", **labels: str) -> DeviceClass:
        selectors = (DeviceSelector(cel=CELDeviceSelector(expression=rule)),) if rule else ()
        return DeviceClass(
            metadata=ObjectMeta(name=name, labels=labels),
            spec=DeviceClassSpec(extended_resource_name=resource or None, selectors=selectors),
        )

    serving = serving_of(
        [
            device_class("numa-cpus"),
            device_class("vfs", "intel.com/vfs", 'device.driver == "numakube.dev" && true'),
            device_class("gpus", "gpu.example/gpu", 'device.driver == "gpu.example"'),
            device_class("no", "gpu.example/other", **{LABEL: "false"}),
            device_class("bare"),
        ]
    )
    named = {name: one for name, one in serving.items() if "deviceclass." not in name}
    assert named == {
        "cpu": ServedBy("numa-cpus"),
        "intel.com/vfs": ServedBy("vfs"),
        "gpu.example/gpu": ServedBy("gpus", is_ours=False),
    }


CPU_TEXTS = st.sampled_from(["1", "2", "4", "500m", "1500m", "3000m"])


@st.composite
def pods(draw: st.DrawFn) -> Any:
    """Return a Guaranteed pod with any containers."""

    def some(prefix: str, make: Any, most: int, least: int = 0) -> list[dict[str, Any]]:
        return [
            make(
                f"{prefix}{number}",
                cpu=draw(CPU_TEXTS),
                memory=draw(st.sampled_from(["64Mi", "1Gi", "1500M"])),
                **({"vfs": draw(st.sampled_from("123"))} if draw(st.booleans()) else {}),
            )
            for number in range(draw(st.integers(least, most)))
        ]

    init = draw(st.permutations(some("i", container, 2) + some("s", sidecar, 2)))
    return pod(*some("c", container, 3, 1), init=tuple(init))


@given(pods(), st.sampled_from([*Policy]), st.sampled_from([*Scope]))
def test_no_claim_asks_for_more_than_the_pod_did_and_writing_is_idempotent(
    tree: Any, policy: Policy, scope: Scope
) -> None:
    found = write_claims(tree, Wish(policy=policy, scope=scope), SERVING)
    if isinstance(found, LeftAlone):
        return
    totals = Counter[str]()
    record = read_record(found.pod["metadata"]["annotations"][RECORD])
    for request in record.requests:
        totals[request.resource] += request.amount
    wanted = effective_requests(convert(Pod, tree))
    assert all(wanted[name].value() >= amount for name, amount in totals.items())
    assert write_claims(found.pod, Wish(policy=policy, scope=scope), SERVING) == found
    whole = [
        one["name"]
        for one in (*tree["spec"].get("initContainers", ()), *tree["spec"]["containers"])
        if parse_quantity(one["resources"]["limits"]["cpu"]).milli_value() % 1000 == 0
    ]
    assert {*whole} <= uses(found).keys()
