"""Kubeconfig files, contexts and service accounts are found and understood as by kubectl."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from numakube.errors import ConfigError
from numakube.kube.connection.cluster_config import (
    ClusterConfig,
    ExecPlugin,
    Impersonation,
    Pem,
    in_cluster_config,
    load_config,
    proxy_from_environment,
)


def write(path: Path, **parts: Any) -> Path:
    """Write a kubeconfig; ``clusters``, ``users`` and ``contexts`` are given as mappings."""
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    for plural, single in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        if plural in parts:
            named = parts.pop(plural).items()
            document[plural] = [{"name": name, single: value} for name, value in named]
    document |= {name.replace("_", "-"): value for name, value in parts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def write_one(path: Path, *, cluster: Any = None, user: Any = None, namespace: str = "") -> Path:
    """Write a kubeconfig with one context."""
    context = {"cluster": "c", "user": "u", "namespace": namespace}
    return write(
        path,
        clusters={"c": {"server": "https://c:6443", **(cluster or {})}},
        users={"u": user or {}},
        contexts={"x": context},
        current_context="x",
    )


def load(path: Path, **options: Any) -> ClusterConfig:
    """Load one file, with an empty environment."""
    return load_config(kubeconfig=path, env={}, **options)


def b64(data: bytes) -> str:
    """Return *data* as a kubeconfig holds it."""
    return base64.b64encode(data).decode()


def test_the_current_context_decides(tmp_path: Path) -> None:
    """Server, user and namespace are those of the current context."""
    path = write(
        tmp_path / "config",
        clusters={"one": {"server": "https://one"}, "two": {"server": "https://two/"}},
        users={"me": {"token": "t1"}, "you": {"token": "t2"}},
        contexts={
            "a": {"cluster": "one", "user": "me"},
            "b": {"cluster": "two", "user": "you", "namespace": "ns"},
        },
        current_context="b",
    )

    config = load(path)
    assert (config.server, config.user.token, config.namespace, config.context) == (
        "https://two",
        "t2",
        "ns",
        "b",
    )
    other = load(path, context="a")
    assert (other.server, other.user.token, other.namespace) == ("https://one", "t1", "default")


def test_of_several_files_the_first_to_say_something_wins(tmp_path: Path) -> None:
    """Entries are taken whole from the first file that has them; missing files do not matter."""
    first = write(
        tmp_path / "first",
        users={"u": {"token": "first"}},
        contexts={"x": {"cluster": "c", "user": "u"}},
    )
    second = write(
        tmp_path / "second",
        clusters={"c": {"server": "https://second", "tls-server-name": "name"}},
        users={"u": {"token": "second", "as": "somebody"}},
        contexts={"x": {"cluster": "elsewhere"}},
        current_context="x",
    )
    third = write(
        tmp_path / "third", clusters={"c": {"server": "https://third"}}, current_context="no"
    )
    listed = ":".join(map(str, [first, tmp_path / "missing", second, "", third, first]))

    config = load_config(env={"KUBECONFIG": listed}, home=tmp_path)

    assert (config.context, config.server) == ("x", "https://second")
    assert config.user.token == "first"
    assert config.user.impersonation is None


def test_the_home_directory_is_looked_at_last(tmp_path: Path) -> None:
    """Without a word from the caller or the environment, ~/.kube/config counts."""
    write_one(tmp_path / ".kube" / "config")

    assert load_config(env={}, home=tmp_path).server == "https://c:6443"
    assert load_config(env={"HOME": str(tmp_path)}).server == "https://c:6443"


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path) -> None:
    """Also when the file is one of several, and for the command of a plugin if it is a path."""
    files = []
    for name in ("one", "two"):
        user = {
            "client-certificate": "pki/me.crt",
            "client-key": "/abs/me.key",
            "tokenFile": "../token",
            "exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "./login"},
        }
        files.append(
            write(
                tmp_path / name / "config",
                clusters={name: {"server": "https://s", "certificate-authority": "ca.crt"}},
                users={name: user},
                contexts={name: {"cluster": name, "user": name}},
            )
        )
    env = {"KUBECONFIG": ":".join(map(str, files))}

    config = load_config(env=env, context="two")

    here = tmp_path / "two"
    assert config.tls.authority == Pem(path=here / "ca.crt")
    assert config.user.certificate == Pem(path=here / "pki/me.crt")
    assert config.user.key == Pem(path=Path("/abs/me.key"))
    assert config.user.token_file == here / "../token"
    assert config.user.plugin is not None
    assert config.user.plugin.command == str(here / "login")


@pytest.mark.parametrize("told", [{}, {"args": None, "env": None}, {"args": [], "env": []}])
def test_a_bare_command_is_left_to_path(tmp_path: Path, told: dict[str, Any]) -> None:
    """Only a command with a slash is a path; it is run as it is if nothing more is told."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", **told}

    config = load(write_one(tmp_path / "config", user={"exec": plugin}))

    assert config.user.plugin is not None
    assert config.user.plugin.command == "aws"
    assert (tuple(config.user.plugin.args), config.user.plugin.env) == ((), ())
    assert config.user.plugin.args is not None


