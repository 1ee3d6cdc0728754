"""Which API server to talk to, and as whom: from kubeconfig files or from inside a pod.

`load_config` looks where every Kubernetes tool looks, in this order: the given file, the
files that ``KUBECONFIG`` lists, ``~/.kube/config``, and the service account of the pod it runs in.
The result is plain data; `credentials` beside this module turns it into tokens and certificates.
The environment, the home directory and the root of the file system are parameters.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from numakube.api.yaml_text import load_yaml
from numakube.errors import ConfigError, MalformedObject
from numakube.values.hosts import address_of, is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Kubeconfig files: their shape, how several are merged, and what their paths mean.
#
# Follows client-go's loading rules (Kubernetes 1.36): of several files the first to name a cluster,
# user, context or the current context wins as a whole, files that do not exist are passed over, and
# a relative path is relative to the file it stands in. Nothing here decides how to authenticate;
# that is `numakube.kube.connection.credentials`.


EXEC_CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster extension whose content an exec plugin is given as ``spec.cluster.config``."""


class _Kebab(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """Base of the file's types; most of its names are kebab-cased, the others name themselves."""


class Extension(_Kebab, frozen=True):
    """Something a tool keeps in a kubeconfig."""

    name: str
    extension: Any = None


class ClusterEntry(_Kebab, frozen=True):
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


class KubeconfigUser(_Kebab, frozen=True):
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
    cluster: ClusterEntry | None = None


class _NamedUser(_Kebab, frozen=True):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(_Kebab, frozen=True):
    name: str
    context: Context | None = None


class _KubeconfigFile(_Kebab, frozen=True):
    """A kubeconfig file as it stands on disk."""

    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """One or several files merged; all paths are absolute."""

    current_context: str = ""
    clusters: dict[str, ClusterEntry] = {}
    users: dict[str, KubeconfigUser] = {}
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
        file = msgspec.convert({} if document is None else document, _KubeconfigFile)
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


def _resolved(file: _KubeconfigFile, path: Path) -> Kubeconfig:
    folder = path.absolute().parent
    clusters = _first_wins(
        (each.name, each.cluster or ClusterEntry()) for each in file.clusters or ()
    )
    users = _first_wins((each.name, each.user or KubeconfigUser()) for each in file.users or ())
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


def _cluster_in(folder: Path, cluster: ClusterEntry) -> ClusterEntry:
    authority = _absolute(folder, cluster.certificate_authority)
    return msgspec.structs.replace(cluster, certificate_authority=authority)


def _user_in(folder: Path, user: KubeconfigUser) -> KubeconfigUser:
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


# Which HTTP proxy the environment asks for, as kubectl understands it.
#
# ``HTTPS_PROXY`` or ``HTTP_PROXY`` by the server's scheme, unless ``NO_PROXY`` lists the host: as a
# name (which covers its subdomains), an address, a network in CIDR form, or ``*``. Loopback is
# never reached through a proxy.


def proxy_from_environment(env: Mapping[str, str], server: str) -> str:
    """Return the URL of the proxy through which to reach *server*; empty for none."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    if not proxy or is_loopback(host):
        return ""
    excluded = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if any(_covers(each.strip(), host, parts.port) for each in excluded.split(",") if each.strip()):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(pattern: str, host: str, port: int | None) -> bool:
    if pattern == "*":
        return True
    address = address_of(host)
    if "/" in pattern and address is not None:
        return _in_network(address, pattern)
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdigit() and address_of(pattern) is None:
        if int(wanted_port) != port:
            return False
        pattern = name.strip("[]")
    if address is not None:
        return address_of(pattern) == address
    return _covers_name(pattern.lower(), host.lower())


def _covers_name(pattern: str, host: str) -> bool:
    """Tell whether *host* is *pattern* or below it; ``.name`` and ``*.name`` mean only below."""
    if host.endswith(f".{pattern.removeprefix('*').removeprefix('.')}"):
        return True
    return host == pattern


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


SERVICE_ACCOUNT = Path("var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, the cluster's CA and its namespace; relative to the root."""

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""The versions of the exec protocol; v1alpha1 is gone since Kubernetes 1.24."""

_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

_HOW_TO = "give a kubeconfig with --kubeconfig or KUBECONFIG, or run inside a pod"


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key in PEM form: given in place, or a file that may be renewed."""

    data: bytes = field(default=b"", repr=False)
    path: Path | None = None

    def read(self) -> bytes:
        """Return the content as it is now."""
        if self.data or self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as exc:
            raise ConfigError(f"{self.path}: cannot read this certificate or key: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """How the server proves who it is."""

    authority: Pem | None = None
    server_name: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user in whose name to act."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that prints credentials, and what it receives about the cluster."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster_info: Mapping[str, object] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfig:
    """Everything known about how to authenticate; nothing at all is allowed."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """An API server, the identity to use there, and the namespace to work in."""

    server: str
    tls: TlsConfig = TlsConfig()
    user: UserConfig = UserConfig()
    proxy_url: str = ""
    namespace: str = "default"
    context: str = ""


def load_config(
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
    home: Path | None = None,
    root: Path = Path("/"),
) -> ClusterConfig:
    """Return how to reach the cluster, found where every Kubernetes tool looks.

    Args:
        kubeconfig: the only file to read; it must exist.
        context: the context to use instead of the current one.
        env: the environment.
        home: the home directory; by default what the environment says.
        root: the root of the file system in which a pod's service account is looked for.
    """
    if kubeconfig is not None:
        merged = read_kubeconfig(Path(kubeconfig))
    else:
        merged = merge(_default_files(env, home))
    if merged.files and (merged.contexts or merged.clusters or context or kubeconfig):
        return config_of(merged, context=context, env=env)
    if env.get("KUBERNETES_SERVICE_HOST") and not context:
        return in_cluster_config(env=env, root=root)
    listed = env.get("KUBECONFIG", "") if not merged.files else ""
    absent = f": KUBECONFIG names {listed}, which does not exist" if listed else ""
    raise ConfigError(f"no cluster is configured{absent}; {_HOW_TO}")


def in_cluster_config(
    *, env: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> ClusterConfig:
    """Return how a pod reaches its own cluster, with its service account."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "not inside a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
            + _HOW_TO
        )
    account = root / SERVICE_ACCOUNT
    if not (account / "token").is_file():
        raise ConfigError(
            f"{account / 'token'} does not exist; the pod needs automountServiceAccountToken"
        )
    authority = account / "ca.crt"
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ClusterConfig(
        server=server,
        tls=TlsConfig(authority=Pem(path=authority) if authority.is_file() else None),
        user=UserConfig(token_file=account / "token"),
        namespace=_read_namespace(account / "namespace"),
        proxy_url=proxy_from_environment(env, server),
    )


def config_of(
    merged: Kubeconfig, *, context: str | None = None, env: Mapping[str, str] = os.environ
) -> ClusterConfig:
    """Return how to reach the cluster of a *context* of a kubeconfig; by default the current."""
    where = ", ".join(merged.files)
    name = context or merged.current_context
    chosen = merged.contexts.get(name)
    if chosen is None:
        raise ConfigError(_no_context(where, name, merged))
    cluster = merged.clusters.get(chosen.cluster)
    if cluster is None or not cluster.server:
        raise ConfigError(
            f"{where}: context {name!r} names cluster {chosen.cluster!r}, which has no server"
        )
    if chosen.user and chosen.user not in merged.users:
        raise ConfigError(f"{where}: context {name!r} names user {chosen.user!r}, who is not there")
    server = server_url(where, cluster.server)
    subject = f"{where}: user {chosen.user!r}"
    return ClusterConfig(
        server=server,
        tls=_tls_of(where, chosen.cluster, cluster),
        user=_user_of(subject, merged.users.get(chosen.user, KubeconfigUser()), cluster),
        proxy_url=cluster.proxy_url or proxy_from_environment(env, server),
        namespace=chosen.namespace or "default",
        context=name,
    )


def _default_files(env: Mapping[str, str], home: Path | None) -> list[Kubeconfig]:
    """Read the usual files; those that do not exist are passed over."""
    listed = env.get("KUBECONFIG", "")
    if listed:
        paths = [Path(each) for each in dict.fromkeys(listed.split(os.pathsep)) if each]
    else:
        paths = [(home or Path(env.get("HOME") or "~").expanduser()) / ".kube" / "config"]
    return [read_kubeconfig(path) for path in paths if path.exists()]


def _no_context(where: str, name: str, merged: Kubeconfig) -> str:
    known = ", ".join(sorted(merged.contexts)) or "none"
    if not name:
        return f"{where}: no current-context is set; choose one with --context (known: {known})"
    return f"{where}: context {name!r} does not exist; known: {known}"


def server_url(where: str, server: str) -> str:
    """Return *server* without a trailing slash; a bare host means plain HTTP, as for kubectl."""
    url = server if "://" in server else f"http://{server}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}: server {server!r} is not an http or https URL")
    return url.rstrip("/")


