"""Volumes of a pod as folders.

Files of config maps, secrets, fields and tokens are replaced all at once as a kubelet does it: they
live in a folder of their own, ``..data`` is a link to the present one, and every file is a link
through it. Who reads sees either all of the old or all of the new.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube_lab.processes.config_sources import ROOT_AUTHORITY
from numakube_lab.processes.container_tasks import CannotStart
from numakube_lab.processes.container_variables import field_value, resource_value
from numakube_lab.processes.full_pod_spec import (
    ConfigMapSource,
    DownwardFile,
    DownwardSource,
    FieldRef,
    KeyToPath,
    MountedVolume,
    ProjectedSource,
    Projection,
    SecretProjection,
    TokenProjection,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube_lab.processes.config_sources import Keys, Sources
    from numakube_lab.processes.full_pod_spec import RunnablePod, SecretSource

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
class File:
    """A file to be written."""

    content: bytes
    mode: int


async def files_of(
    pod: RunnablePod, volume: MountedVolume, sources: Sources
) -> dict[str, File] | None:
    """Return the files of a volume; ``None`` if it does not consist of such.

    Raises:
        CannotStart: something that it refers to is missing.
    """
    try:
        projected = _as_projected(volume)
        if projected is None:
            return None
        files: dict[str, File] = {}
        for source in projected.sources:
            files |= await _projection(pod, source, sources, mode=projected.default_mode)
    except CannotStart as trouble:
        raise CannotStart.unmounted(volume.name, trouble.message) from trouble
    return files


def write_files(folder: Path, files: Mapping[str, File]) -> None:
    """Bring *folder* to exactly *files*, all at once; nothing is done if it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    present = folder / _DATA
    if present.is_symlink() and _content(present) == {path: f.content for path, f in files.items()}:
        return
    old = present.resolve() if present.is_symlink() else None
    number = 1 + max((int(one.name[2:]) for one in folder.glob("..[0-9]*")), default=0)
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
) -> dict[str, File]:
    namespace = pod.metadata.namespace
    if (token := source.service_account_token) is not None:
        return {token.path: File(await sources.token(pod, token), 0o600)}
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
) -> dict[str, File]:
    if keys is None:
        return {}
    if not items:
        return {key: File(value, mode) for key, value in keys.data.items()}
    files = {}
    for item in items:
        value = keys.data.get(item.key)
        if value is not None:
            files[item.path] = File(value, mode if item.mode is None else item.mode)
        elif not optional:
            raise CannotStart.because(f"references non-existent config key: {item.key}")
    return files


async def _field_files(
    pod: RunnablePod, source: DownwardSource, sources: Sources, *, mode: int
) -> dict[str, File]:
    files = {}
    for item in source.items:
        text = ""
        if item.field_ref is not None:
            text = field_value(pod, item.field_ref.field_path)
        elif (ref := item.resource_field_ref) is not None:
            allocatable = await sources.allocatable(pod.spec.node_name)
            text = resource_value(pod, ref, container="", allocatable=allocatable)
        files[item.path] = File(text.encode(), mode if item.mode is None else item.mode)
    return files