def test_data_has_precedence_over_files(tmp_path: Path) -> None:
    """What is given in place is used even if a file is named too."""
    cluster = {"certificate-authority-data": b64(b"CA"), "certificate-authority": "ca.crt"}
    user = {"client-certificate-data": b64(b"CERT"), "client-key-data": b64(b"KEY")}

    config = load(write_one(tmp_path / "config", cluster=cluster, user=user))

    assert config.tls.authority is not None
    assert config.tls.authority.read() == b"CA"
    assert config.user.certificate == Pem(data=b"CERT")
    assert config.user.key == Pem(data=b"KEY")


def test_tls_and_proxy_settings_are_read(tmp_path: Path) -> None:
    """The cluster says how to verify it and which way to it leads."""
    cluster = {
        "tls-server-name": "real.name",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
    }

    config = load(write_one(tmp_path / "config", cluster=cluster))

    assert config.tls.server_name == "real.name"
    assert config.tls.insecure
    assert config.proxy_url == "http://proxy:3128"


def test_impersonation_is_read(tmp_path: Path) -> None:
    """A user may act in another's name."""
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev"], "as-user-extra": {"k": ["v"]}}

    config = load(write_one(tmp_path / "config", user=user))

    assert config.user.impersonation == Impersonation(
        user="jane", uid="7", groups=("dev",), extra=(("k", ("v",)),)
    )


def test_who_is_impersonated_need_not_be_in_groups(tmp_path: Path) -> None:
    """Nor have anything else but a name; a name there must be."""
    config = load(write_one(tmp_path / "config", user={"as": "jane"}))
    assert config.user.impersonation == Impersonation(user="jane", uid="", groups=(), extra=())
    for alone in ({"as-uid": "7"}, {"as-groups": ["dev"]}, {"as-user-extra": {"k": ["v"]}}):
        with pytest.raises(ConfigError, match="as-groups, as-uid and as-user-extra need 'as'"):
            load(write_one(tmp_path / "config", user=alone))