def _tls_of(where: str, name: str, cluster: ClusterEntry) -> TlsConfig:
    subject = f"{where}: cluster {name!r}"
    authority = _pem(
        subject,
        "certificate-authority",
        data=cluster.certificate_authority_data,
        path=cluster.certificate_authority,
    )
    if cluster.insecure_skip_tls_verify and authority is not None:
        raise ConfigError(
            f"{subject}: insecure-skip-tls-verify contradicts certificate-authority; remove one"
        )
    return TlsConfig(
        authority=authority,
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
    )


def _user_of(subject: str, user: KubeconfigUser, cluster: ClusterEntry) -> UserConfig:
    certificate = _pem(
        subject,
        "client-certificate",
        data=user.client_certificate_data,
        path=user.client_certificate,
    )
    key = _pem(subject, "client-key", data=user.client_key_data, path=user.client_key)
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise ConfigError(f"{subject}: {missing} (or {missing}-data) is missing")
    if user.exec is not None and user.auth_provider is not None:
        raise ConfigError(f"{subject}: exec and auth-provider cannot be used together")
    return UserConfig(
        token=user.token,
        token_file=Path(user.token_file) if user.token_file else None,
        certificate=certificate,
        key=key,
        username=user.username,
        password=user.password,
        id_token=_id_token(subject, user.auth_provider),
        plugin=_plugin_of(subject, user.exec, cluster),
        impersonation=_impersonation_of(subject, user),
    )


