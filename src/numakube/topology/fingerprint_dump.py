"""How a fingerprint came about, as both sides of the handshake dump it for debugging.

A file holds one status (Resource Topology Exporter) or an array of them, each with the time of its
recording (the OpenShift builds). Comparing the two sides' files tells which pod only one of them
saw. Keys and their order are podfingerprint's, capitalised ``Namespace`` and ``Name`` included;
reading takes them in any case, as Go does.
"""

from collections.abc import Iterable

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.errors import MalformedObject
from numakube.topology.fingerprint import PodName, fingerprint_of
from numakube.values.gotext import go_quote


class _StatusPod(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    namespace: str = ""
    name: str = ""


class _StatusFile(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    fingerprint_expected: str = ""
    fingerprint_computed: str = ""
    pods: tuple[_StatusPod, ...] = ()
    node_name: str = ""
    record_time: str = ""


class FingerprintStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last fingerprint that was computed for a node.

    Attributes:
        pods: in the order in which they were added.
        expected: what it was compared with; empty if with nothing.
        record_time: when, in RFC 3339; empty if not recorded.
    """

    node: str = ""
    pods: tuple[PodName, ...] = ()
    computed: str = ""
    expected: str = ""
    record_time: str = ""

    def __str__(self) -> str:
        """Return the lines that upstream's tools print."""
        lines = [
            f"> processing node {go_quote(self.node)}",
            f"> processing {len(self.pods)} pods",
            *(f"+ {pod}" for pod in self.pods),
            f"= {self.computed}",
        ]
        if self.expected:
            lines.append(f"V {self.expected}")
        return "".join(f"{line}\n" for line in lines)


def traced_fingerprint(
    pods: Iterable[tuple[str, str]], *, node: str, expected: str = ""
) -> FingerprintStatus:
    """Return the fingerprint of *pods* with everything that went into it."""
    names = tuple(PodName(*pod) for pod in pods)
    return FingerprintStatus(
        node=node, pods=names, computed=fingerprint_of(names), expected=expected
    )


def encode_status(status: FingerprintStatus) -> bytes:
    """Return the content of a status file with one status."""
    return msgspec.json.encode(_to_file(status))


def encode_statuses(statuses: Iterable[FingerprintStatus]) -> bytes:
    """Return the content of a status file with several, oldest first."""
    return msgspec.json.encode([_to_file(status) for status in statuses])


def decode_statuses(data: bytes) -> tuple[FingerprintStatus, ...]:
    """Return the statuses in a file of either form; raise `MalformedObject` if it has none."""
    try:
        tree = _lower_keys(msgspec.json.decode(data))
        trees = tree if isinstance(tree, list) else [tree]
        return tuple(_from_tree(one) for one in trees)
    except BROKEN_JSON as error:
        raise MalformedObject("fingerprint status", str(error)) from None


def _to_file(status: FingerprintStatus) -> _StatusFile:
    return _StatusFile(
        fingerprint_expected=status.expected,
        fingerprint_computed=status.computed,
        pods=tuple(_StatusPod(pod.namespace, pod.name) for pod in status.pods),
        node_name=status.node,
        record_time=status.record_time,
    )


class _LowerPod(msgspec.Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""


class _LowerFile(msgspec.Struct, frozen=True, gc=False):
    fingerprintexpected: str = ""
    fingerprintcomputed: str = ""
    pods: tuple[_LowerPod, ...] | None = ()
    nodename: str = ""
    recordtime: str = ""


def _from_tree(tree: object) -> FingerprintStatus:
    file = msgspec.convert(tree, _LowerFile)
    return FingerprintStatus(
        node=file.nodename,
        pods=tuple(PodName(pod.namespace, pod.name) for pod in file.pods or ()),
        computed=file.fingerprintcomputed,
        expected=file.fingerprintexpected,
        record_time=file.recordtime,
    )


def _lower_keys(tree: object) -> object:
    if isinstance(tree, dict):
        return {key.lower(): _lower_keys(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_lower_keys(value) for value in tree]
    return tree
