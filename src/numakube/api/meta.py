"""Object metadata (``metav1``)."""

from numakube.api.wire import Wire


class ObjectMeta(Wire, frozen=True):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
