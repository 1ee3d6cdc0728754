"""Configuration files of the exporter, and its options as one value.

Files may be those of RTE (a folder with ``daemon/config.yaml``, ``daemon/config.yaml.d/*`` and
``extra/config.yaml``) or a single one with the same keys, and NFD's ``excludeList``. They are
checked as a whole: an unknown key is an error, since a mistyped one would silently do nothing.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.yaml_text import load_yaml
from numakube.apps.exporter import settings
from numakube.apps.exporter.report_options import (
    Accounting,
    PodPattern,
    ReferenceContainer,
    ReportOptions,
)
from numakube.apps.exporter.settings import SETTINGS
from numakube.apps.host.common_settings import level_of_verbosity
from numakube.apps.host.http_serving import Listen, TlsFiles
from numakube.apps.host.settings_sources import KEY, add_of_files, checked_gates, require
from numakube.errors import ConfigError, InvalidValue
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numakube.apps.exporter.settings import ExporterSettings
    from numakube.apps.host.common_settings import Locate, LogSettings
    from numakube.apps.host.settings_sources import Values

DEFAULT_FILE: Final = "/etc/resource-topology-exporter/config.yaml"
DEFAULT_ROOT: Final = "/etc/rte"
_BESIDE: Final = ("resourceExclude", "excludeList", "podExclude", KEY)
_EVERY_NAMESPACE: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """What is not to be published.

    Attributes:
        resources: names of resources by node name, or ``*`` for every node.
        pods: pods that are left out.
    """

    resources: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    pods: tuple[PodPattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterOptions:
    """Everything the exporter was told.

    Attributes:
        settings: every setting; the node's name is known.
        exclusions: what the configuration files exclude.
        reference_container: from the flag, or from the three variables of older manifests.
        notes: what of the files has no effect here.
    """

    settings: ExporterSettings
    exclusions: Exclusions = Exclusions()
    reference_container: ReferenceContainer | None = None
    notes: tuple[str, ...] = ()

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self.settings.publishing.node_name

    @property
    def logs(self) -> LogSettings:
        """What is logged, and how."""
        return self.settings.logs

    def report_options(self) -> ReportOptions:
        """Return what decides about the content of reports."""
        content = self.settings.content
        namespace, own = content.watch_namespace, self.settings.own_pod
        return ReportOptions(
            node_name=self.node_name,
            watch_namespace="" if namespace == _EVERY_NAMESPACE else namespace,
            resource_exclude=self.exclusions.resources,
            pod_exclude=self.exclusions.pods,
            reference_container=self.reference_container,
            fingerprint=content.fingerprint,
            fingerprint_method=content.fingerprint_method,
            numa_placement=content.numa_placement,
            exact=content.exact,
            exporter=f"{own.pod_namespace}/{own.pod_name}"
            if own.pod_namespace and own.pod_name
            else "",
            accounting=Accounting(content.accounting),
        )

    def reserved_cpus(self) -> CpuSet:
        """Return the CPUs that no pod gets.

        Raises:
            ConfigError: they are no list of CPUs.
        """
        try:
            return CpuSet.parse(self.settings.content.reserved_cpus)
        except InvalidValue as error:
            raise ConfigError(f"--reserved-cpus: {error}") from None

    def listen(self, locate: Locate) -> Listen | None:
        """Return where to serve; ``None`` if nowhere."""
        metrics = self.settings.metrics
        mode = metrics.metrics_mode
        if mode == settings.DISABLED:
            return None
        return Listen(
            host=metrics.metrics_address,
            port=metrics.metrics_port,
            tls=self._tls(locate) if mode == settings.HTTPS else None,
            plain=mode != settings.LOCAL,  # both modes are the word that others may look
        )

    def _tls(self, locate: Locate) -> TlsFiles:
        metrics = self.settings.metrics
        folder = locate(metrics.metrics_certs_dir)
        return TlsFiles(
            certificate=folder / metrics.metrics_cert_file,
            key=folder / metrics.metrics_key_file,
            client_authority=(
                folder / metrics.metrics_client_ca if metrics.metrics_client_auth else None
            ),
            min_version=metrics.metrics_tls_version,
        )


def read_options(
    flags: Values, *, env: Mapping[str, str], files: Iterable[Path] = (), host: str = ""
) -> ExporterOptions:
    """Return the options that files, the environment and flags add up to.

    Args:
        flags: what was given on the command line, by the name of the setting.
        env: the environment.
        files: configuration files that exist, the last one winning.
        host: the name of this machine, if the system is not to be asked.

    Raises:
        ConfigError: something makes no sense.
    """
    read, excluded = [], Exclusions()
    notes: list[str] = []
    gates: dict[str, bool] = {}
    for path in files:
        tree = _tree(path, notes)
        if isinstance(tree, dict) and KEY in tree:
            gates |= checked_gates(tree[KEY], f"{path}: {KEY}")
        read.append(SETTINGS.from_tree(tree, str(path), beside=_BESIDE))
        excluded = _with_exclusions(excluded, tree, str(path))
    add_of_files(gates)
    chosen = SETTINGS.resolve(files=read, env=env, flags=flags)
    if chosen.waking.period < 0:
        raise ConfigError(f"interval cannot be negative: {chosen.waking.period:g}s")
    informed = chosen.content.exact and chosen.reading.watch_pods
    if chosen.publishing.max_silence > 0:
        require("ReportUpdates", "--max-silence")
    if chosen.content.measure:
        require("MeasuredLocality", "--measure")
    if chosen.publishing.max_silence > 0 and not informed:
        raise ConfigError(
            "--max-silence needs --exact and --watch-pods, or it is not known what was foreseen"
        )
    named = chosen.publishing.node_name or host or socket.gethostname()
    return ExporterOptions(
        settings=replace(chosen, publishing=replace(chosen.publishing, node_name=named)),
        exclusions=excluded,
        reference_container=_reference_container(chosen.content.reference_container, env),
        notes=tuple(dict.fromkeys(notes)),
    )


def values_in_file(path: Path) -> Values:
    """Return the settings that the file at *path* has; raise `ConfigError` if one is wrong."""
    tree = _tree(path, [])
    if isinstance(tree, dict) and KEY in tree:
        checked_gates(tree[KEY], f"{path}: {KEY}")
    return SETTINGS.from_tree(tree, str(path), beside=_BESIDE)


def _tree(path: Path, notes: list[str]) -> object:
    return in_our_words(load_yaml(path.read_text(encoding="utf-8"), str(path)), notes)


def in_our_words(tree: object, notes: list[str]) -> object:
    """Return what a file says with RTE's own keys in place of others for the same.

    Args:
        tree: what the file says.
        notes: gets what has no effect here.
    """
    if not isinstance(tree, dict):
        return tree
    parts = {key: dict(part) if isinstance(part, dict) else part for key, part in tree.items()}
    for (part, key), (goes_to, name) in _RTE_KEYS.items():
        found = parts.get(part)
        if isinstance(found, dict) and key in found:
            value = found.pop(key)
            home = parts.setdefault(goes_to, {}) if goes_to else parts
            if isinstance(home, dict):
                home.setdefault(name, value)
    _set_level(parts.get("global"))
    _drop(parts.get("nrtUpdater"), "patchMode", "nrtUpdater.patchMode: always on", notes)
    tls = (parts.get("topologyExporter") or {}).get("metricsTLS")
    for holder in (parts.get("metricsTLS"), tls):
        _drop(holder, "cipherSuites", "metricsTLS.cipherSuites: those of Python's ssl", notes)
    return parts


_RTE_KEYS: Final[Mapping[tuple[str, str], tuple[str, str]]] = MappingProxyType(
    {
        ("global", "kubeConfig"): ("global", "kubeconfig"),
        ("resourceMonitor", "resourceExclude"): ("", "resourceExclude"),
        ("resourceMonitor", "podExclude"): ("", "podExclude"),
        ("topologyExporter", "topologyManagerPolicy"): ("kubelet", "topologyManagerPolicy"),
        ("topologyExporter", "topologyManagerScope"): ("kubelet", "topologyManagerScope"),
    }
)


def _set_level(part: object) -> None:
    """Turn RTE's two words for how much is logged into ours."""
    if not isinstance(part, dict):
        return
    verbose, debug = part.pop("verbose", None), part.pop("debug", None)
    if debug is True:
        part.setdefault("logLevel", "debug")
    elif isinstance(verbose, int):
        part.setdefault("logLevel", level_of_verbosity(verbose))


