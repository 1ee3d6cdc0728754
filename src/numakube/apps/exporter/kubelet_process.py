"""The running kubelet's own command line: which configuration file it reads, and what it overrides.

It is seen where the host's ``/proc`` is: by an exporter that runs on the host itself, or in a pod
with the host's process ids or that folder mounted. The files that it names are looked for in the
process's own root, in the kubelet's folder as it is mounted here, and at their own path.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from numakube.api.kubelet_config import with_defaults
from numakube.api.kubelet_flags import configuration, read_flags
from numakube.api.yaml_text import load_yaml
from numakube.apps.exporter.kubelet_config_sources import Asked
from numakube.errors import KubeletUnavailable, MalformedObject
from numakube.node.bounded_files import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.kubelet_flags import KubeletFlags
    from numakube.apps.host.common_settings import Locate
    from numakube.kube.clock import Clock

_COMMAND: Final = "kubelet"


class CommandLine(Asked):
    """The command line of the kubelet among the processes in *proc*."""

    def __init__(self, proc: Path, *, state_dir: str, locate: Locate, clock: Clock) -> None:
        super().__init__(clock)
        self._proc = proc
        self._state_dir = state_dir
        self._locate = locate

    async def _fetch(self) -> KubeletConfiguration:
        process = next(self._processes(), None)
        if process is None:
            raise KubeletUnavailable(f"no process {_COMMAND} is seen in {self._proc}")
        text = read_regular_file(process / "cmdline").decode(errors="replace")
        flags = read_flags(text.split("\0")[1:])
        return with_defaults(configuration(self._files(process, flags), flags))

    def _processes(self) -> Iterator[Path]:
        for folder in self._proc.glob("[0-9]*"):
            try:
                if (folder / "comm").read_text().strip() == _COMMAND:
                    yield folder
            except OSError:
                continue

    def _files(self, process: Path, flags: KubeletFlags) -> Iterator[dict[str, Any]]:
        if flags.config:
            yield _tree(self._visible(process, flags, flags.config))
        if flags.config_dir:
            folder = self._visible(process, flags, flags.config_dir)
            for path in sorted(folder.rglob("*.conf")):
                yield _tree(path)

    def _visible(self, process: Path, flags: KubeletFlags, path: str) -> Path:
        """Return where what the kubelet calls *path* is seen from here."""
        places = [process / "root" / path.removeprefix("/"), self._locate(path)]
        own = PurePosixPath(path)
        if self._state_dir and own.is_relative_to(flags.root_dir):
            places.insert(1, self._locate(self._state_dir) / own.relative_to(flags.root_dir))
        for place in places:
            try:
                place.stat()
            except OSError:
                continue
            return place
        raise KubeletUnavailable(f"the kubelet reads {path}, which is not visible here")


def _tree(path: Path) -> dict[str, Any]:
    tree = load_yaml(read_regular_file(path), str(path)) or {}
    if not isinstance(tree, dict):
        raise MalformedObject(str(path), "not a KubeletConfiguration")
    return tree
