"""API resources (paths, and the type of their objects), and what identifies an object of one.

Types hold only the fields numakube reads (see `numakube.api`), so writing one back whole would
erase the rest: `Resource.whole` tells for which kinds that is safe. `Resource.raw` is the same
resource as plain dictionaries, for reading and replacing objects of any kind without loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

T = TypeVar("T")
U = TypeVar("U")

Document: TypeAlias = dict[str, Any]
"""An object as plain JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """A kind of object as the API server serves it.

    Attributes:
        group: the API group; empty for the core group.
        version: the version, such as ``v1``.
        plural: the name in paths, such as ``pods``.
        kind: the kind, such as ``Pod``.
        namespaced: whether objects live in namespaces.
        object_type: what objects are decoded into.
        whole: that type holds every field of the kind, so that replacing an object loses nothing.
    """

    group: str = ""
    version: str
    plural: str
    kind: str
    namespaced: bool
    object_type: type[T]
    whole: bool = False

    @property
    def api_version(self) -> str:
        """Group and version as objects name them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def raw(self) -> Resource[Document]:
        """This resource with objects as dictionaries."""
        return self._with_type(dict[str, Any], whole=True)

    def decoded_as(self, type_: type[U]) -> Resource[U]:
        """Return this resource with objects decoded into *type_*."""
        return self._with_type(type_, whole=False)

    def _with_type(self, type_: type[U], *, whole: bool) -> Resource[U]:
        return Resource(
            group=self.group,
            version=self.version,
            plural=self.plural,
            kind=self.kind,
            namespaced=self.namespaced,
            object_type=type_,
            whole=whole,
        )

    def collection_path(self, *, namespace: str = "") -> str:
        """Return the path of all objects, or of those in *namespace*."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and not self.namespaced:
            raise ValueError(f"{self.plural} are not namespaced, but namespace is {namespace!r}")
        inside = f"/namespaces/{_segment(namespace)}" if namespace else ""
        return f"{root}{inside}/{self.plural}"

    def path(self, name: str, *, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object."""
        if self.namespaced and not namespace:
            raise ValueError(f"{self.plural} {name!r}: they live in namespaces, but none is given")
        below = f"/{subresource}" if subresource else ""
        return f"{self.collection_path(namespace=namespace)}/{_segment(name)}{below}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _segment(name: str) -> str:
    """Return *name* for use in a path; a name that would change the path is a bug or an attack."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot be the name of an object")
    return quote(name, safe="")


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
