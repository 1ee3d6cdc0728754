"""Reading the configuration: upstream's ``config.json`` unchanged, and what we add to it.

Mistakes come in two kinds. Those that upstream refuses to start with (names, types, contradictions)
make the whole configuration unusable, and all of them are reported at once. A pool whose selectors
cannot be read is left out while the others work, with a remark.

Go's JSON decoder, which has read these files so far, takes keys in any case, lets the last of
several win, takes ``null`` for nothing said, and refuses values of the wrong kind. So do `Fields`;
what Go ignores (keys that it does not know) is remarked upon.

A pool of static devices, for labs, test beds and odd hardware, has them in ``devices``::

    {"id": "fpga0", "numaNode": 1, "deviceNodes": ["/dev/fpga0"], "env": {"MODEL": "x"}}
"""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import ConfigError, MalformedObject
from numakube.kubelet.preferred_allocation import Preference
from numakube.node.host_files import DeviceFile, HostMount
from numakube.node.pci.device_pools import (
    Config,
    DeviceSelectorSpec,
    DeviceType,
    PoolSpec,
    Remark,
    StaticDevice,
    parse_pattern,
)
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.node.pci.device_pools import PfPattern


DEFAULT_PREFIX: Final = "intel.com"
"""What programs take for pools without a prefix of their own, unless they are told another."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_ID: Final = re.compile(r"[0-9a-f]{4}")
_CLASS: Final = re.compile(r"[0-9a-f]{2}([0-9a-f]{2}){0,2}")
_SUBFUNCTION: Final = "sf"
_INTERNAL: Final = ("SelectorObjs",)

_COMMON: Final = ("vendors", "devices", "drivers")
_NETWORK: Final = (
    *_COMMON, "pciAddresses", "acpiIndexes", "pfNames", "rootDevices", "linkTypes",
    "ddpProfiles", "pKeys", "isRdma", "needVhostNet", "vdpaType",
)  # fmt: skip
_KEYS: Final[Mapping[DeviceType, tuple[str, ...]]] = {
    DeviceType.NETWORK: _NETWORK,
    DeviceType.ACCELERATOR: (*_COMMON, "pciAddresses", "acpiIndexes"),
    DeviceType.AUXILIARY: (
        *_COMMON, "acpiIndexes", "auxTypes", "pfNames", "rootDevices", "linkTypes", "isRdma",
        "needVhostNet",
    ),
    DeviceType.PCI: (*_COMMON, "classes", "pciAddresses", "acpiIndexes", "pfNames", "rootDevices"),
}  # fmt: skip
"""Which keys mean something in the selectors of each type."""


def read_config_file(path: Path, *, prefix: str) -> Config:
    """Return what a file says; *prefix* is for pools that have none of their own.

    Raises:
        ConfigError: it cannot be read, or makes no sense.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error.reason}") from None
    return read_config(text, str(path), prefix=prefix)


def read_config(text: str, subject: str, *, prefix: str) -> Config:
    """Return what *text* says, in JSON or, if *subject* ends like that, in YAML.

    Raises:
        ConfigError: with everything for which upstream, too, would not start.
    """
    reader = _ConfigReader(subject, prefix)
    return reader.read(_load(text, subject))


def read_entries(path: Path) -> tuple[tuple[dict[str, Any], ...], tuple[Remark, ...]]:
    """Return the ``resourceList`` of a file as it is, and what is odd in it.

    Raises:
        ConfigError: it cannot be read, or makes no sense.
    """
    config = read_config_file(path, prefix=DEFAULT_PREFIX)
    tree = _load(path.read_text(encoding="utf-8"), str(path))
    entries = Fields(str(path), expect(tree, dict, str(path))).items("resourceList")
    return tuple(entries), config.remarks


def config_mistakes(pools: Sequence[Mapping[str, Any]], *, prefix: str) -> list[str]:
    """Return what is wrong or odd in the pools of a ``resourceList``."""
    try:
        config = read_config(json.dumps({"resourceList": list(pools)}), "resources", prefix=prefix)
    except ConfigError as error:
        return [str(error)]
    return [str(remark) for remark in config.remarks]


