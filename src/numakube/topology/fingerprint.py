"""Short texts about pods in a report: the fingerprint of the set, and containers' NUMA nodes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.api.pod_resources import is_sidecar, qos_class
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote, parse_integer
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, is_memory, is_native

if TYPE_CHECKING:
    from collections.abc import Container as Collection
    from collections.abc import Iterable, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Container, Pod


# XXH64, the hash under pod fingerprints and NUMA placements.
#
# In plain Python: what is hashed are names, for which a few microseconds each are enough, and the
# package needs no compiled dependency for it. Follows the xxHash specification (version 0.1.1).


_MASK: Final = (1 << 64) - 1
_PRIME_1: Final = 0x9E3779B185EBCA87
_PRIME_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME_3: Final = 0x165667B19E3779F9
_PRIME_4: Final = 0x85EBCA77C2B2AE63
_PRIME_5: Final = 0x27D4EB2F165667C5
_STRIPE: Final = 32


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit hash of *data*."""
    length = len(data)
    position = length - length % _STRIPE
    state = _stripes(data, position, seed) if position else seed + _PRIME_5
    state = (state + length) & _MASK
    while position + 8 <= length:
        (lane,) = struct.unpack_from("<Q", data, position)
        state = (_rotate(state ^ _round(0, lane), 27) * _PRIME_1 + _PRIME_4) & _MASK
        position += 8
    if position + 4 <= length:
        (lane,) = struct.unpack_from("<I", data, position)
        state ^= lane * _PRIME_1 & _MASK
        state = (_rotate(state, 23) * _PRIME_2 + _PRIME_3) & _MASK
        position += 4
    for byte in data[position:]:
        state ^= byte * _PRIME_5 & _MASK
        state = _rotate(state, 11) * _PRIME_1 & _MASK
    return _avalanche(state)


def _stripes(data: bytes, end: int, seed: int) -> int:
    """Return the state after all whole stripes of 32 bytes, kept in four accumulators."""
    one, two = (seed + _PRIME_1 + _PRIME_2) & _MASK, (seed + _PRIME_2) & _MASK
    three, four = seed, (seed - _PRIME_1) & _MASK
    for first, second, third, fourth in struct.iter_unpack("<4Q", data[:end]):
        one, two = _round(one, first), _round(two, second)
        three, four = _round(three, third), _round(four, fourth)
    state = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    for accumulator in (one, two, three, four):
        state = (state ^ _round(0, accumulator)) * _PRIME_1 + _PRIME_4
        state &= _MASK
    return state


def _round(accumulator: int, lane: int) -> int:
    return _rotate((accumulator + lane * _PRIME_2) & _MASK, 31) * _PRIME_1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _avalanche(state: int) -> int:
    state = (state ^ state >> 33) * _PRIME_2 & _MASK
    state = (state ^ state >> 29) * _PRIME_3 & _MASK
    return state ^ state >> 32


# The pod fingerprint: one short text that stands for the set of pods on a node.


FINGERPRINT_PREFIX: Final = "pfp0"
VERSION: Final = "v001"
_NOTHING = Quantity.of_count(0)


class PodName(NamedTuple):
    """Which pod; its uid is not known to a producer that asks the kubelet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def fingerprint_of(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of *pods*, given as namespaces and names."""
    return FINGERPRINT_PREFIX + VERSION + _digest(pods)


def _digest(pods: Iterable[tuple[str, str]]) -> str:
    return _digest_of(tuple(sorted([_pod_hash(namespace, name) for namespace, name in pods])))


@lru_cache(maxsize=4096)
def _digest_of(hashes: tuple[int, ...]) -> str:
    return f"{xxh64(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


@lru_cache(maxsize=65536)
def _pod_hash(namespace: str, name: str) -> int:
    return xxh64(name.encode("utf-8", "surrogatepass"), _namespace_hash(namespace))


@lru_cache(maxsize=4096)
def _namespace_hash(namespace: str) -> int:
    return xxh64(namespace.encode("utf-8", "surrogatepass"))


def has_exclusive_resources(pod: Pod, listed: Collection[str]) -> bool:
    """Tell whether *pod* gets anything exclusively on a node whose NRT has *listed* resources."""
    guaranteed = qos_class(pod) == "Guaranteed"
    sidecars = (container for container in pod.spec.init_containers or () if is_sidecar(container))
    return any(
        _is_exclusive(name, quantity, listed, guaranteed=guaranteed)
        for container in (*sidecars, *pod.spec.containers)
        for name, quantity in _requests(container).items()
    )


