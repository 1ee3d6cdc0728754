"""Claims written for people: a plain Guaranteed pod becomes one whose resources come by claim.

The pod asks for the same as before: requests for CPUs, memory and hugepages stay, so QoS, quota and
room on the node are as without claims, and the claim asks for no more than they add up to. Extended
resources that a class serves are taken out of the requests, since they would be counted beside the
devices of the claim.

What is asked for is recorded in an annotation of the pod, and the claim's template is made of that
record alone. So a second call finds what the first one did, takes it back and does it again: it is
the same, or follows what other webhooks have changed meanwhile. And the record can ask for nothing
but devices of classes that serve resources, whoever has written it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.api.pod_resources import (
    GUARANTEED,
    compute_qos_class,
    has_pod_level_resources,
    is_sidecar,
)
from numakube.errors import InvalidValue
from numakube.values.quantity import parse_quantity
from numakube.values.resources import CPU, MEMORY, is_extended, is_hugepages, quantity_of
from numakube_dra_driver.device_classes import CAPACITIES
from numakube_dra_driver.devices import DRIVER, NUMA_NODE
from numakube_dra_driver.parameters import API_VERSION, KIND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.pod import Container
    from numakube_dra_driver.claims.served_resources import Serving

POLICY: Final = f"{DRIVER}/claims"
"""The annotation of a pod, and the label of a namespace, that asks for claims."""
SCOPE: Final = f"{DRIVER}/claims-scope"
RECORD: Final = f"{DRIVER}/claim-requests"
"""The annotation that says what was written; written by us."""
TEMPLATE: Final = f"{DRIVER}/claim-template"
"""The label of pods that have a claim written by us, and from which template."""
OFF: Final = "false"
CLAIM: Final = "numa"
"""What the claim is called in the pod."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
WRITER: Final = "numakube-claim-writer"
MOST_DEVICES: Final = 32
"""Requests and results of a claim, at most."""
MOST_RECORD_BYTES: Final = 16 << 10
_MIRROR: Final = "kubernetes.io/config.mirror"
_LONGEST_NAME: Final = 63
_DIGITS: Final = 12


class Policy(StrEnum):
    """What the devices of a claim have in common."""

    SINGLE_NUMA_NODE = "single-numa-node"
    SOCKET = "socket"
    NONE = "none"

    @property
    def attribute(self) -> str:
        """The attribute that has to be equal; empty for none."""
        return _ATTRIBUTES[self]


_ATTRIBUTES: Final = {
    Policy.SINGLE_NUMA_NODE: NUMA_NODE,
    Policy.SOCKET: f"{DRIVER}/socket",
    Policy.NONE: "",
}


