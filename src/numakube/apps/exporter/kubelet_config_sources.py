"""Where the kubelet's configuration is read: its file, its own address, or through the API.

The kubelet itself tells it to who may ``get`` the resource ``nodes/configz`` (from 1.33 on), a
right to nothing else; the API server passes the question on for who may use ``nodes/proxy``, with
which one can do anything that the kubelet can. The third place is the kubelet's command line.

The first place that has it is taken. A file is parsed again only when it has changed, so asking at
every scan is cheap and a kubelet that changes its policy is followed at once; an answer over the
network is kept until the kubelet may have restarted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import structlog

from numakube.api.kubelet_config import (
    configuration,
    decode_configz,
    read_flags,
    read_kubelet_config,
    with_defaults,
)
from numakube.api.yaml_text import load_yaml
from numakube.errors import (
    ApiError,
    ConfigError,
    KubeletUnavailable,
    MalformedObject,
    NumakubeError,
)
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig, TlsConfig, UserConfig
from numakube.kube.connection.transport import Request
from numakube.node.bounded_files import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numakube.api.kubelet_config import KubeletConfiguration, KubeletFlags
    from numakube.apps.exporter.api_objects import NodeObject
    from numakube.apps.host.common_settings import Locate
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock


RETRY_SECONDS: Final = 30.0
"""How long a source that did not answer is not asked again."""

_ANSWER_SECONDS: Final = 3.0
"""How long a scan waits for an answer: the kubelet is on the same machine."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ConfigSource(Protocol):
    """A place that may have the configuration."""

    async def read(self) -> KubeletConfiguration | None:
        """Return it with the kubelet's defaults filled in; ``None`` if it is not there."""
        ...

    def refresh(self) -> None:
        """Take note that the kubelet may have another one."""
        ...

    def missing(self) -> str:
        """Return why the last `read` brought nothing."""
        ...


class KnownConfig:
    """A configuration that is known anyway."""

    def __init__(self, config: Callable[[], KubeletConfiguration]) -> None:
        self._config = config

    async def read(self) -> KubeletConfiguration:
        """Return it as it is now."""
        return self._config()

    def refresh(self) -> None:
        """Do nothing: it is never behind."""

    def missing(self) -> str:
        """Return nothing: it is there."""
        return ""


class ConfigFile:
    """The kubelet's configuration file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._config: KubeletConfiguration | None = None

    async def read(self) -> KubeletConfiguration | None:
        """Return what the file says, if it exists.

        Raises:
            MalformedObject: it cannot be understood.
        """
        try:
            found = self.path.stat()
            seen = found.st_ino, found.st_size, found.st_mtime_ns
            if seen != self._seen:
                text = read_regular_file(self.path)
                self._config = with_defaults(read_kubelet_config(text, str(self.path)))
                self._seen = seen
        except FileNotFoundError:
            self._seen = self._config = None
        return self._config

    def refresh(self) -> None:
        """Do nothing: the file tells by itself."""

    def missing(self) -> str:
        """Return that it is not there."""
        return f"there is no file {self.path}"


class KeptAnswer(ABC):
    """An answer that takes asking, kept until the kubelet may have another.

    A failure is kept for a while too: a scan must not ask again and again what gets no answer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._config: KubeletConfiguration | None = None
        self._failure: NumakubeError | None = None
        self._failed_at = 0.0

    async def read(self) -> KubeletConfiguration:
        """Return the answer, the same one for as long as it holds."""
        now = self._clock.monotonic()
        if self._failure is not None and now < self._failed_at + RETRY_SECONDS:
            raise self._failure.with_traceback(None)
        if self._config is None:
            try:
                self._config, self._failure = await self._fetch(), None
            except NumakubeError as error:
                self._failure, self._failed_at = error, now
                raise
        return self._config

    def refresh(self) -> None:
        """Ask again next time."""
        self._config = self._failure = None

    def missing(self) -> str:
        """Return why there is no answer."""
        return str(self._failure or "")

    @abstractmethod
    async def _fetch(self) -> KubeletConfiguration:
        """Ask."""


class ApiConfigz(KeptAnswer):
    """The kubelet's ``/configz``, through the API server; needs the right to ``nodes/proxy``."""

    def __init__(self, client: Client, node_name: str) -> None:
        super().__init__(client.clock)
        self._client = client
        self._path = f"/api/v1/nodes/{node_name}/proxy/configz"

    async def _fetch(self) -> KubeletConfiguration:
        request = Request(method="GET", path=self._path)
        answer = await self._client.request(request, retry=False)
        return with_defaults(decode_configz(bytes(answer.body), self._path))


