"""Which API server to talk to, and as whom: from kubeconfig files or from inside a pod.

`load_config` looks where every Kubernetes tool looks, in this order: the given file, the
files that ``KUBECONFIG`` lists, ``~/.kube/config``, and the service account of the pod it runs in.
The result is plain data; `credentials` beside this module turns it into tokens and certificates.
The environment, the home directory and the root of the file system are parameters.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from numakube.errors import ConfigError
from numakube.kube.connection import kubeconfig as files
from numakube.kube.connection.proxy_settings import proxy_from_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        merged = files.read_kubeconfig(Path(kubeconfig))
    else:
        merged = files.merge(_default_files(env, home))
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
    merged: files.Kubeconfig, *, context: str | None = None, env: Mapping[str, str] = os.environ
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
        user=_user_of(subject, merged.users.get(chosen.user, files.User()), cluster),
        proxy_url=cluster.proxy_url or proxy_from_environment(env, server),
        namespace=chosen.namespace or "default",
        context=name,
    )


def _default_files(env: Mapping[str, str], home: Path | None) -> list[files.Kubeconfig]:
    """Read the usual files; those that do not exist are passed over."""
    listed = env.get("KUBECONFIG", "")
    if listed:
        paths = [Path(each) for each in dict.fromkeys(listed.split(os.pathsep)) if each]
    else:
        paths = [(home or Path(env.get("HOME") or "~").expanduser()) / ".kube" / "config"]
    return [files.read_kubeconfig(path) for path in paths if path.exists()]


def _no_context(where: str, name: str, merged: files.Kubeconfig) -> str:
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


def _tls_of(where: str, name: str, cluster: files.Cluster) -> TlsConfig:
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


def _user_of(subject: str, user: files.User, cluster: files.Cluster) -> UserConfig:
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


def _id_token(subject: str, provider: files.AuthProvider | None) -> str:
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


def _plugin_of(
    subject: str, plugin: files.Exec | None, cluster: files.Cluster
) -> ExecPlugin | None:
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


def _interactive_mode(subject: str, plugin: files.Exec) -> str:
    """Return the mode; only v1beta1 has a default."""
    mode = plugin.interactive_mode
    if not mode and plugin.api_version.endswith("/v1beta1"):
        return "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise ConfigError(
            f"{subject}: exec interactiveMode {mode!r}: use one of {', '.join(_INTERACTIVE_MODES)}"
        )
    return mode


def _cluster_info(cluster: files.Cluster) -> dict[str, object]:
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
        "config": cluster.extension(files.EXEC_CLUSTER_EXTENSION),
    }
    return {name: value for name, value in info.items() if value}


def _impersonation_of(subject: str, user: files.User) -> Impersonation | None:
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