def _load(text: str, subject: str) -> object:
    if subject.endswith((".yaml", ".yml")):
        # Upstream's configurations are JSON: most nodes do without YAML.
        from numakube.api.yaml_text import load_yaml

        try:
            return load_yaml(text, subject)
        except MalformedObject as error:
            raise ConfigError(str(error)) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{subject}: is not JSON: {error.msg} ({where})") from None
    except ValueError as error:
        raise ConfigError(f"{subject}: is not JSON: {error}") from None
    except RecursionError:
        raise ConfigError(f"{subject}: is nested too deeply") from None


class _ConfigReader:
    """Gathers pools, remarks and mistakes."""

    def __init__(self, subject: str, prefix: str) -> None:
        self._subject = subject
        self._prefix = prefix
        self._pools: dict[str, PoolSpec] = {}
        self._remarks: list[Remark] = []
        self._mistakes: list[str] = []

    def read(self, tree: object) -> Config:
        try:
            top = Fields(self._subject, expect(tree, dict, self._subject))
            entries = top.items("resourceList")
        except WrongKind as error:
            raise ConfigError(str(error)) from None
        self._remarks += top.unknown()
        seen: set[str] = set()
        for number, entry in enumerate(entries):
            self._entry(entry, f"resourceList[{number}]", seen)
        if not entries:
            self._remarks.append(Remark(self._subject, "resourceList has no pools"))
        if self._mistakes:
            raise ConfigError(f"{self._subject}: {'; '.join(self._mistakes)}")
        return Config(tuple(self._pools.values()), tuple(self._remarks))

    def _entry(self, entry: object, place: str, seen: set[str]) -> None:
        try:
            fields = Fields(place, expect(entry, dict, place))
            name = fields.text("resourceName")
            prefix = fields.text("resourcePrefix") or self._prefix
            kind = fields.text("deviceType") or str(DeviceType.NETWORK)
        except WrongKind as error:
            self._mistakes.append(str(error))
            return
        resource = f"{prefix}/{name}"
        fields.where = f"pool {resource}" if name else place
        mistake = _name_mistake(name, resource) or _type_mistake(kind)
        if not mistake and resource in seen:
            mistake = f'resourceName: resource name "{resource}" already exists'
        seen.add(resource)
        if mistake:
            self._mistakes.append(f"{fields.where}: {mistake}")
            return
        self._pool(fields, prefix, name, DeviceType(kind))

    def _pool(self, fields: Fields, prefix: str, name: str, type_: DeviceType) -> None:
        try:
            pool = PoolSpec(
                prefix=prefix,
                name=name,
                type=type_,
                exclude_topology=fields.switch("excludeTopology"),
                additional_info=_additional_info(fields),
                preference=_preference(fields),
                check_link=fields.maybe_switch("checkLink"),
                selectors=self._selectors(fields, type_),
                devices=self._devices(fields, type_),
            )
        except _Skipped as reason:
            self._remarks.append(Remark(fields.where, f"{reason}; it is left out", skipped=True))
        except WrongKind as error:
            self._mistakes.append(str(error))
        else:
            self._pools[pool.resource] = pool
        self._remarks += fields.unknown((*_INTERNAL, "selectors", "devices"))

    def _selectors(self, fields: Fields, type_: DeviceType) -> tuple[DeviceSelectorSpec, ...]:
        given = fields.get("selectors")
        if type_ is DeviceType.STATIC:
            if given is not None:
                self._remark(fields.at("selectors"), "a static pool has none; ignored")
            return ()
        if given is None:
            raise _Skipped("selectors: missing; write {} to select every device of the type")
        entries = given if isinstance(given, list) else [given]
        if not entries:
            raise _Skipped("selectors: need at least one selector, got 0")
        wheres = (
            fields.at("selectors") + (f"[{number}]" if isinstance(given, list) else "")
            for number in range(len(entries))
        )
        return tuple(
            self._selector(entry, where, type_)
            for entry, where in zip(entries, wheres, strict=True)
        )

    def _selector(self, entry: object, where: str, type_: DeviceType) -> DeviceSelectorSpec:
        try:
            fields = Fields(where, expect(entry, dict, where))
            keys = frozenset(_KEYS[type_])
            selector = DeviceSelectorSpec(
                vendors=fields.texts("vendors"),
                devices=fields.texts("devices"),
                classes=_chosen(fields, "classes", keys),
                drivers=fields.texts("drivers"),
                pci_addresses=_chosen(fields, "pciAddresses", keys),
                acpi_indexes=_chosen(fields, "acpiIndexes", keys),
                aux_types=_chosen(fields, "auxTypes", keys),
                pf_names=self._patterns(fields, "pfNames", keys),
                root_devices=self._patterns(fields, "rootDevices", keys),
                link_types=_chosen(fields, "linkTypes", keys),
                ddp_profiles=_chosen(fields, "ddpProfiles", keys),
                pkeys=_chosen(fields, "pKeys", keys),
                is_rdma="isRdma" in keys and fields.switch("isRdma"),
                need_vhost_net="needVhostNet" in keys and fields.switch("needVhostNet"),
                vdpa_type=fields.text("vdpaType") if "vdpaType" in keys else "",
            )
        except WrongKind as error:
            # The message that the pool is skipped has its name.
            raise _Skipped(str(error).partition(": ")[2]) from None
        self._remarks += fields.unknown()
        self._check(selector, where, type_)
        return selector

    def _patterns(self, fields: Fields, key: str, keys: frozenset[str]) -> tuple[PfPattern, ...]:
        patterns = tuple(map(parse_pattern, _chosen(fields, key, keys)))
        for pattern in patterns:
            if pattern.mistake:
                self._remark(fields.at(key), f"{pattern.text!r}: {pattern.mistake}")
        return patterns

    def _check(self, selector: DeviceSelectorSpec, where: str, type_: DeviceType) -> None:
        """Tell what upstream refuses, and what can never match."""
        if selector.is_rdma and selector.vdpa_type:
            self._mistakes.append(f"{where}: vdpaType and isRdma are mutually exclusive")
        if type_ is DeviceType.AUXILIARY:
            self._check_auxiliary(selector, where)
        if type_ is DeviceType.PCI and not _narrows(selector):
            raise _Skipped(
                "selectors: a pciDevice pool needs classes, vendors, devices or pciAddresses: "
                "it would offer the host's disks otherwise"
            )
        for key, values, rule, form in (
            ("vendors", selector.vendors, _ID, "4 hexadecimal digits in lower case, without 0x"),
            ("devices", selector.devices, _ID, "4 hexadecimal digits in lower case, without 0x"),
            ("classes", selector.classes, _CLASS, "2, 4 or 6 hexadecimal digits in lower case"),
        ):
            for value in values:
                if not rule.fullmatch(value):
                    self._remark(f"{where}: {key}", f"{value!r} can never match: write {form}")
        if len(selector.link_types) > 1:
            self._remark(f"{where}: linkTypes", "should have a single value")

    def _check_auxiliary(self, selector: DeviceSelectorSpec, where: str) -> None:
        if not selector.aux_types:
            self._mistakes.append(f"{where}: auxTypes: not specified; write [{_SUBFUNCTION!r}]")
        for type_ in selector.aux_types:
            if type_ != _SUBFUNCTION:
                self._mistakes.append(
                    f"{where}: auxTypes: {type_!r}: only {_SUBFUNCTION!r} is supported"
                )

    def _devices(self, fields: Fields, type_: DeviceType) -> tuple[Any, ...]:
        if type_ is not DeviceType.STATIC:
            if fields.has("devices"):
                self._remark(fields.at("devices"), "only a staticDevice pool has them; ignored")
            return ()
        devices = read_devices(fields)
        if not devices:
            raise _Skipped("devices: a staticDevice pool needs at least one")
        return devices

    def _remark(self, where: str, what: str) -> None:
        self._remarks.append(Remark(where, what))


