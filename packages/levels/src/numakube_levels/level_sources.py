"""What levels there are: from the plugin's arguments, presets of labels, and topology objects.

A tree is a list of levels, coarse to fine. A node's domain at a level is the path of its values
down to that level, so that racks of one name in two blocks are two racks. A request uses one tree:
the first that knows every level that it names. A label that no tree knows is a level on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from numakube.api.codec import Wire
from numakube.errors import ConfigError
from numakube.values.names import qualified_name
from numakube_levels.hyper_nodes import NodeValues, hyper_tiers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo

HOSTNAME: Final = "kubernetes.io/hostname"
NODE: Final = "node"
"""The level below all others."""
MOST_LEVELS: Final = 16
"""As many as KAI allows."""
_MOST_SPARE: Final = 10_000
WHOLE: Final = "whole"
PREFIX: Final = "prefix"


class LevelArgs(Wire, frozen=True):
    """A level in the arguments of the plugin.

    Attributes:
        name: by which requests may name it; they may name the label as well.
        label: of nodes; nodes with one value of it are in one domain.
        part: ``prefix`` if only what comes before the last dot of the value counts.
        spare: nodes of each domain that gangs leave free, so that failed ones can be replaced.
    """

    name: str
    label: str
    part: Literal["whole", "prefix"] = "whole"
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a tree.

    Attributes:
        is_prefix: whether only what comes before the last dot of a value counts.
        members: what says which domain a node is in, if that is no label.
    """

    name: str
    label: str
    is_prefix: bool = False
    spare: int = 0
    members: NodeValues | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """By which the values of all nodes are kept."""
        return "numakube-level", self.label, self.is_prefix, self.members

    def value_of(self) -> Callable[[NodeInfo], str | None]:
        """Return what finds the value of a node; nodes without one are in no domain."""
        label, is_prefix = self.label, self.is_prefix
        if self.members is not None:
            return self.members.of

        def value(node: NodeInfo) -> str | None:
            text = node.name if label == HOSTNAME else node.labels.get(label)
            if text and is_prefix:
                return text.rpartition(".")[0] or text
            return text or None

        return value


@dataclass(frozen=True, slots=True)
class LevelTree:
    """Levels, coarse to fine.

    Attributes:
        source: who says so, for people.
    """

    source: str
    levels: tuple[Level, ...]

    def position(self, name: str) -> int | None:
        """Return which level *name* means, by its name or its label."""
        for at, level in enumerate(self.levels):
            if level.name == name:
                return at
        return next((at for at, level in enumerate(self.levels) if level.label == name), None)

    def knows(self, names: Iterable[str]) -> bool:
        """Tell whether all of *names* are levels."""
        return all(self.position(name) is not None for name in names)


PRESETS: Final[dict[str, tuple[Level, ...]]] = {
    "topograph": (
        Level("tier-3", "fabric.topograph.run/tier-3"),
        Level("tier-2", "fabric.topograph.run/tier-2"),
        Level("tier-1", "fabric.topograph.run/tier-1"),
        Level("tier-0", "fabric.topograph.run/tier-0"),
        Level("nvlink", "accelerator.topograph.run/domain"),
        Level("partition", "accelerator.topograph.run/sub-domain"),
    ),
    "nvidia": (
        Level("nvlink", "nvidia.com/gpu.clique", is_prefix=True),
        Level("partition", "nvidia.com/gpu.clique"),
    ),
    "aws": (
        Level("layer-1", "topology.k8s.aws/network-node-layer-1"),
        Level("layer-2", "topology.k8s.aws/network-node-layer-2"),
        Level("layer-3", "topology.k8s.aws/network-node-layer-3"),
    ),
    "google": (
        Level("block", "cloud.google.com/gce-topology-block"),
        Level("subblock", "cloud.google.com/gce-topology-subblock"),
        Level("host", "cloud.google.com/gce-topology-host"),
    ),
    "oracle": (
        Level("network-block", "oci.oraclecloud.com/host.network_block_id"),
        Level("rack", "oci.oraclecloud.com/host.rack_id"),
    ),
    "coreweave": (
        Level("fabric", "backend.coreweave.cloud/fabric"),
        Level("superpod", "backend.coreweave.cloud/superpod"),
        Level("leafgroup", "backend.coreweave.cloud/leafgroup"),
        Level("nvlink", "ds.coreweave.com/nvlink.domain"),
    ),
    "zones": (
        Level("region", "topology.kubernetes.io/region"),
        Level("zone", "topology.kubernetes.io/zone"),
    ),
}
"""Levels by labels that clouds and discovery tools write, coarse to fine."""

