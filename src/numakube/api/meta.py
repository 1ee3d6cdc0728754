"""Object metadata, references and selectors (``metav1``), and the version of a server."""

import re
from typing import Final

import msgspec

from numakube.api.wire import Timestamp, Wire

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)")


class OwnerReference(Wire, frozen=True):
    """The object that another one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """Metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone if the object has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def is_owned_by(self, uid: str) -> bool:
        """Tell whether the object with this *uid* is one of its owners."""
        return any(owner.uid == uid for owner in self.owner_references)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Named(Wire, frozen=True):
    """Any object, of which only the metadata matters."""

    metadata: ObjectMeta = ObjectMeta()


class LabelSelectorRequirement(Wire, frozen=True):
    """One expression of a label selector: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Which labels an object must have; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Wire, frozen=True):
    """Names one object of any kind."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class ListMeta(Wire, frozen=True):
    """Metadata of a list: where to continue it, and from which version to watch."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ServerVersion(Wire, frozen=True):
    """The version of an API server."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""


def release_of(text: str) -> tuple[int, int] | None:
    """Return the release that a version such as ``v1.35.2-gke.1`` belongs to."""
    match = _RELEASE.match(text)
    return None if match is None else (int(match[1]), int(match[2]))