class _Skipped(Exception):
    """Why one pool is left out."""


def _chosen(fields: Fields, key: str, keys: frozenset[str]) -> tuple[str, ...]:
    """Return a list if it means something here; otherwise it stays unknown, and is remarked on."""
    return fields.texts(key) if key in keys else ()


def _narrows(selector: DeviceSelectorSpec) -> bool:
    return bool(selector.classes or selector.vendors or selector.devices or selector.pci_addresses)


def _name_mistake(name: str, resource: str) -> str:
    if not name:
        return "resourceName: missing"
    if not _NAME.fullmatch(name):
        return f'resourceName: resource name "{name}" contains invalid characters'
    if not is_extended(resource):
        return f'resourceName: the kubelet would refuse a resource called "{resource}"'
    return ""


def _type_mistake(kind: str) -> str:
    if kind in set(DeviceType):
        return ""
    return f'deviceType: unsupported "{kind}"; there are {", ".join(DeviceType)}'


def _preference(fields: Fields) -> Preference:
    given = fields.text("preferredAllocation", str(Preference.MOST_FREE))
    try:
        return Preference(given)
    except ValueError:
        known = ", ".join(Preference)
        where = fields.at("preferredAllocation")
        raise WrongKind(f'{where}: unknown "{given}"; there are {known}') from None