class KubeletConfigz(KeptAnswer):
    """The kubelet's ``/configz`` at its own address, whose certificate is self-signed.

    It needs the right to ``nodes/configz``, or, of kubelets before 1.33, to ``nodes/proxy``.
    """

    def __init__(self, url: str, token_file: Path, *, clock: Clock) -> None:
        super().__init__(clock)
        parts = urlsplit(url)
        self._path = parts.path or "/configz"
        self._url = url
        self._cluster = ClusterConfig(
            server=f"{parts.scheme}://{parts.netloc}",
            tls=TlsConfig(insecure=True),
            user=UserConfig(token_file=token_file if token_file.is_file() else None),
        )

    async def _fetch(self) -> KubeletConfiguration:
        request = Request(method="GET", path=self._path)
        try:
            async with (
                self._clock.timeout(_ANSWER_SECONDS),
                connect(self._cluster, clock=self._clock, env={}) as client,
            ):
                answer = await client.request(request, retry=False)
        except TimeoutError:
            raise KubeletUnavailable(f"{self._url}: no answer") from None
        except ApiError as error:
            raise KubeletUnavailable(f"{self._url}: {error}") from None
        return with_defaults(decode_configz(bytes(answer.body), self._url))


class NodeConfigz:
    """The kubelet's ``/configz`` at the address that its Node names, for who has a token."""

    def __init__(self, node: NodeObject, token_file: Path, *, clock: Clock) -> None:
        self._node = node
        self._token_file = token_file
        self._clock = clock
        self._url = ""
        self._source: KubeletConfigz | None = None

    async def read(self) -> KubeletConfiguration | None:
        """Return the configuration of the running kubelet."""
        url = self._node.kubelet_url
        if url is None or not self._token_file.is_file():
            return None
        if self._source is None or url != self._url:
            configz = f"{url}/configz"
            self._url = url
            self._source = KubeletConfigz(configz, self._token_file, clock=self._clock)
        return await self._source.read()

    def refresh(self) -> None:
        """Ask again next time."""
        if self._source is not None:
            self._source.refresh()

    def missing(self) -> str:
        """Return why there is no answer."""
        if self._node.kubelet_url is None:
            return "the Node does not tell the kubelet's address"
        found = self._token_file.is_file()
        return self._source.missing() if self._source and found else f"no {self._token_file}"


@dataclass(slots=True)
class FirstOf:
    """The first of several places that has it; each one's failure is said once."""

    sources: Sequence[ConfigSource]
    _said: str = ""

    async def read(self) -> KubeletConfiguration | None:
        """Return the configuration, or ``None`` if no place has it now."""
        reasons = []
        for source in self.sources:
            try:
                found = await source.read()
            except (NumakubeError, OSError) as error:
                reasons.append(str(error))
                continue
            if found is not None:
                self._said = ""
                return found
            reasons.append(source.missing())
        trouble = "; ".join(reasons)
        if trouble != self._said:
            _log.warning("kubelet_configuration_unknown", error=trouble)
        self._said = trouble
        return None

    async def running(self) -> KubeletConfiguration | None:
        """Return what the running kubelet itself says, flags included; ``None`` if it does not."""
        for source in self.sources:
            if isinstance(source, ConfigFile):
                continue
            try:
                found = await source.read()
            except (NumakubeError, OSError):
                continue
            if found is not None:
                return found
        return None

    def refresh(self) -> None:
        """Tell every place."""
        for source in self.sources:
            source.refresh()

    def missing(self) -> str:
        """Return what every place lacks."""
        return self._said


def file_of_uri(uri: str) -> str | None:
    """Return the path of a ``file://`` address; ``None`` for one of the kubelet.

    Raises:
        ConfigError: it is neither.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return parts.path
    if parts.scheme == "https":
        return None
    raise ConfigError(f"--kubelet-config-uri {uri}: unsupported URI scheme: {parts.scheme!r}")


# The running kubelet's own command line: which configuration file it reads, and what it overrides.
#
# It is seen where the host's ``/proc`` is: by an exporter that runs on the host itself, or in a pod
# with the host's process ids or that folder mounted. The files that it names are looked for in the
# process's own root, in the kubelet's folder as it is mounted here, and at their own path.


_COMMAND: Final = "kubelet"


class CommandLine(KeptAnswer):
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
