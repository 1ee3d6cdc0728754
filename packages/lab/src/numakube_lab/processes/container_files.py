"""What a container sees as its file system: a folder, with volumes at their mount paths below it.

    <pods>/<uid>/volumes/<volume>/...
    <pods>/<uid>/containers/<container>/<mount path> -> a volume, or a path of the node

A mount is a symbolic link. Paths of the node lead into the lab node's own folder, where
``/var/lib/kubelet``, ``/sys`` and ``/proc`` are what its kubelet keeps; other paths are folders of
their own.
What a mount covers of a path of the node stays to be seen.

The environment of a container, put together as the kubelet does, and the downward API. Later
variables win over earlier ones and may refer to them with ``$(NAME)``. Other services' host and
port variables are not provided: only those of the API server are.

Volumes of a pod as folders. Files of config maps, secrets, fields and tokens are replaced all at
once as a kubelet does it: they live in a folder of their own, ``..data`` is a link to the present
one, and every file is a link through it. Who reads sees either all of the old or all of the new.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.kube import SERVICE_ACCOUNT
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import milli_value, value
from numakube.values.resources import CPU
from numakube_lab.processes.full_pod_spec import (
    ROOT_AUTHORITY,
    ConfigMapSource,
    DownwardFile,
    DownwardSource,
    FieldRef,
    KeyToPath,
    Mount,
    MountedVolume,
    ProjectedSource,
    Projection,
    SecretProjection,
    TokenProjection,
)
from numakube_lab.processes.program_table import CannotStart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from numakube.api.pod import HostPathVolumeSource
    from numakube.kubelet import KubeletNode
    from numakube_lab.processes.full_pod_spec import (
        InsideAddress,
        Keys,
        ResourceFieldRef,
        RunnableContainer,
        RunnablePod,
        SecretSource,
        Sources,
        ValueSource,
        VariablesFrom,
    )


async def environment_of(
    pod: RunnablePod, container: RunnableContainer, sources: Sources
) -> dict[str, str]:
    """Return the environment of a container.

    Raises:
        CannotStart: something that it refers to is missing.
    """
    known = _given(pod, sources.inside)
    for group in container.env_from:
        known |= await _all_of(pod, group, sources)
    for variable in container.env:
        if variable.value_from is None:
            known[variable.name] = expand(variable.value, known)
            continue
        value = await _value(pod, container, variable.value_from, sources)
        if value is not None:
            known[variable.name] = value
    return known


def _given(pod: RunnablePod, inside: InsideAddress) -> dict[str, str]:
    """Return what every container has without asking."""
    host, port = inside.host, str(inside.port)
    spec = pod.spec
    name = spec.node_name if spec.host_network else spec.hostname or pod.metadata.name
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOSTNAME": name,
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{host}:{port}",
    }


async def _all_of(pod: RunnablePod, group: VariablesFrom, sources: Sources) -> Mapping[str, str]:
    namespace = pod.metadata.namespace
    keys = None
    if (ref := group.config_map_ref) is not None:
        keys = await sources.config_map(namespace, ref.name, optional=ref.optional)
    elif (ref := group.secret_ref) is not None:
        keys = await sources.secret(namespace, ref.name, optional=ref.optional)
    data = {} if keys is None else keys.data
    return {f"{group.prefix}{key}": _text(value) for key, value in data.items()}


async def _value(
    pod: RunnablePod, container: RunnableContainer, source: ValueSource, sources: Sources
) -> str | None:
    """Return the value that a variable refers to; ``None`` if it may be missing and is."""
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        allocatable = await sources.allocatable(pod.spec.node_name)
        ref = source.resource_field_ref
        return resource_value(pod, ref, container=container.name, allocatable=allocatable)
    return await _key(pod, source, sources)


async def _key(pod: RunnablePod, source: ValueSource, sources: Sources) -> str | None:
    namespace = pod.metadata.namespace
    keys = None
    if (ref := source.config_map_key_ref) is not None:
        keys = await sources.config_map(namespace, ref.name, optional=ref.optional)
    elif (ref := source.secret_key_ref) is not None:
        keys = await sources.secret(namespace, ref.name, optional=ref.optional)
    if keys is None or ref is None:
        return None
    value = keys.get(ref.key, optional=ref.optional)
    return None if value is None else _text(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


CDI_FOLDER: Final = "/var/run/cdi"
"""Where runtimes look for devices."""


def cdi_variables(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Return the variables that CDI devices give a container, by the files in *folder*.

    Raises:
        CannotStart: a device is in no file, in the words of containerd.
    """
    known: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.json")) if names else ():
        specification = msgspec.json.decode(file.read_bytes())
        for device in specification["devices"]:
            edits = device.get("containerEdits", {})
            known[f"{specification['kind']}={device['name']}"] = edits.get("env", [])
    if missing := [name for name in names if name not in known]:
        raise CannotStart(
            "CreateContainerError",
            f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}",
        )
    return dict(text.split("=", 1) for name in names for text in known[name])