def _drop(part: object, key: str, note: str, notes: list[str]) -> None:
    if isinstance(part, dict) and key in part:
        del part[key]
        notes.append(note)


def configuration_files(config: str, roots: Iterable[str], locate: Locate) -> list[Path]:
    """Return the configuration files that exist, in the order in which they are read.

    Args:
        config: what ``--config`` names, if anything; it must exist.
        roots: the positional arguments: one folder at most.
        locate: where paths really are.

    Raises:
        ConfigError: a file that was asked for is missing, or there are too many folders.
    """
    roots = tuple(roots)
    if len(roots) > 1:
        raise ConfigError(
            f"too many config roots given ({len(roots)}), currently supported up to 1"
        )
    root = locate(roots[0] if roots else DEFAULT_ROOT)
    extra = root / "extra" / "config.yaml" if roots else locate(config or DEFAULT_FILE)
    if config and not roots and not extra.is_file():
        raise ConfigError(f"--config {config}: no such file")
    daemon = root / "daemon" / "config.yaml"
    lets = daemon.with_name("config.yaml.d")
    # Mounted ConfigMaps are links into hidden folders, so links count and hidden names do not.
    found = sorted(path for path in lets.glob("[!.]*") if path.is_file())
    return [path for path in (daemon, *found, extra) if path.is_file()]


