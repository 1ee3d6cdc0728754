"""Reading the requests of ``filter`` and ``prioritize``, whose parts come again and again.

Both verbs of a cycle bring the same pod, and ``prioritize`` brings the very list of names that
``filter`` answered. So each part is remembered by its bytes, and who has read it already gets the
same object again: what was worked out for that object is good as well.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.api.pod import Pod
from numakube.apps.extender.extender_messages import ExtenderArgs, Message, NodeList, read, write

_REMEMBERED_LISTS: Final = 8
"""Lists of names: a few kube-schedulers at a time, each with what it asks and what it got."""
_REMEMBERED_PODS: Final = 16
_LARGEST_REMEMBERED: Final = 1 << 20
"""Bytes of a part, so that no client can fill our memory."""
_NULL: Final = b"null"

T = TypeVar("T")


class _RoughArgs(Message, frozen=True):
    """`ExtenderArgs` with the parts as they came."""

    pod: msgspec.Raw
    nodes: NodeList | None = None
    node_names: msgspec.Raw = msgspec.Raw(_NULL)


_ROUGH_DECODER: Final = msgspec.json.Decoder(_RoughArgs)
_POD_DECODER: Final = msgspec.json.Decoder(Pod)
_NAMES_DECODER: Final = msgspec.json.Decoder(tuple[str, ...])


class Requests:
    """Reads requests, and remembers their parts."""

    def __init__(self) -> None:
        self._pods = _Remembered(_POD_DECODER, _REMEMBERED_PODS)
        self._names = _Remembered(_NAMES_DECODER, _REMEMBERED_LISTS)

    def read(self, body: bytes) -> ExtenderArgs:
        """Return *body* as arguments.

        Raises:
            MalformedObject: it is not one; the error says which field is wrong.
        """
        try:
            rough = _ROUGH_DECODER.decode(body)
            raw = bytes(rough.node_names)
            names = None if raw == _NULL else self._names.decode(raw)
            pod = self._pods.decode(bytes(rough.pod))
        except BROKEN_JSON:
            # Either it will do after all, or the error tells where in the whole it is.
            return read(ExtenderArgs, body)
        return ExtenderArgs(pod=pod, nodes=rough.nodes, node_names=names)

    def expect(self, names: tuple[str, ...]) -> msgspec.Raw:
        """Note names that are answered, and come back in the next request; return them as JSON."""
        raw = write(names)
        self._names.learn(raw, names)
        return msgspec.Raw(raw)


class _Remembered(Generic[T]):
    """What was decoded lately, by its bytes."""

    def __init__(self, decoder: msgspec.json.Decoder[T], size: int) -> None:
        self._decoder = decoder
        self._size = size
        self._known: OrderedDict[bytes, T] = OrderedDict()

    def decode(self, raw: bytes) -> T:
        known = self._known.get(raw)
        if known is None:
            known = self._decoder.decode(raw)
            self.learn(raw, known)
        else:
            self._known.move_to_end(raw)
        return known

    def learn(self, raw: bytes, value: T) -> None:
        if raw not in self._known and len(raw) <= _LARGEST_REMEMBERED:
            self._known[raw] = value
            if len(self._known) > self._size:
                self._known.popitem(last=False)
