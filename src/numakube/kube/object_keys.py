"""What identifies an object: its key, and the metadata that every object has."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-wide object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> ObjectKey:
        """Return the key that *text* (``namespace/name`` or ``name``) says."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


class Metadata(Protocol):
    """The part of the metadata that stores and reflectors use."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace; empty for a cluster-wide object."""
        ...

    @property
    def uid(self) -> str:
        """What tells two objects apart that had the same name one after the other."""
        ...

    @property
    def resource_version(self) -> str:
        """What changes whenever the object does."""
        ...


class KubeObject(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...


def key_of(obj: KubeObject) -> ObjectKey:
    """Return the key of *obj*."""
    metadata = obj.metadata
    return ObjectKey(metadata.namespace, metadata.name)