def test_an_exec_plugin_is_told_about_the_cluster_if_it_wants_to_know(tmp_path: Path) -> None:
    """``provideClusterInfo`` gives it server, CA and the extension meant for it."""
    (tmp_path / "ca.crt").write_bytes(b"CA")
    cluster = {
        "certificate-authority": "ca.crt",
        "extensions": [
            {"name": "other", "extension": {"a": 1}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "login",
        "args": ["-v"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "installHint": "get it",
        "provideClusterInfo": True,
    }

    config = load(write_one(tmp_path / "config", cluster=cluster, user={"exec": plugin}))

    assert config.user.plugin == ExecPlugin(
        command="login",
        api_version="client.authentication.k8s.io/v1",
        args=("-v",),
        env=(("A", "b"),),
        interactive_mode="Never",
        install_hint="get it",
        cluster_info={
            "server": "https://c:6443",
            "certificate-authority-data": b64(b"CA"),
            "config": {"audience": "x"},
        },
    )


def test_the_legacy_oidc_provider_gives_its_id_token(tmp_path: Path) -> None:
    """The id-token is used as it is."""
    provider = {"name": "oidc", "config": {"id-token": "abc"}}

    config = load(write_one(tmp_path / "config", user={"auth-provider": provider}))

    assert config.user.id_token == "abc"


V1 = "client.authentication.k8s.io/v1"
MISTAKES = [
    ({"user": {"client-certificate-data": b64(b"x")}}, "client-key .* is missing"),
    ({"user": {"client-key": "k"}}, "client-certificate .* is missing"),
    (
        {"user": {"client-key-data": "!", "client-certificate": "c"}},
        "client-key-data is not base64",
    ),
    ({"user": {"exec": {"apiVersion": V1}}}, "exec has no command"),
    ({"user": {"exec": {"apiVersion": V1 + "alpha1", "command": "x"}}}, "v1alpha1.*not supported"),
    ({"user": {"exec": {"apiVersion": V1, "command": "x"}}}, "interactiveMode ''"),
    ({"user": {"auth-provider": {"name": "gcp"}}}, "'gcp' no longer exists"),
    ({"user": {"auth-provider": {"name": "oidc"}}}, "no id-token"),
    ({"user": {"as-groups": ["g"]}}, "need 'as'"),
    ({"user": {"token": 7}}, "not a kubeconfig: Expected `str`.*token"),
    ({"cluster": {"server": ""}}, "has no server"),
    ({"cluster": {"server": "ftp://x"}}, "not an http or https URL"),
    (
        {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "x"}},
        "contradicts certificate-authority",
    ),
]


@pytest.mark.parametrize(("parts", "message"), MISTAKES)
def test_a_mistake_is_named_with_the_file_it_is_in(
    tmp_path: Path, parts: dict[str, Any], message: str
) -> None:
    """A message says which file, which entry and what to do."""
    path = write_one(tmp_path / "config", **parts)

    with pytest.raises(ConfigError, match=message) as caught:
        load(path)

    assert str(path) in str(caught.value)


def test_unknown_contexts_are_named_with_those_there_are(tmp_path: Path) -> None:
    """A typo in a context's name is easy to see."""
    path = write_one(tmp_path / "config")

    with pytest.raises(ConfigError, match="'nope' does not exist; known: x"):
        load(path, context="nope")


def test_a_context_with_dangling_references_is_refused(tmp_path: Path) -> None:
    """A user or a current context that does not exist is not passed over."""
    dangling = write(
        tmp_path / "config",
        clusters={"c": {"server": "https://c"}},
        contexts={"x": {"cluster": "c", "user": "ghost"}},
    )

    with pytest.raises(ConfigError, match="user 'ghost', who is not there"):
        load(dangling, context="x")
    with pytest.raises(ConfigError, match="no current-context is set"):
        load(dangling)


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2", "clusters: 3", "\x00"])
def test_what_is_not_a_kubeconfig_is_said_so(tmp_path: Path, text: str) -> None:
    """Broken YAML and foreign documents are reported with the file's name."""
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConfigError, match=str(path)):
        load(path)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A file given by hand is not passed over."""
    with pytest.raises(ConfigError, match="cannot read this kubeconfig"):
        load(tmp_path / "nothing")


def test_an_empty_file_is_a_kubeconfig_without_contexts(tmp_path: Path) -> None:
    """As somebody's editor or a tool that was stopped leaves it."""
    path = tmp_path / "config"
    path.write_text("")
    with pytest.raises(ConfigError, match="no current-context is set"):
        load_config(kubeconfig=path, env={})


def test_empty_sections_and_dates_are_fine(tmp_path: Path) -> None:
    """``null`` sections and unquoted dates appear in real files."""
    path = tmp_path / "config"
    path.write_text(
        "clusters:\n- name: c\n  cluster:\n    server: http://c\n    extensions:\n"
        "    - name: minikube\n      extension: {last-update: 2026-01-02}\n"
        "contexts:\n- name: x\n  context: {cluster: c}\nusers: null\ncurrent-context: x\n"
    )

    assert load(path).server == "http://c"


def service_account(root: Path, *, namespace: str | None = "apps") -> Path:
    """Write a service account as a pod finds it, below *root*."""
    account = root / "var/run/secrets/kubernetes.io/serviceaccount"
    account.mkdir(parents=True)
    (account / "token").write_text("t")
    (account / "ca.crt").write_text("CA")
    if namespace is not None:
        (account / "namespace").write_text(f"{namespace}\n")
    return account


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    """With no kubeconfig anywhere, the pod's own account is used."""
    account = service_account(tmp_path)

    config = load_config(env=IN_POD, home=tmp_path, root=tmp_path)

    assert config.server == "https://10.0.0.1:443"
    assert config.user.token_file == account / "token"
    assert config.tls.authority == Pem(path=account / "ca.crt")
    assert config.namespace == "apps"


@pytest.mark.parametrize("namespace", [None, ""], ids=["missing", "empty"])
def test_an_ipv6_address_is_put_into_brackets(tmp_path: Path, namespace: str | None) -> None:
    """Dual-stack clusters give a bare IPv6 address; the namespace file may be missing or empty."""
    service_account(tmp_path, namespace=namespace)
    env = {**IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}

    config = load_config(env=env, home=tmp_path, root=tmp_path)

    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "default")


