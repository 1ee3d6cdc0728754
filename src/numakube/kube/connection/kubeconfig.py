"""Kubeconfig files: their shape, how several are merged, and what their paths mean.

Follows client-go's loading rules (Kubernetes 1.36): of several files the first to name a cluster,
user, context or the current context wins as a whole, files that do not exist are passed over, and a
relative path is relative to the file it stands in. Nothing here decides how to authenticate; that
is `numakube.kube.connection.credentials`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from numakube.api.yaml_text import load_yaml
from numakube.errors import ConfigError, MalformedObject

EXEC_CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster extension whose content an exec plugin is given as ``spec.cluster.config``."""


class _Kebab(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """Base of the file's types; most of its names are kebab-cased, the others name themselves."""


class Extension(_Kebab, frozen=True):
    """Something a tool keeps in a kubeconfig."""

    name: str
    extension: Any = None


class Cluster(_Kebab, frozen=True):
    """Where an API server is and how to recognise it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] | None = None

    def extension(self, name: str) -> object:
        """Return the content of the extension *name*, or None."""
        found = (each.extension for each in self.extensions or () if each.name == name)
        return next(found, None)


class ExecVariable(_Kebab, frozen=True):
    """An environment variable for an exec plugin."""

    name: str
    value: str = ""


class Exec(_Kebab, frozen=True):
    """A command that prints credentials."""

    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = msgspec.field(default="", name="apiVersion")
    install_hint: str = msgspec.field(default="", name="installHint")
    provide_cluster_info: bool = msgspec.field(default=False, name="provideClusterInfo")
    interactive_mode: str = msgspec.field(default="", name="interactiveMode")


class AuthProvider(_Kebab, frozen=True):
    """A legacy built-in way to authenticate."""

    name: str = ""
    config: dict[str, str] | None = None


class User(_Kebab, frozen=True):
    """Who is asking; several ways may be given at once."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] | None = msgspec.field(
        default=None, name="as-user-extra"
    )
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Context(_Kebab, frozen=True):
    """A user at a cluster, with a namespace to work in."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Kebab, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(_Kebab, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(_Kebab, frozen=True):
    name: str
    context: Context | None = None


class _File(_Kebab, frozen=True):
    """A kubeconfig file as it stands on disk."""

    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """One or several files merged; all paths are absolute."""

    current_context: str = ""
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    files: tuple[str, ...] = ()


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Return the content of one file, its paths made absolute; it must exist."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot read this kubeconfig: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: cannot read this kubeconfig: {exc}") from exc
    return parse_kubeconfig(text, path=path)


def parse_kubeconfig(text: str, *, path: Path) -> Kubeconfig:
    """Return the content of a kubeconfig's *text* that was read from *path*."""
    try:
        document = load_yaml(text, str(path))
        file = msgspec.convert({} if document is None else document, _File)
    except MalformedObject as exc:
        raise ConfigError(str(exc)) from exc
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{path}: not a kubeconfig: {exc}") from exc
    return _resolved(file, path)


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merge *configs*; what an earlier one says is never changed by a later one."""
    merged = Kubeconfig()
    for config in configs:
        merged = Kubeconfig(
            current_context=merged.current_context or config.current_context,
            clusters={**config.clusters, **merged.clusters},
            users={**config.users, **merged.users},
            contexts={**config.contexts, **merged.contexts},
            files=merged.files + config.files,
        )
    return merged


def _resolved(file: _File, path: Path) -> Kubeconfig:
    folder = path.absolute().parent
    clusters = _first_wins((each.name, each.cluster or Cluster()) for each in file.clusters or ())
    users = _first_wins((each.name, each.user or User()) for each in file.users or ())
    contexts = _first_wins((each.name, each.context or Context()) for each in file.contexts or ())
    return Kubeconfig(
        current_context=file.current_context or "",
        clusters={name: _cluster_in(folder, cluster) for name, cluster in clusters.items()},
        users={name: _user_in(folder, user) for name, user in users.items()},
        contexts=contexts,
        files=(str(path),),
    )


_T = TypeVar("_T")


def _first_wins(pairs: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _cluster_in(folder: Path, cluster: Cluster) -> Cluster:
    authority = _absolute(folder, cluster.certificate_authority)
    return msgspec.structs.replace(cluster, certificate_authority=authority)


def _user_in(folder: Path, user: User) -> User:
    plugin = user.exec
    # A bare command is looked up on PATH; only one with a slash is a path.
    if plugin is not None and "/" in plugin.command:
        command = _absolute(folder, plugin.command)
        plugin = msgspec.structs.replace(plugin, command=command)
    return msgspec.structs.replace(
        user,
        client_certificate=_absolute(folder, user.client_certificate),
        client_key=_absolute(folder, user.client_key),
        token_file=_absolute(folder, user.token_file),
        exec=plugin,
    )


def _absolute(folder: Path, path: str) -> str:
    return str(folder / path) if path else ""