class Scope(StrEnum):
    """Whose devices have it in common."""

    POD = "pod"
    CONTAINER = "container"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the record."""


class Asked(_Strict, frozen=True):
    """One request of a claim.

    Attributes:
        name: of the request.
        container: for which it is.
        resource: what the container calls it.
        served_by: the class.
        amount: CPUs, bytes or devices.
    """

    name: str
    container: str
    resource: str
    served_by: str = msgspec.field(name="class")
    amount: int = 1


class Moved(_Strict, frozen=True):
    """An extended resource that a container asked for, and has by the claim."""

    container: str
    resource: str
    amount: int


class Record(_Strict, frozen=True, omit_defaults=True):
    """All that was asked for.

    Attributes:
        moved: what was taken out of the requests of containers.
    """

    policy: Policy
    scope: Scope
    requests: tuple[Asked, ...]
    moved: tuple[Moved, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be written."""

    policy: Policy = Policy.SINGLE_NUMA_NODE
    scope: Scope = Scope.POD


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A pod for which no claim is written, and why."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A pod with a claim.

    Attributes:
        pod: the pod's document.
        template: the document of its template.
        remarks: what the claim could not have.
    """

    pod: dict[str, Any]
    template: dict[str, Any]
    remarks: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------
# The template: a function of the record.


def read_record(text: str) -> Record:
    """Return what an annotation says.

    Raises:
        InvalidValue: it is none of ours.
    """
    if len(text) > MOST_RECORD_BYTES:
        raise InvalidValue(f"{RECORD}: more than {MOST_RECORD_BYTES} bytes")
    try:
        record = msgspec.json.decode(text, type=Record)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidValue(f"{RECORD}: {error}") from None
    if not record.requests or len(record.requests) > MOST_DEVICES:
        raise InvalidValue(f"{RECORD}: {len(record.requests)} requests; 1 to {MOST_DEVICES}")
    if any(not 0 < asked.amount < 1 << 63 for asked in record.requests):
        raise InvalidValue(f"{RECORD}: an amount is out of bounds")
    return record


def template_of(record: Record, namespace: str = "") -> dict[str, Any]:
    """Return the template for *record*; its name follows from its content."""
    devices: dict[str, Any] = {"requests": [_request(asked) for asked in record.requests]}
    if constraints := [*_constraints(record)]:
        devices["constraints"] = constraints
    if needs_bundles(record):
        parameters = {"apiVersion": API_VERSION, "kind": KIND, "bundle": True}
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    spec = {"spec": {"devices": devices}}
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    metadata: dict[str, Any] = {
        "name": f"numa-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
    }
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": spec,
    }


def needs_bundles(record: Record) -> bool:
    """Tell whether containers name requests of which others come with them.

    A container can name one request of a claim, or none, which means all of them.
    """
    counts = Counter(asked.container for asked in record.requests)
    return len(counts) > 1 and max(counts.values()) > 1


def _request(asked: Asked) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": asked.served_by}
    capacity = CAPACITIES.get(asked.served_by)
    if capacity is None:
        exactly["count"] = asked.amount
    else:
        exactly["capacity"] = {"requests": {capacity: _text(asked)}}
    return {"name": asked.name, "exactly": exactly}


def _text(asked: Asked) -> str:
    return str(asked.amount if asked.resource == CPU else quantity_of(MEMORY, asked.amount))


def _constraints(record: Record) -> Iterator[dict[str, Any]]:
    attribute = record.policy.attribute
    if not attribute:
        return
    if record.scope is Scope.POD:
        groups = {"": list(record.requests)}
    else:
        groups = {}
        for asked in record.requests:
            groups.setdefault(asked.container, []).append(asked)
    for group in groups.values():
        if sum(_devices(asked) for asked in group) > 1:
            names = [asked.name for asked in group]
            every = {} if len(names) == len(record.requests) else {"requests": names}
            yield {"matchAttribute": attribute, **every}


def _devices(asked: Asked) -> int:
    return 1 if asked.served_by in CAPACITIES else asked.amount


# ------------------------------------------------------------------------------------------------
# The pod: taken back to what it was, looked at, and written.


def write_claims(tree: Mapping[str, Any], wish: Wish, serving: Serving) -> Written | LeftAlone:
    """Return the pod in *tree* with a claim for what it asks for, or why it gets none.

    Args:
        tree: a pod, or the template of one.
        wish: how devices are to be close to each other.
        serving: which class serves which resource.

    Raises:
        MalformedObject: it is no pod.
        InvalidValue: a quantity or an annotation makes no sense.
    """
    _read(tree.get("metadata"), tree.get("spec"))
    plain = without_claims(tree)
    pod = _read(plain.get("metadata"), _defaulted(plain["spec"]))
    if why := _reason(pod, serving):
        return LeftAlone(why)
    plan = _Plan(pod, serving)
    if plan.trouble:
        return LeftAlone(plan.trouble)
    record = Record(wish.policy, wish.scope, tuple(plan.asked), tuple(plan.moved))
    namespace = pod.metadata.namespace
    template = template_of(record, namespace)
    written = _with_claim(plain, record, plan, template["metadata"]["name"])
    return Written(pod=written, template=template, remarks=tuple(plan.remarks))


def _read(metadata: object, spec: object) -> Pod:
    return convert(Pod, {"metadata": metadata or {}, "spec": spec})


def without_claims(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod as it was before a claim was written for it.

    Raises:
        InvalidValue: what its annotation says is none of ours.
    """
    plain = deepcopy(dict(tree))
    annotations = (plain.get("metadata") or {}).get("annotations") or {}
    claims = plain["spec"].get("resourceClaims") or []
    ours = [claim for claim in claims if claim.get("name") == CLAIM]
    if RECORD not in annotations or not ours:
        return plain
    record = read_record(annotations.pop(RECORD))
    (plain["metadata"].get("labels") or {}).pop(TEMPLATE, None)
    plain["spec"]["resourceClaims"] = [claim for claim in claims if claim not in ours]
    if not plain["spec"]["resourceClaims"]:
        del plain["spec"]["resourceClaims"]
    for container in _containers(plain["spec"]):
        resources = container.get("resources") or {}
        uses = resources.get("claims") or []
        if kept := [use for use in uses if use.get("name") != CLAIM]:
            resources["claims"] = kept
        else:
            resources.pop("claims", None)
        for moved in record.moved:
            if moved.container == container.get("name"):
                for part in ("requests", "limits"):
                    resources.setdefault(part, {}).setdefault(moved.resource, str(moved.amount))
    return plain