def test_a_kubeconfig_has_precedence_over_the_service_account(tmp_path: Path) -> None:
    """Who names a file inside a pod means it."""
    service_account(tmp_path)
    path = write_one(tmp_path / "config")

    config = load_config(env={**IN_POD, "KUBECONFIG": str(path)}, root=tmp_path)

    assert config.server == "https://c:6443"


@pytest.mark.parametrize("missing", IN_POD)
def test_a_pod_needs_the_host_and_the_port_of_its_cluster(tmp_path: Path, missing: str) -> None:
    """The kubelet sets both; one alone is somebody's mistake."""
    service_account(tmp_path)
    env = {name: value for name, value in IN_POD.items() if name != missing}
    with pytest.raises(ConfigError, match="not inside a pod: KUBERNETES_SERVICE_HOST and"):
        in_cluster_config(env=env, root=tmp_path)


def test_a_context_is_not_looked_for_in_the_pods_account(tmp_path: Path) -> None:
    """It has none; to use the account instead could be another cluster."""
    service_account(tmp_path)
    with pytest.raises(ConfigError, match="no cluster is configured"):
        load_config(env=IN_POD, context="another", home=tmp_path, root=tmp_path)


def test_nothing_at_all_is_explained(tmp_path: Path) -> None:
    """The message says what can be done."""
    with pytest.raises(ConfigError, match=r"no cluster is configured.*KUBECONFIG"):
        load_config(env={}, home=tmp_path, root=tmp_path)
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_config(env=IN_POD, home=tmp_path, root=tmp_path)


def test_secrets_do_not_show_in_text(tmp_path: Path) -> None:
    """A configuration may be logged."""
    user = {"token": "s3cret", "username": "u", "password": "s3cret"}

    assert "s3cret" not in repr(load(write_one(tmp_path / "config", user=user)))


PROXIES = [
    ({"HTTPS_PROXY": "http://p:1"}, "https://k8s.example.org", "http://p:1"),
    ({"https_proxy": "p:1"}, "https://k8s.example.org", "http://p:1"),
    ({"HTTP_PROXY": "http://p:1"}, "https://k8s.example.org", ""),
    ({"HTTPS_PROXY": "http://p:1"}, "https://127.0.0.1:6443", ""),
    ({"HTTPS_PROXY": "http://p:1"}, "https://localhost:6443", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://a", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, example.org"}, "https://k8s.example.org", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.org"}, "https://k8s.example.org", ""),
    (
        {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.org"},
        "https://example.org",
        "http://p:1",
    ),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "ample.org"}, "https://example.org", "http://p:1"),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "https://11.1.2.3", "http://p:1"),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.1.2.3"}, "https://10.1.2.3", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a:6443"}, "https://a:6443", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a:6443"}, "https://a:6444", "http://p:1"),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "fd00::1"}, "https://[fd00::1]:6443", ""),
    ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "not/a/net"}, "https://10.0.0.1", "http://p:1"),
]


@pytest.mark.parametrize(("env", "server", "proxy"), PROXIES)
def test_the_environment_may_name_a_proxy(env: dict[str, str], server: str, proxy: str) -> None:
    """Proxies and their exceptions are understood as by other tools."""
    assert proxy_from_environment(env, server) == proxy


def test_files_that_say_nothing_do_not_hide_the_service_account(tmp_path: Path) -> None:
    """Tools leave empty files behind; a file that was named must say something."""
    service_account(tmp_path)
    path = tmp_path / "config"
    path.write_text("kind: Config\n")
    env = {**IN_POD, "KUBECONFIG": str(path)}
    assert load_config(env=env, root=tmp_path).server == "https://10.0.0.1:443"
    with pytest.raises(ConfigError):
        load_config(kubeconfig=path, env=IN_POD, root=tmp_path)
    with pytest.raises(ConfigError):
        load_config(context="another", env=env, root=tmp_path)
