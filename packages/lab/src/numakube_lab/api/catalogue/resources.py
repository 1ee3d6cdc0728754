"""What a resource is: the collection of objects of a kind that an API path serves."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from numakube_lab.api.wire.refusals import qualified
from numakube_lab.kinds import GVK

SCALE: Final = GVK("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has its numbers of replicas and its selector."""

    wanted: str = ".spec.replicas"
    actual: str = ".status.replicas"
    selector: str = ""


EVERY_VERB: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Orphaning(Enum):
    """What happens to dependents if a deletion does not say."""

    BACKGROUND = "background"
    ORPHAN = "orphan"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path of its own; *kind* is what is read and written there."""

    name: str
    kind: GVK
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Habits:
    """How a resource departs from what most resources do.

    Attributes:
        create_on_update: a PUT of a missing object creates it.
        unconditional_update: a PUT without resourceVersion overwrites.
        returns_deleted: a deletion is answered with the object instead of a Status.
        orphaning: what a deletion without propagation policy does to dependents.
    """

    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    orphaning: Orphaning = Orphaning.BACKGROUND


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource in one of its versions.

    Attributes:
        shelf: where the store keeps the objects, the same for all versions.
        stored_version: group and version that objects are stored in.
        custom: whether a CustomResourceDefinition made it.
        listed: whether discovery tells of it.
    """

    kind: GVK
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    shelf: str
    stored_as: GVK
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = EVERY_VERB
    subresources: tuple[Subresource, ...] = ()
    habits: Habits = field(default_factory=Habits)
    custom: bool = False
    listed: bool = True

    @property
    def group(self) -> str:
        """The API group."""
        return self.kind.group

    @property
    def version(self) -> str:
        """The API version."""
        return self.kind.version

    @property
    def title(self) -> str:
        """The resource as messages name it."""
        return qualified(self.group, self.plural)

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource called *name*."""
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


# Resources whose objects are stored elsewhere than under their own names.
_REGISTRY_PLACES: Final = {
    "endpoints": "services/endpoints",
    "networking.k8s.io/ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


def registry_path(resource: Resource, namespace: str, name: str) -> str:
    """Return the key under which a real server stores an object: some messages name it."""
    place = _REGISTRY_PLACES.get(resource.shelf, resource.plural)
    if resource.custom or resource.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        place = f"{resource.group}/{resource.plural}"
    return "/".join(part for part in ("/registry", place, namespace, name) if part)


def storage_version_hash(stored_as: GVK) -> str:
    """Return the opaque value by which discovery tells which version objects are stored in."""
    text = f"{stored_as.group}/{stored_as.version}/{stored_as.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