def _with_exclusions(before: Exclusions, tree: object, subject: str) -> Exclusions:
    if not isinstance(tree, dict):
        return before
    resources = dict(before.resources)
    for key in ("resourceExclude", "excludeList"):
        resources |= _resource_lists(tree.get(key) or {}, f"{subject}: {key}")
    pods = tree.get("podExclude")
    return Exclusions(
        resources=MappingProxyType(resources),
        pods=before.pods if pods is None else _patterns(pods, f"{subject}: podExclude"),
    )


def _resource_lists(tree: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(tree, dict):
        raise ConfigError(f"{where}: must map node names, or '*', to lists of resources")
    lists = {}
    for node, names in tree.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{where}.{node}: must be a list of resource names")
        lists[str(node)] = tuple(names)
    return lists


def _patterns(tree: object, where: str) -> tuple[PodPattern, ...]:
    if not isinstance(tree, list):
        raise ConfigError(f"{where}: must be a list of namespacePattern and namePattern")
    patterns = []
    for number, item in enumerate(tree):
        wrong = not isinstance(item, dict) or item.keys() != {"namespacePattern", "namePattern"}
        if wrong or not all(isinstance(value, str) for value in item.values()):
            raise ConfigError(f"{where}[{number}]: must have namespacePattern and namePattern")
        patterns.append(PodPattern(item["namespacePattern"], item["namePattern"]))
    return tuple(patterns)


def _reference_container(text: str, env: Mapping[str, str]) -> ReferenceContainer | None:
    names = [
        env.get(name, "")
        for name in ("REFERENCE_NAMESPACE", "REFERENCE_POD_NAME", "REFERENCE_CONTAINER_NAME")
    ]
    if not text and all(names):
        text = "/".join(names)
    try:
        return ReferenceContainer.parse(text)
    except InvalidValue as error:
        raise ConfigError(f"--reference-container: {error}") from None