def _requests(container: Container) -> dict[str, QuantityText]:
    return dict((container.resources and container.resources.requests) or {})


def _is_exclusive(
    name: str, quantity: QuantityText, listed: Collection[str], *, guaranteed: bool
) -> bool:
    if not is_native(name):
        return name in listed
    if not guaranteed:
        return False
    amount = parse_quantity(quantity)
    if name == CPU:
        whole = amount.value()
        return whole > 0 and Quantity.of_count(whole) == amount
    return is_memory(name) and amount > _NOTHING


# NUMA placement: which container runs on which NUMA node, in very few characters.
#
# Containers are sorted by the hash of their names. For every NUMA node but the busiest, a vector
# has the positions of its containers, as differences in LEB89; a container in no vector is on the
# busiest node. A reader must know the same containers to make sense of it, so the pods' fingerprint
# has to match first. Byte-compatible with numaplacement v0.1.0, which the Go scheduler reads.


PLACEMENT_PREFIX: Final = "npv0"
ENCODING: Final = "leb89"
SEPARATOR: Final = "::"
UNKNOWN: Final = -1


class ContainerName(NamedTuple):
    """One container of one pod."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class BadPlacement:
    """Why a placement cannot be encoded or decoded, in upstream's words."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An encoded placement.

    Attributes:
        containers: how many containers there are.
        numa_nodes: how many NUMA nodes the machine has.
        busiest: the NUMA node without vector.
        vectors: texts by NUMA node.
    """

    containers: int
    numa_nodes: int
    busiest: int
    vectors: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    encoding: str = ENCODING

    @property
    def metadata(self) -> str:
        """The text that goes with the vectors."""
        fields = {
            "ve": self.encoding,
            "cc": self.containers,
            "nn": self.numa_nodes,
            "bn": self.busiest,
        }
        return SEPARATOR.join(
            (PLACEMENT_PREFIX + VERSION, *(f"{k}={v}" for k, v in fields.items()))
        )


@lru_cache(maxsize=65536)
def container_hash(container: ContainerName | tuple[str, str, str]) -> int:
    """Return the number by which containers are sorted."""
    return xxh64("\0".join(container).encode("utf-8", "surrogatepass"))


def encode_placement(
    affinities: Mapping[ContainerName, int], *, numa_nodes: int
) -> Placement | BadPlacement:
    """Return where each container runs on a machine with so many NUMA nodes, numbered from 0."""
    if numa_nodes <= 0:
        return BadPlacement("inconsistent NUMA node count")
    by_hash = {container_hash(container): node for container, node in affinities.items()}
    offsets: dict[int, list[int]] = {}
    for offset, key in enumerate(sorted(by_hash)):
        node = by_hash[key]
        if node == UNKNOWN:
            return BadPlacement("unknown NUMA affinity not supported")
        if not 0 <= node < numa_nodes:
            return BadPlacement("wrong NUMA affinity")
        offsets.setdefault(node, []).append(offset)
    busiest = min(offsets, key=lambda node: (-len(offsets[node]), node), default=0)
    vectors = {
        node: write_numbers(_differences(members))
        for node, members in sorted(offsets.items())
        if node != busiest
    }
    return Placement(
        containers=len(by_hash), numa_nodes=numa_nodes, busiest=busiest, vectors=vectors
    )


def _differences(offsets: list[int]) -> list[int]:
    return [offsets[0], *(after - before for before, after in pairwise(offsets))]


def read_placement(metadata: str, vectors: Mapping[int, str]) -> Placement | BadPlacement:
    """Return the placement that attributes of a node and of its zones tell."""
    header = PLACEMENT_PREFIX + VERSION + SEPARATOR
    if not metadata.startswith(header):
        return BadPlacement("malformed metadata")
    found = _read_fields(metadata.removeprefix(header))
    if isinstance(found, BadPlacement):
        return found
    placement = Placement(
        containers=_number(found.get("cc")),
        numa_nodes=_number(found.get("nn")),
        busiest=_number(found.get("bn")),
        vectors=vectors,
        encoding=found.get("ve", ""),
    )
    problem = _problem(placement)
    return placement if problem is None else BadPlacement(problem)


def _read_fields(text: str) -> dict[str, str] | BadPlacement:
    """Return the metadata fields by key."""
    found = {}
    for pair in text.split(SEPARATOR):
        problem = _pair_problem(pair)
        if problem is not None:
            return BadPlacement(f"error while setting {go_quote(pair)}: {problem}")
        key, _, value = pair.partition("=")
        found[key] = value
    return found


def _pair_problem(pair: str) -> str | None:
    key, equals, value = pair.partition("=")
    if not equals:
        return "malformed metadata pair"
    if not key:
        return "missing metadata key"
    if not value:
        return "missing metadata value"
    if key == "ve":
        return None
    try:
        parse_integer(value)
    except InvalidValue as error:
        return f"error while parsing {go_quote(pair)}: {error}"
    return None if key in ("cc", "nn", "bn") else "unknown metadata field"


def _number(text: str | None) -> int:
    return UNKNOWN if text is None else parse_integer(text)


def _problem(placement: Placement) -> str | None:
    """Return why the parts of *placement* do not fit together, checked in upstream's order."""
    nodes, vectors = placement.numa_nodes, placement.vectors
    checks = (
        (placement.encoding != ENCODING, "unsupported vector encoding"),
        (placement.busiest == UNKNOWN, "unknown busiest node"),
        (not 0 <= placement.busiest < nodes, "inconsistent busiest node data"),
        (len(vectors) >= nodes, "inconsistent NUMA vector data"),
        (placement.busiest in vectors, "corrupted NUMA vector"),
        (placement.containers < 0, "inconsistent container set"),
        (nodes <= 0, "inconsistent NUMA node count"),
        (placement.containers == 0 and bool(vectors), "inconsistent NUMA vector data"),
        (any(not 0 <= node < nodes for node in vectors), "corrupted NUMA vector"),
    )
    return next((reason for wrong, reason in checks if wrong), None)