def _containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _defaulted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification in which what is limited is requested, as API servers have it."""
    found = deepcopy(dict(spec))
    for container in _containers(found):
        resources = container.get("resources")
        if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return found


def _reason(pod: Pod, serving: Serving) -> str:
    """Return why *pod* is left alone; empty if nothing speaks against a claim."""
    spec = pod.spec
    windows = spec.os is not None and spec.os.name == "windows"
    kind = compute_qos_class(pod)
    reasons = {
        f"it says {POLICY}: {OFF}": pod.metadata.annotations.get(POLICY) == OFF,
        "it is a static pod, which the kubelet has started already": _MIRROR
        in pod.metadata.annotations,
        f"it is bound to node {spec.node_name}: a scheduler allocates claims": bool(spec.node_name),
        "it is for Windows": windows,
        "it has claims of its own": bool(spec.resource_claims),
        "it has resources for the pod as a whole (spec.resources)": has_pod_level_resources(pod),
        f"it is {kind}, and claims are written for Guaranteed pods": kind != GUARANTEED,
        "no DeviceClass of this cluster serves CPUs: is the DRA driver deployed?": CPU
        not in serving,
    }
    return next((why for why, holds in reasons.items() if holds), "")


@dataclass(slots=True)
class _Plan:
    """What is asked for, and which containers name which request of it.

    Attributes:
        uses: the request that a container names by the container's name; empty for the whole claim.
        trouble: why there is no claim that would do.
    """

    pod: Pod
    serving: Serving
    asked: list[Asked] = field(default_factory=list)
    uses: dict[str, str] = field(default_factory=dict)
    moved: list[Moved] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    trouble: str = ""

    def __post_init__(self) -> None:
        spec = self.pod.spec
        sidecars = [one for one in spec.init_containers if is_sidecar(one)]
        asking = [
            *(self._ask(f"c{number}", one) for number, one in enumerate(spec.containers)),
            *(self._ask(f"s{number}", one) for number, one in enumerate(sidecars)),
        ]
        groups = [group for group in asking if group]
        if not any(asked.resource == CPU for group in groups for asked in group):
            self.trouble = "no container asks for whole CPUs"
            return
        if len(groups) > 1:
            groups = [self._bundled(group) for group in groups]
        self.asked = [asked for group in groups for asked in group]
        self.moved = [
            Moved(asked.container, asked.resource, asked.amount)
            for asked in self.asked
            if is_extended(asked.resource)
        ]
        alone = len(groups) == 1
        self.uses = {group[0].container: "" if alone else group[0].name for group in groups}
        apps = {container.name for container in spec.containers}
        for container in spec.init_containers:
            if not is_sidecar(container) and not self.trouble:
                self._let_use(container, [group for group in groups if group[0].container in apps])
        self._check_size()

    def _ask(self, name: str, container: Container) -> list[Asked]:
        """Return the requests for a container, the first of which is *name*."""
        needs = self._needs(container)
        return [
            Asked(
                name if not index else _named(name, resource, index),
                container.name,
                resource,
                self.serving[resource].name,
                amount,
            )
            for index, (resource, amount) in enumerate(needs.items())
        ]

    def _needs(self, container: Container) -> dict[str, int]:
        """Return what a container has for itself, CPUs first: memory with whole CPUs alone."""
        requests = container.resources.requests if container.resources else {}
        amounts = {name: parse_quantity(text) for name, text in requests.items()}
        needs: dict[str, int] = {}
        cpus = amounts.get(CPU)
        if cpus is not None and cpus.milli_value() > 0 and cpus.milli_value() % 1000 == 0:
            needs[CPU] = cpus.value()
            needs |= {name: amounts[name].value() for name in sorted(amounts) if _is_memory(name)}
        for name in sorted(amounts):
            if is_extended(name) and amounts[name].value() > 0:
                needs[name] = amounts[name].value()
        for name in [name for name in needs if name not in self.serving]:
            del needs[name]
            if is_extended(name):
                self.remarks.append(
                    f"container {container.name}: no DeviceClass serves {name}, which may come from"
                    " another NUMA node"
                )
        return {name: amount for name, amount in needs.items() if amount > 0}

    def _bundled(self, group: list[Asked]) -> list[Asked]:
        """Return the requests of *group* that a container can have by naming the first one.

        The driver answers for its own devices that they come with that request; others cannot.
        """
        first, *rest = group
        foreign = [asked for asked in rest if not self.serving[asked.resource].is_ours]
        self.remarks += [
            f"container {asked.container}: {asked.resource} stays a request and may come from"
            " another NUMA node: of several containers each can name one request, and class"
            f" {asked.served_by} is of another driver"
            for asked in foreign
        ]
        return [first, *(asked for asked in rest if asked not in foreign)]

    def _let_use(self, container: Container, apps: Sequence[list[Asked]]) -> None:
        """Let an init container use what app containers will have; it runs before them."""
        needs = self._needs(container)
        devices = [name for name in needs if is_extended(name)]
        if CPU not in needs and not devices:
            return
        everything = [asked for group in apps for asked in group]
        for group in apps:
            if _covers(group, needs):
                use = self.uses[group[0].container]
                break
        else:
            if not _covers(everything, needs) and not self._raised(apps, needs):
                self.trouble = (
                    f"init container {container.name} needs more than the containers after it: a"
                    " claim for it would be counted beside theirs"
                )
                return
            use = ""
        self.uses[container.name] = use
        self.moved += [Moved(container.name, name, needs[name]) for name in devices]

    def _raised(self, apps: Sequence[list[Asked]], needs: Mapping[str, int]) -> bool:
        """Let the only app container have what an init container needs, if the pod asks for it."""
        if len(self.asked) != sum(map(len, apps)) or len(apps) != 1:
            return False
        (group,) = apps
        if not needs.keys() <= {asked.resource for asked in group}:
            return False
        group[:] = [
            msgspec.structs.replace(asked, amount=max(asked.amount, needs.get(asked.resource, 0)))
            for asked in group
        ]
        self.asked = list(group)
        return True

    def _check_size(self) -> None:
        devices = sum(map(_devices, self.asked))
        if not self.trouble and devices > MOST_DEVICES:
            self.trouble = f"it would need {devices} devices, and a claim can have {MOST_DEVICES}"


def _is_memory(name: str) -> bool:
    return name == MEMORY or is_hugepages(name)


def _covers(group: Sequence[Asked], needs: Mapping[str, int]) -> bool:
    had = Counter[str]()
    for asked in group:
        had[asked.resource] += asked.amount
    return all(had[name] >= amount for name, amount in needs.items())


def _named(first: str, resource: str, index: int) -> str:
    """Return the name of a further request: ``c0-memory``, ``c0-hugepages-2mi``, ``c0-vfs-3``."""
    if not is_extended(resource):
        return f"{first}-{resource.lower()}"
    short = resource.rpartition("/")[2].lower()
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in short)
    end = f"-{index}"
    return f"{first}-{plain}"[: _LONGEST_NAME - len(end)].rstrip("-") + end


def _with_claim(
    plain: Mapping[str, Any], record: Record, plan: _Plan, template: str
) -> dict[str, Any]:
    """Return the pod with the claim, and without what would be counted beside it."""
    pod = deepcopy(dict(plain))
    metadata = pod.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    said = {POLICY: record.policy.value, SCOPE: record.scope.value}
    text = msgspec.json.encode(record).decode()
    metadata["annotations"] = {**annotations, **said, RECORD: text}
    metadata["labels"] = {**(metadata.get("labels") or {}), TEMPLATE: template}
    claim = {"name": CLAIM, "resourceClaimTemplateName": template}
    pod["spec"]["resourceClaims"] = [*(pod["spec"].get("resourceClaims") or ()), claim]
    for container in _containers(pod["spec"]):
        name = container.get("name", "")
        if name not in plan.uses:
            continue
        use = {"name": CLAIM} | ({"request": plan.uses[name]} if plan.uses[name] else {})
        resources = container.setdefault("resources", {})
        resources["claims"] = [*(resources.get("claims") or ()), use]
        for moved in record.moved:
            if moved.container == name:
                for part in ("requests", "limits"):
                    (resources.get(part) or {}).pop(moved.resource, None)
    return pod
