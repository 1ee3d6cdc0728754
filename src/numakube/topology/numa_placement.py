"""NUMA placement: which container runs on which NUMA node, in very few characters.

Containers are sorted by the hash of their names. For every NUMA node but the busiest, a vector has
the positions of its containers, as differences in LEB89; a container in no vector is on the busiest
node. A reader must know the same containers to make sense of it, so the pods' fingerprint has to
match first. Byte-compatible with numaplacement v0.1.0, which the Go scheduler reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.errors import InvalidValue
from numakube.topology.xxh64 import xxh64
from numakube.values.gotext import go_quote, parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


PREFIX: Final = "npv0"
VERSION: Final = "v001"
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
        return SEPARATOR.join((PREFIX + VERSION, *(f"{k}={v}" for k, v in fields.items())))


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
    header = PREFIX + VERSION + SEPARATOR
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
