"""cAdvisor's MachineInfo: how a kubelet learns its machine. Sizes of hugepages are in KiB there."""

from typing import Annotated

import msgspec

Unsigned = Annotated[int, msgspec.Meta(ge=0)]


class CadvisorStruct(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of these types: names are snake_case, and everything is written."""


class Cache(CadvisorStruct, frozen=True):
    """A cache of a core or of a NUMA node; size in bytes."""

    id: int = 0
    size: Unsigned = 0
    type: str = ""
    level: int = 0


class HugePagesInfo(CadvisorStruct, frozen=True):
    """Hugepages of one size; ``page_size`` in KiB."""

    page_size: Unsigned = 0
    num_pages: Unsigned = 0


class CoreInfo(CadvisorStruct, frozen=True):
    """A physical core; ``core_id`` is unique within a socket only."""

    core_id: int = 0
    thread_ids: tuple[int, ...] = ()
    caches: tuple[Cache, ...] = ()
    uncore_caches: tuple[Cache, ...] = ()
    socket_id: int = 0


class NodeInfo(CadvisorStruct, frozen=True):
    """A NUMA node; memory in bytes, distances in the order of the nodes."""

    node_id: int = 0
    memory: Unsigned = 0
    hugepages: tuple[HugePagesInfo, ...] = ()
    cores: tuple[CoreInfo, ...] = ()
    caches: tuple[Cache, ...] = ()
    distances: tuple[Unsigned, ...] = ()


class MachineInfo(CadvisorStruct, frozen=True):
    """A whole machine."""

    num_cores: int = 0
    num_physical_cores: int = 0
    num_sockets: int = 0
    cpu_frequency_khz: Unsigned = 0
    memory_capacity: Unsigned = 0
    swap_capacity: Unsigned = 0
    hugepages: tuple[HugePagesInfo, ...] = ()
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    topology: tuple[NodeInfo, ...] = ()