_NODE_LEVEL: Final = Level(NODE, HOSTNAME)


def configured(levels: Sequence[LevelArgs], preset: str) -> LevelTree | None:
    """Return the tree of the plugin's arguments.

    Raises:
        ConfigError: it makes no sense; the field is named.
    """
    if preset and preset not in PRESETS:
        raise ConfigError(f"preset: {preset!r}; known are {', '.join(PRESETS)}")
    if preset and levels:
        raise ConfigError("levels: give them or a preset, not both")
    if preset:
        return LevelTree(f"preset {preset}", with_nodes(PRESETS[preset]))
    if not levels:
        return None
    if len(levels) > MOST_LEVELS:
        raise ConfigError(f"levels: {len(levels)}; there may be {MOST_LEVELS}")
    made = tuple(map(_checked, range(len(levels)), levels))
    names = [level.name for level in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"levels: {twice!r} is there twice")
    return LevelTree("the scheduler's configuration", with_nodes(made))


def _checked(at: int, level: LevelArgs) -> Level:
    where = f"levels[{at}]"
    if not level.name or level.name == NODE:
        raise ConfigError(f"{where}.name: {level.name!r} is no name for a level")
    wrong = qualified_name(level.label)
    if wrong:
        raise ConfigError(f"{where}.label: {level.label!r}: {wrong[0]}")
    if not 0 <= level.spare <= _MOST_SPARE:
        raise ConfigError(f"{where}.spare: {level.spare} is not between 0 and {_MOST_SPARE}")
    return Level(level.name, level.label, level.part == PREFIX, level.spare)


def with_nodes(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Return *levels* and the one below all others."""
    return levels if levels[-1].label == HOSTNAME else (*levels, _NODE_LEVEL)


def of_labels(source: str, labels: Iterable[str]) -> LevelTree:
    """Return the tree of node labels, coarse to fine."""
    return LevelTree(source, with_nodes(tuple(Level(label, label) for label in labels)))


def of_objects(objects: ClusterObjects) -> Iterator[LevelTree]:
    """Yield the trees that objects describe: Kueue's and KAI's topologies, then HyperNodes."""
    for kind, topologies in (("Kueue", objects.topologies), ("KAI", objects.kai_topologies)):
        for name, topology in sorted(topologies.items()):
            levels = topology.spec.levels[:MOST_LEVELS]
            made = tuple(
                Level(level.alias or level.node_label, level.node_label) for level in levels
            )
            if made and all(level.label for level in made):
                yield LevelTree(f"{kind} Topology {name}", with_nodes(made))
    tiers = hyper_tiers(objects.hyper_nodes)[-MOST_LEVELS:]
    if tiers:
        made = tuple(Level(tier.name, tier.alias, members=tier.values) for tier in tiers)
        yield LevelTree("HyperNodes", with_nodes(made))


def tree_for(names: Sequence[str], trees: Iterable[LevelTree]) -> LevelTree:
    """Return the tree for a request that names levels *names*, coarse to fine."""
    for tree in trees:
        if tree.knows(names):
            return tree
    known = [name for name in dict.fromkeys(names) if name not in {NODE, HOSTNAME}]
    return of_labels("labels of nodes", known or [HOSTNAME])
