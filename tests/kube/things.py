"""Objects of a made-up kind, for tests of the client."""

from typing import Any

from numakube.api.codec import Wire
from numakube.kube.resource_types import Resource


class Meta(Wire, frozen=True):
    """Metadata with what the tests look at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(Wire, frozen=True):
    """An object of a made-up kind, of which only one field is read."""

    metadata: Meta = Meta()
    size: int = 0


THINGS = Resource(
    group="example.org",
    version="v1",
    plural="things",
    kind="Thing",
    namespaced=True,
    object_type=Thing,
)
NODES = Resource(version="v1", plural="nodes", kind="Node", namespaced=False, object_type=Thing)


def thing(name: str, **fields: Any) -> dict[str, Any]:
    """Return a thing as the server sends it."""
    return {"metadata": {"name": name, "namespace": "ns"}, **fields}