def decode_placement(
    placement: Placement, containers: Iterable[ContainerName]
) -> dict[ContainerName, int] | BadPlacement:
    """Return the NUMA node of each of *containers*, which must be those that were encoded."""
    if (problem := _problem(placement)) is not None:
        return BadPlacement(problem)
    by_hash = {container_hash(container): container for container in containers}
    if len(by_hash) != placement.containers:
        return BadPlacement("inconsistent container set")
    ordered = [by_hash[key] for key in sorted(by_hash)]
    found: dict[ContainerName, int] = {}
    for node, text in placement.vectors.items():
        steps = read_numbers(text)
        for offset in accumulate(steps) if steps is not None else (UNKNOWN,):
            # A Go reader crashes on invalid symbols; here they are corruption too.
            if not 0 <= offset < len(ordered):
                return BadPlacement("corrupted NUMA vector")
            if ordered[offset] in found:
                return BadPlacement("duplicated data in multiple NUMA vectors")
            found[ordered[offset]] = node
    return {container: found.get(container, placement.busiest) for container in ordered}


_ALPHABET: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_ENDS: Final = 64
_BASE: Final = len(_ALPHABET) - _ENDS
_VALUES: Final = {symbol: value for value, symbol in enumerate(_ALPHABET)}


def write_numbers(numbers: Iterable[int]) -> str:
    """Return *numbers*, none of which may be negative, as text."""
    return "".join(map(_write, numbers))


def read_numbers(text: str) -> list[int] | None:
    """Return the numbers in *text*; ``None`` if it has other symbols or ends inside a number."""
    numbers = []
    high, inside = 0, False
    for symbol in text:
        value = _VALUES.get(symbol)
        if value is None:
            return None
        if value >= _ENDS:
            high, inside = high * _BASE + value - _ENDS, True
            continue
        numbers.append(_ENDS + high * _ENDS + value if inside else value)
        high, inside = 0, False
    return None if inside else numbers


def _write(number: int) -> str:
    if number < _ENDS:
        return _ALPHABET[number]
    high, end = divmod(number - _ENDS, _ENDS)
    text = _ALPHABET[end]
    while True:
        high, digit = divmod(high, _BASE)
        text = _ALPHABET[_ENDS + digit] + text
        if not high:
            return text