_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return *text* with references to *known* variables replaced.

    >>> expand("--node=$(NODE) $(OTHER) $$(NODE)", {"NODE": "n1"})
    '--node=n1 $(OTHER) $(NODE)'
    """

    def replaced(match: re.Match[str]) -> str:
        dollar, name = match.groups()
        return "$" if dollar else known.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def field_value(pod: RunnablePod, path: str) -> str:
    """Return the field of *pod* at *path*, in the form that containers see."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    maps = {"labels": metadata.labels, "annotations": metadata.annotations}
    if match := _SUBSCRIPT.fullmatch(path):
        return maps[match[1]].get(match[2], "")
    values = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "metadata.labels": _lines(metadata.labels),
        "metadata.annotations": _lines(metadata.annotations),
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name,
        "status.hostIP": status.host_ip,
        "status.hostIPs": status.host_ip,
        "status.podIP": status.pod_ip,
        "status.podIPs": status.pod_ip,
    }
    if path not in values:
        raise CannotStart.because(f"unsupported fieldPath: {path}")
    return values[path]


def resource_value(
    pod: RunnablePod, ref: ResourceFieldRef, *, container: str, allocatable: Mapping[str, str]
) -> str:
    """Return a request or limit of a container in units of the divisor, rounded up.

    A limit that is not set is what the node can give at most.
    """
    resources = pod.container(ref.container_name or container).resources
    kind, _, name = ref.resource.partition(".")
    if kind not in ("limits", "requests"):
        raise CannotStart.because(f"unsupported container resource : {ref.resource}")
    found = (resources.limits if kind == "limits" else resources.requests).get(name)
    if found is None and kind == "limits":
        found = allocatable.get(name)
    amount = milli_value if name == CPU else value
    unit = amount(ref.divisor) or amount(1)
    return str(-(-amount(found or 0) // unit))


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quoted(text)}" for key, text in sorted(values.items()))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


TOKEN_SECONDS: Final = 3607
"""How long the token lives that every pod gets: the odd seconds tell it from others."""

ACCOUNT_VOLUME: Final = MountedVolume(
    name="kube-api-access",
    projected=ProjectedSource(
        sources=(
            Projection(
                service_account_token=TokenProjection(
                    path="token", expiration_seconds=TOKEN_SECONDS
                )
            ),
            Projection(
                config_map=ConfigMapSource(
                    name=ROOT_AUTHORITY, items=(KeyToPath(key="ca.crt", path="ca.crt"),)
                )
            ),
            Projection(
                downward_api=DownwardSource(
                    items=(
                        DownwardFile(
                            path="namespace", field_ref=FieldRef(field_path="metadata.namespace")
                        ),
                    )
                )
            ),
        )
    ),
)
"""What an API server's admission adds to every pod: token, authority and namespace."""

_DATA: Final = "..data"


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """A file to be written."""

    content: bytes
    mode: int


async def files_of(
    pod: RunnablePod, volume: MountedVolume, sources: Sources
) -> dict[str, ContainerFile] | None:
    """Return the files of a volume; ``None`` if it does not consist of such.

    Raises:
        CannotStart: something that it refers to is missing.
    """
    try:
        projected = _as_projected(volume)
        if projected is None:
            return None
        files: dict[str, ContainerFile] = {}
        for source in projected.sources:
            files |= await _projection(pod, source, sources, mode=projected.default_mode)
    except CannotStart as trouble:
        raise CannotStart.unmounted(volume.name, trouble.message) from trouble
    return files


def write_files(folder: Path, files: Mapping[str, ContainerFile]) -> None:
    """Bring *folder* to exactly *files*, all at once; nothing is done if it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    present = folder / _DATA
    if present.is_symlink() and _content(present) == {path: f.content for path, f in files.items()}:
        return
    old = present.resolve() if present.is_symlink() else None
    number = 1 + max((int(path.name[2:]) for path in folder.glob("..[0-9]*")), default=0)
    new = folder / f"..{number}"
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    new.mkdir(exist_ok=True)
    link = folder / "..data_tmp"
    link.symlink_to(new.name)
    link.replace(present)
    _link_names(folder, {path.partition("/")[0] for path in files})
    if old is not None:
        shutil.rmtree(old)


def _link_names(folder: Path, names: set[str]) -> None:
    for name in names:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{_DATA}/{name}")
    for link in folder.iterdir():
        if link.is_symlink() and link.name != _DATA and link.name not in names:
            link.unlink()


def _content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _as_projected(volume: MountedVolume) -> ProjectedSource | None:
    """Return a volume of files in the one form that covers all."""
    if volume.projected is not None:
        return volume.projected
    if (map_ := volume.config_map) is not None:
        return ProjectedSource(
            sources=(Projection(config_map=map_),), default_mode=map_.default_mode
        )
    if (fields := volume.downward_api) is not None:
        return ProjectedSource(
            sources=(Projection(downward_api=fields),), default_mode=fields.default_mode
        )
    if (secret := volume.secret) is not None:
        return ProjectedSource(sources=(_secret(secret),), default_mode=secret.default_mode)
    return None


def _secret(source: SecretSource) -> Projection:
    return Projection(
        secret=SecretProjection(
            name=source.secret_name, items=source.items, optional=source.optional
        )
    )


async def _projection(
    pod: RunnablePod, source: Projection, sources: Sources, *, mode: int
) -> dict[str, ContainerFile]:
    namespace = pod.metadata.namespace
    if (token := source.service_account_token) is not None:
        return {token.path: ContainerFile(await sources.token(pod, token), 0o600)}
    if (fields := source.downward_api) is not None:
        return await _field_files(pod, fields, sources, mode=mode)
    if (map_ := source.config_map) is not None:
        keys = await sources.config_map(namespace, map_.name, optional=map_.optional)
        return _key_files(keys, map_.items, optional=map_.optional, mode=mode)
    if (secret := source.secret) is not None:
        keys = await sources.secret(namespace, secret.name, optional=secret.optional)
        return _key_files(keys, secret.items, optional=secret.optional, mode=mode)
    return {}


def _key_files(
    keys: Keys | None, items: tuple[KeyToPath, ...], *, optional: bool, mode: int
) -> dict[str, ContainerFile]:
    if keys is None:
        return {}
    if not items:
        return {key: ContainerFile(value, mode) for key, value in keys.data.items()}
    files = {}
    for item in items:
        value = keys.data.get(item.key)
        if value is not None:
            files[item.path] = ContainerFile(value, mode if item.mode is None else item.mode)
        elif not optional:
            raise CannotStart.because(f"references non-existent config key: {item.key}")
    return files


async def _field_files(
    pod: RunnablePod, source: DownwardSource, sources: Sources, *, mode: int
) -> dict[str, ContainerFile]:
    files = {}
    for item in source.items:
        text = ""
        if item.field_ref is not None:
            text = field_value(pod, item.field_ref.field_path)
        elif (ref := item.resource_field_ref) is not None:
            allocatable = await sources.allocatable(pod.spec.node_name)
            text = resource_value(pod, ref, container="", allocatable=allocatable)
        files[item.path] = ContainerFile(text.encode(), mode if item.mode is None else item.mode)
    return files


_HOST: Final = "host"
_KUBELET: Final = "var/lib/kubelet"
_SYSFS: Final = "sys"
_PROCFS: Final = "proc"
ACCOUNT_PATH: Final = SERVICE_ACCOUNT.as_posix()


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The file systems of the lab's nodes, below the folder in which each has one.

    Attributes:
        make: has a path of a node written; called before it can be seen.
    """

    root: Path
    make: Callable[[str, str], Awaitable[None]]

    def path(self, node: str, path: str) -> Path:
        """Return where a node's *path* is."""
        folder = self.root / node
        host = folder / _HOST
        if not host.is_dir():
            (host / _KUBELET).parent.mkdir(parents=True)
            (host / _KUBELET).symlink_to(folder.resolve())
            for name in (_SYSFS, _PROCFS):
                (folder / name).mkdir(exist_ok=True)
                (host / name).symlink_to((folder / name).resolve())
        return (host / path.lstrip("/")).resolve()


class PodFiles:
    """The volumes of one pod, and the file systems of its containers."""

    def __init__(self, folder: Path, nodes: NodeFiles) -> None:
        self._folder = folder
        self._nodes = nodes
        self._homes: dict[str, Path] = {}

    async def refresh(self, pod: RunnablePod, sources: Sources) -> None:
        """Make the volumes that are missing, and bring files up to date.

        Raises:
            CannotStart: something that they refer to is missing.
        """
        volumes = list(pod.spec.volumes)
        if await sources.mounts_token(pod):
            volumes.append(ACCOUNT_VOLUME)
        for volume in volumes:
            if volume.host_path is not None:
                await self._nodes.make(pod.spec.node_name, volume.host_path.path)
            files = await files_of(pod, volume, sources)
            if files is None:
                self._homes[volume.name] = self._folder_of(pod, volume)
            else:
                home = self._homes[volume.name] = self._volume(volume.name)
                write_files(home, files)

    def build(self, pod: RunnablePod, container: RunnableContainer, env: Mapping[str, str]) -> Path:
        """Return the root of a fresh file system for a container."""
        root = self._folder / "containers" / container.name
        if root.exists():
            shutil.rmtree(root)
        (root / "tmp").mkdir(parents=True)
        for mount in sorted(self._mounts(container), key=lambda one: one.mount_path.count("/")):
            sub_path = mount.sub_path or expand(mount.sub_path_expr, env)
            self._mount(root / mount.mount_path.strip("/"), mount.name, sub_path)
        return root

    def remove(self) -> None:
        """Delete everything but what belongs to the node."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _mounts(self, container: RunnableContainer) -> Iterable[Mount]:
        yield from container.volume_mounts
        taken = {mount.mount_path.strip("/") for mount in container.volume_mounts}
        if ACCOUNT_VOLUME.name in self._homes and ACCOUNT_PATH not in taken:
            yield Mount(name=ACCOUNT_VOLUME.name, mount_path=ACCOUNT_PATH)

    def _mount(self, point: Path, volume: str, sub_path: str) -> None:
        home = self._homes[volume]
        source = home / sub_path if sub_path else home
        if not source.exists():
            source.mkdir(parents=True)
        if not point.parent.resolve().is_relative_to(self._folder.resolve()):
            return  # On top of a folder of the node a link would be left on the node itself.
        point.parent.mkdir(parents=True, exist_ok=True)
        if not point.exists():
            point.symlink_to(source.absolute())

    def _folder_of(self, pod: RunnablePod, volume: MountedVolume) -> Path:
        """Return the folder of a volume that does not consist of given files."""
        if volume.host_path is not None:
            return self._host_path(pod.spec.node_name, volume.name, volume.host_path)
        if volume.empty_dir is None:
            raise CannotStart.unmounted(volume.name, "the lab cannot mount volumes of this kind")
        home = self._volume(volume.name)
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _host_path(self, node: str, volume: str, source: HostPathVolumeSource) -> Path:
        path, type_ = self._nodes.path(node, source.path), source.type or ""
        if type_ in ("", "DirectoryOrCreate") and not path.exists():
            path.mkdir(parents=True)
        elif type_ == "FileOrCreate" and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        check = _HOST_PATH_CHECKS.get(type_)
        if check is not None and not check[1](path):
            message = f"hostPath type check failed: {source.path} is not a {check[0]}"
            raise CannotStart.unmounted(volume, message)
        return path

    def _volume(self, name: str) -> Path:
        return self._folder / "volumes" / name


def show_machine(root: Path, sysfs: Path) -> None:
    """Let a container see its node's ``/sys``, unless something is mounted there."""
    point = root / _SYSFS
    if not point.exists():
        point.symlink_to(sysfs)


def show_status(root: Path, model: KubeletNode, uid: str, container: str) -> None:
    """Write what the kernel would say of the container's CPUs and memory nodes."""
    held = model.placement(uid, container)
    everywhere = [node.id for node in model.machine.nodes if node.memory_bytes]
    bound = {node for block in held.memory for node in block.numa_nodes}
    status = root / "proc" / "self" / "status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(
        f"Cpus_allowed_list:\t{held.cpus or model.shared_cpus}\n"
        f"Mems_allowed_list:\t{CpuSet.of(bound or everywhere)}\n",
        encoding="ascii",
    )


_HOST_PATH_CHECKS: Final[Mapping[str, tuple[str, Callable[[Path], bool]]]] = {
    "Directory": ("directory", Path.is_dir),
    "DirectoryOrCreate": ("directory", Path.is_dir),
    "File": ("file", Path.is_file),
    "FileOrCreate": ("file", Path.is_file),
    "Socket": ("socket file", Path.is_socket),
    "CharDevice": ("character device", Path.is_char_device),
    "BlockDevice": ("block device", Path.is_block_device),
}