def _pem(subject: str, field_name: str, *, data: str, path: str) -> Pem | None:
    """Return what ``field`` and ``field-data`` give; the data has precedence."""
    if not data:
        return Pem(path=Path(path)) if path else None
    try:
        return Pem(data=base64.b64decode("".join(data.split()), validate=True))
    except binascii.Error as exc:
        raise ConfigError(f"{subject}: {field_name}-data is not base64: {exc}") from exc


def _id_token(subject: str, provider: AuthProvider | None) -> str:
    if provider is None:
        return ""
    if provider.name != "oidc":
        raise ConfigError(
            f"{subject}: auth-provider {provider.name!r} no longer exists in Kubernetes; "
            "use the exec plugin that replaced it"
        )
    token = (provider.config or {}).get("id-token", "")
    if not token:
        raise ConfigError(f"{subject}: auth-provider oidc has no id-token; log in again")
    return token


def _plugin_of(subject: str, plugin: Exec | None, cluster: ClusterEntry) -> ExecPlugin | None:
    if plugin is None:
        return None
    if not plugin.command:
        raise ConfigError(f"{subject}: exec has no command")
    if plugin.api_version not in EXEC_VERSIONS:
        raise ConfigError(
            f"{subject}: exec apiVersion {plugin.api_version!r} is not supported; "
            f"use one of {', '.join(EXEC_VERSIONS)}"
        )
    return ExecPlugin(
        command=plugin.command,
        api_version=plugin.api_version,
        args=plugin.args or (),
        env=tuple((each.name, each.value) for each in plugin.env or ()),
        interactive_mode=_interactive_mode(subject, plugin),
        install_hint=plugin.install_hint,
        cluster_info=_cluster_info(cluster) if plugin.provide_cluster_info else None,
    )


def _interactive_mode(subject: str, plugin: Exec) -> str:
    """Return the mode; only v1beta1 has a default."""
    mode = plugin.interactive_mode
    if not mode and plugin.api_version.endswith("/v1beta1"):
        return "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise ConfigError(
            f"{subject}: exec interactiveMode {mode!r}: use one of {', '.join(_INTERACTIVE_MODES)}"
        )
    return mode


def _cluster_info(cluster: ClusterEntry) -> dict[str, object]:
    """Return ``spec.cluster`` of an ExecCredential."""
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        pem = Pem(path=Path(cluster.certificate_authority)).read()
        authority = base64.b64encode(pem).decode()
    info: dict[str, object] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": cluster.extension(EXEC_CLUSTER_EXTENSION),
    }
    return {name: value for name, value in info.items() if value}


def _impersonation_of(subject: str, user: KubeconfigUser) -> Impersonation | None:
    if not user.impersonate:
        if user.impersonate_groups or user.impersonate_extra or user.impersonate_uid:
            raise ConfigError(f"{subject}: as-groups, as-uid and as-user-extra need 'as'")
        return None
    return Impersonation(
        user=user.impersonate,
        uid=user.impersonate_uid,
        groups=user.impersonate_groups or (),
        extra=tuple((user.impersonate_extra or {}).items()),
    )


def _read_namespace(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
