"""The messages of ``k8s.io/kube-scheduler/extender/v1``, as kube-scheduler 1.31 to 1.37 sends them.

Keys at the top are capitalised, objects inside are spelled as anywhere in the API. Go writes absent
values as ``null``. Answers are written in full and never with ``null`` where kube-scheduler would
follow it: a ``null`` in place of victims ends its process.
"""

from collections import OrderedDict
from typing import Any, Final, Generic, TypeVar

import msgspec

from numakube.api.codec import BROKEN_JSON, convert
from numakube.api.pod import Pod
from numakube.errors import MalformedObject

MAX_SCORE: Final = 10
"""The scale of scores; kube-scheduler multiplies by ten and by the weight of the extender."""


class Message(
    msgspec.Struct, frozen=True, gc=False, rename="pascal", kw_only=True, omit_defaults=False
):
    """Base of the messages."""


class NodeList(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes as they came; only their names are read, the rest goes back untouched."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: tuple[msgspec.Raw, ...] | None = None


class ExtenderArgs(Message, frozen=True):
    """The request of ``filter`` and ``prioritize``.

    Attributes:
        nodes: with ``nodeCacheCapable: false``.
        node_names: with ``nodeCacheCapable: true``.
    """

    pod: Pod
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class FilterResult(Message, frozen=True):
    """The answer of ``filter``; ``nodes`` or ``node_names``, as the request had it."""

    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """One line of the answer of ``prioritize``."""

    host: str
    score: int


class BindingArgs(Message, frozen=True):
    """The request of ``bind``."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class BindingResult(Message, frozen=True):
    """The answer of ``bind``; without an error the pod is bound."""

    error: str = ""


class MetaPod(Message, frozen=True):
    """A pod by its uid."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(Message, frozen=True):
    """The pods that have to go from one node."""

    pods: tuple[MetaPod, ...] | None = ()
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class Victims(Message, frozen=True):
    """The same with whole pods, as sent with ``nodeCacheCapable: false``."""

    pods: tuple[Pod, ...] | None = ()
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionArgs(Message, frozen=True):
    """The request of ``preempt``."""

    pod: Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptionResult(Message, frozen=True):
    """The answer of ``preempt``, in both modes."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str


class _WithName(msgspec.Struct, frozen=True, gc=False):
    metadata: _Named


T = TypeVar("T")

_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind) for kind in (ExtenderArgs, BindingArgs, PreemptionArgs)
}
_NAME_DECODER: Final = msgspec.json.Decoder(_WithName)


def read(kind: type[T], body: bytes) -> T:
    """Return *body* as a message of *kind*.

    Raises:
        MalformedObject: it is not one; the error says which field is wrong.
    """
    try:
        message: T = _DECODERS[kind].decode(body)
    except msgspec.ValidationError:
        # What Go allows besides: null wherever a default will do.
        return _read_leniently(kind, body)
    except BROKEN_JSON as error:
        raise MalformedObject(kind.__name__, f"not JSON: {error}") from None
    return message


def name_of(node: msgspec.Raw) -> str:
    """Return the name of a node in a list.

    Raises:
        MalformedObject: it has none.
    """
    try:
        return _NAME_DECODER.decode(node).metadata.name
    except BROKEN_JSON as error:
        raise MalformedObject("Nodes.items", str(error)) from None


def write(message: object) -> bytes:
    """Return *message* as JSON."""
    return msgspec.json.encode(message)


def _read_leniently(kind: type[T], body: bytes) -> T:
    try:
        tree = msgspec.json.decode(body)
        if not isinstance(tree, dict):
            raise MalformedObject(kind.__name__, "expected an object")
        nodes = tree.get("Nodes")
        if isinstance(nodes, dict) and isinstance(nodes.get("items"), list):
            tree["Nodes"] = {"items": [_raw(item) for item in nodes["items"]]}
        return convert(kind, tree, kind.__name__)
    except BROKEN_JSON as error:
        raise MalformedObject(kind.__name__, f"not JSON: {error}") from None


def _raw(item: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(item))


# Reading the requests of ``filter`` and ``prioritize``, whose parts come again and again.
#
# Both verbs of a cycle bring the same pod, and ``prioritize`` brings the very list of names that
# ``filter`` answered. So each part is remembered by its bytes, and who has read it already gets the
# same object again: what was worked out for that object is good as well.


_REMEMBERED_LISTS: Final = 8
"""Lists of names: a few kube-schedulers at a time, each with what it asks and what it got."""
_REMEMBERED_PODS: Final = 16
_LARGEST_REMEMBERED: Final = 1 << 20
"""Bytes of a part, so that no client can fill our memory."""
_NULL: Final = b"null"


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
        self._pods = _DecodedLately(_POD_DECODER, _REMEMBERED_PODS)
        self._names = _DecodedLately(_NAMES_DECODER, _REMEMBERED_LISTS)

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


class _DecodedLately(Generic[T]):
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