def _additional_info(fields: Fields) -> Mapping[str, Mapping[str, str]] | None:
    if not fields.has("additionalInfo"):
        return None
    found = {}
    for address, entries in fields.mapping("additionalInfo").items():
        where = fields.at(f"additionalInfo.{address}")
        pairs = {} if entries is None else expect(entries, dict, where)
        found[address] = {
            name: text_or_null(value, f"{where}.{name}") for name, value in pairs.items()
        }
    return found


_KINDS: Final = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
_SHOWN: Final = 60


class WrongKind(ConfigError):
    """A value is of the wrong kind; the text says where."""


class Fields:
    """The members of one object."""

    def __init__(self, where: str, tree: Mapping[str, Any]) -> None:
        """Take the members.

        Args:
            where: what the object is called in complaints.
            tree: its members; of keys that differ in case only, the last that says something
                counts.
        """
        self.where = where
        self._members: dict[str, tuple[str, Any]] = {}
        for key, value in tree.items():
            if value is not None or key.casefold() not in self._members:
                self._members[key.casefold()] = key, value
        self._known: list[str] = []

    def get(self, key: str) -> object:
        """Return the value at *key*; ``None`` if there is none."""
        self._known.append(key)
        return self._members.get(key.casefold(), (key, None))[1]

    def has(self, key: str) -> bool:
        """Tell whether something is said at *key*."""
        return self.get(key) is not None

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self.get(key)
        return default if value is None else expect(value, str, self.at(key))

    def switch(self, key: str) -> bool:
        """Return whether something is on."""
        return bool(self.maybe_switch(key))

    def maybe_switch(self, key: str) -> bool | None:
        """Return whether something is on; ``None`` if nothing is said."""
        value = self.get(key)
        return None if value is None else expect(value, bool, self.at(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        found = self.items(key)
        return tuple(text_or_null(one, f"{self.at(key)}[{n}]") for n, one in enumerate(found))

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.get(key)
        return [] if value is None else expect(value, list, self.at(key))

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return an object as it is."""
        value = self.get(key)
        return {} if value is None else expect(value, dict, self.at(key))

    def pairs(self, key: str) -> Mapping[str, str]:
        """Return an object whose values are strings."""
        found = self.mapping(key)
        return {name: text_or_null(one, f"{self.at(key)}.{name}") for name, one in found.items()}

    def at(self, key: str) -> str:
        """Return what the value at *key* is called in complaints."""
        return f"{self.where}: {key}"

    def unknown(self, beside: Iterable[str] = ()) -> list[Remark]:
        """Return remarks on unknown keys, with the nearest one that exists."""
        known = {key.casefold(): key for key in (*self._known, *beside)}
        remarks = []
        for folded, (key, _) in self._members.items():
            if folded not in known:
                near = difflib.get_close_matches(folded, known, n=1)
                hint = f" (is {known[near[0]]!r} meant?)" if near else ""
                remarks.append(Remark(self.where, f"unknown key {key!r} is ignored{hint}"))
        return remarks


def text_or_null(value: object, where: str) -> str:
    """Return a string; ``null`` stands for the empty one, as in Go.

    Raises:
        WrongKind: it is neither.
    """
    return "" if value is None else expect(value, str, where)


def expect(value: object, kind: type, where: str) -> Any:  # noqa: ANN401 - of that kind
    """Return *value*, which must be of *kind*.

    Raises:
        WrongKind: it is not.
    """
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        shown = json.dumps(value, default=str)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise WrongKind(f"{where}: must be {_KINDS[kind]}, not {shown}")
    return value


_DEVICE_ID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
"""What a device of the Container Device Interface may be called."""
_LONGEST_ID: Final = 63
_MOST: Final = 4096
"""Devices that one entry may stand for: a mistyped number must not fill the memory."""
_PERMISSIONS: Final = re.compile(r"r?w?m?")


def read_devices(pool: Fields) -> tuple[StaticDevice, ...]:
    """Return the devices of a static pool.

    Raises:
        WrongKind: with the first mistake.
    """
    found: dict[str, StaticDevice] = {}
    for number, entry in enumerate(pool.items("devices")):
        where = f"{pool.at('devices')}[{number}]"
        for device in _read_device(Fields(where, expect(entry, dict, where))):
            if device.id in found:
                raise WrongKind(f"{where}: id: {device.id!r} already exists")
            found[device.id] = device
    return tuple(found.values())


def _read_device(fields: Fields) -> Iterator[StaticDevice]:
    """Return one device, or ``count`` of them with a number at the end of their ids."""
    name = fields.text("id")
    count = _number(fields, "count", most=_MOST)
    names = [name] if count is None else [f"{name}{number}" for number in range(count)]
    healthy = fields.maybe_switch("healthy")
    for id_ in names:
        if len(id_) > _LONGEST_ID or not _DEVICE_ID.fullmatch(id_):
            raise WrongKind(
                f"{fields.at('id')}: {id_!r}: must have at most {_LONGEST_ID} letters, digits, "
                "'_', '.', ':' and '-', with a letter or digit at both ends"
            )
        yield StaticDevice(
            id=id_,
            numa_nodes=_numa_nodes(fields),
            healthy=healthy is not False,
            nodes=tuple(_nodes(fields)),
            mounts=tuple(_mounts(fields)),
            envs=fields.pairs("env"),
        )
    for remark in fields.unknown():
        raise WrongKind(str(remark).replace(" is ignored", ""))


def _numa_nodes(fields: Fields) -> tuple[int, ...]:
    single = _number(fields, "numaNode", least=-1)
    many = fields.items("numaNodes")
    if single is not None and many:
        raise WrongKind(f"{fields.where}: numaNode and numaNodes are mutually exclusive")
    numbers = [single] if single is not None else many
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise WrongKind(f"{fields.at('numaNodes')}: {number!r} is not a number")
    return tuple(sorted({number for number in numbers if number >= 0}))


def _nodes(fields: Fields) -> Iterator[DeviceFile]:
    for number, entry in enumerate(fields.items("deviceNodes")):
        where = f"{fields.at('deviceNodes')}[{number}]"
        node = _paths(entry, where)
        permissions = node.text("permissions", "rw")
        if not permissions or not _PERMISSIONS.fullmatch(permissions):
            raise WrongKind(f"{where}: permissions: {permissions!r} is not made of r, w and m")
        host = _absolute(node, "hostPath")
        yield DeviceFile(node.text("containerPath") or host, host, permissions)


def _mounts(fields: Fields) -> Iterator[HostMount]:
    for number, entry in enumerate(fields.items("mounts")):
        mount = _paths(entry, f"{fields.at('mounts')}[{number}]")
        host = _absolute(mount, "hostPath")
        yield HostMount(mount.text("containerPath") or host, host, mount.switch("readOnly"))


def _paths(entry: Any, where: str) -> Fields:  # noqa: ANN401 - what the file has
    """Return an entry, for which its path alone may stand."""
    tree = {"hostPath": entry} if isinstance(entry, str) else expect(entry, dict, where)
    return Fields(where, tree)


def _absolute(fields: Fields, key: str) -> str:
    path = fields.text(key)
    if not path.startswith("/"):
        raise WrongKind(f"{fields.at(key)}: {path!r} is not an absolute path")
    return path


def _number(fields: Fields, key: str, *, least: int = 1, most: int = 1 << 31) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WrongKind(f"{fields.at(key)}: must be a number of {least} to {most}, not {value!r}")
    return value
