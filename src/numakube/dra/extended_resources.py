"""Extended resources that device classes serve (KEP-5004): which, and the claim that asks for them.

A node serves a resource by a device plugin if it has any allocatable, else by DRA if a class is
mapped to the name. Requests of containers become requests of one claim for the whole pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import ContainerExtendedResourceRequest
from numakube.api.pod_resources import is_sidecar
from numakube.api.resource_claims import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from numakube.errors import InvalidValue
from numakube.values.quantity import parse_quantity
from numakube.values.resources import is_extended
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.pod import Container, Pod
    from numakube.api.resource_slices import DeviceClass

IN_MEMORY_NAME: Final = "<extended-resources>"
"""The name of the claim until the node is known and it is created."""
_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

Mapping_ = ContainerExtendedResourceRequest


def is_served_name(resource: str) -> bool:
    """Tell whether a class could serve *resource*."""
    return is_extended(resource) or resource.startswith(_PREFIX)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class of each extended resource; of two classes the younger has the name."""
    found: dict[str, DeviceClass] = {}
    for one in classes:
        found[_PREFIX + one.metadata.name] = one
        name = one.spec.extended_resource_name
        if name and (name not in found or _precedes(one, found[name])):
            found[name] = one
    return {name: one.metadata.name for name, one in found.items()}


def _precedes(one: DeviceClass, other: DeviceClass) -> bool:
    ages = [_created(one), _created(other)]
    if ages[0] != ages[1]:
        return ages[0] > ages[1]
    return one.metadata.name < other.metadata.name


def _created(one: DeviceClass) -> float:
    text = one.metadata.creation_timestamp
    try:
        return parse_time(text).timestamp() if text else float("-inf")
    except InvalidValue:
        return float("-inf")


def pod_claim(pod: Pod, known: Iterable[ResourceClaim], *, uid: str) -> ResourceClaim:
    """Return the claim for extended resources that *pod* has, or a new one in memory only."""
    for claim in known:
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and any(
            owner.uid == pod.metadata.uid and owner.name == pod.metadata.name and owner.controller
            for owner in claim.metadata.owner_references
        ):
            return claim
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=pod.metadata.namespace,
            name=IN_MEMORY_NAME,
            uid=uid,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[Mapping_, ...]]:
    """Return the requests that serve *resources* to *pod*'s containers, and who uses which."""
    requests: list[DeviceRequest] = []
    mappings: list[Mapping_] = []
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    short = {index for index, one in enumerate(pod.spec.init_containers) if not is_sidecar(one)}
    for resource in sorted(resources):
        builder = _Builder(resource, classes[resource], containers, short)
        requests += builder.requests()
        mappings += builder.mappings()
    return tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings)


class _Builder:
    """The requests for one resource: each long-lived container has its own, the others share."""

    def __init__(
        self, resource: str, class_name: str, containers: Sequence[Container], short: set[int]
    ) -> None:
        self._resource = resource
        self._class = class_name
        self._long: list[DeviceRequest | None] = [None] * len(containers)
        self._long_mappings: list[Mapping_] = []
        self._short_mappings: list[Mapping_] = []
        self._largest: DeviceRequest | None = None
        for index, container in enumerate(containers):
            if index not in short:
                self._long[index], mappings = self._of(index, container, ())
                self._long_mappings += mappings
        names = set()
        for index in sorted(short):
            request, mappings = self._of(index, containers[index], self._long[index:])
            self._short_mappings += mappings
            if request is not None:
                names.add(request.name)
                if self._largest is None or _count(self._largest) < _count(request):
                    self._largest = request
        self._rename(names)

    def requests(self) -> list[DeviceRequest]:
        """The requests of all containers."""
        own = [one for one in self._long if one is not None]
        return [self._largest, *own] if self._largest is not None else own

    def mappings(self) -> list[Mapping_]:
        """Which container uses which request."""
        return [*self._long_mappings, *self._short_mappings]

    def _rename(self, names: set[str]) -> None:
        """Let all short-lived containers use the largest of their own requests."""
        if self._largest is None:
            return
        self._short_mappings = [
            replace(one, request_name=self._largest.name) if one.request_name in names else one
            for one in self._short_mappings
        ]

    def _of(
        self, index: int, container: Container, reusable: Iterable[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[Mapping_]]:
        asked = container.resources.requests if container.resources is not None else {}
        wanted = parse_quantity(asked[self._resource]).value() if self._resource in asked else 0
        if wanted == 0:
            return None, []
        mappings: list[Mapping_] = []
        total = 0
        for request in reusable:
            if request is not None:
                total += _count(request)
                mappings.append(self._mapping(container, request.name))
                if total >= wanted:
                    return None, mappings
        name = f"container-{index}-request-{sorted(asked).index(self._resource)}"
        mappings.append(self._mapping(container, name))
        exactly = ExactDeviceRequest(device_class_name=self._class, count=wanted - total)
        return DeviceRequest(name=name, exactly=exactly), mappings

    def _mapping(self, container: Container, request: str) -> Mapping_:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=self._resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """Return *claim* asking for *requests*."""
    return replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))
