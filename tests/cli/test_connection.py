"""Which cluster, as whom: kubectl's options, before the command or after it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_cluster import KUBECONFIG
from tests.cli.test_explain import live, quiet

from numakube.cli.shared.connection_options import ClusterOptions, config_for
from numakube.version import VERSION

pytestmark = pytest.mark.timeout(240)

__all__ = ["live", "quiet"]  # fixtures

DEAD = "http://127.0.0.1:1"
ASKING = [
    "bundle", "debug cache", "check cluster", "deploy", "doctor", "explain pod x", "debug loglevel",
    "map x", "queue", "remove", "debug reservations", "debug resync --all", "setup", "top",
    "debug trace pod x", "check kubelets", "top -w",
]  # fmt: skip


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    return file


@pytest.mark.parametrize("line", ASKING)
def test_who_cannot_be_reached_is_named(
    numakube: Any, kubeconfig: Path, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By every command, in one line, with exit code 3."""
    monkeypatch.chdir(tmp_path)
    ended = numakube(*line.split(), "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (3, "")
    (told,) = ended.err.splitlines()
    assert told.startswith(f"error: cannot reach the API server {DEAD} of context 'here': ")
    assert told.endswith("127.0.0.1:1 refused the connection")


class _WebPage(BaseHTTPRequestHandler):
    """Answers everything with a page, as a proxy does that wants a login."""

    def handle_one_request(self) -> None:
        """Answer whatever was asked, and hang up."""
        while self.rfile.readline(65537).strip():
            pass
        page = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
        self.wfile.write(head.encode() + page)
        self.close_connection = True


@pytest.fixture
def web_server() -> Iterator[str]:
    """The address of a server that is no API server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _WebPage) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "line", [*ASKING, "check pods", "fits --shape cpu=1", "debug podresources node-0"]
)
def test_a_web_page_is_not_taken_for_an_answer_of_the_cluster(
    numakube: Any, web_server: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By no command, though the page comes with status 200; its title says whose it is."""
    monkeypatch.chdir(tmp_path)
    ended = numakube("-s", web_server, *line.split())
    assert (ended.code, ended.out) == (1, "")
    (told,) = ended.err.splitlines()
    assert told.startswith("error: ")
    assert told.endswith(
        ": the answer is a web page (Sign in): of no Kubernetes API server, or of a proxy"
    )


def test_the_version_of_a_web_page_is_not_known(numakube: Any, web_server: str) -> None:
    """That of the program is."""
    ended = numakube("version", "-s", web_server)
    assert (ended.code, ended.out) == (0, f"numakube    v{VERSION}\n")
    assert ended.err.startswith("warning: version: the answer is a web page (Sign in)")


def test_options_stand_before_the_command_too(numakube: Any, kubeconfig: Path) -> None:
    """What stands after it wins; daemons take them as well."""
    ahead = numakube("--kubeconfig", kubeconfig, "--server", "http://127.0.0.1:2", "top")
    assert "127.0.0.1:2" in ahead.err
    both = numakube("--server", "http://127.0.0.1:2", "top", "-s", DEAD)
    assert f"API server {DEAD}" in both.err
    for line in (["dashboard"], ["gc", "--oneshot"], ["explain", "pod", "x"]):
        wrong = numakube("--kubeconfig", kubeconfig, "--context", "there", *line)
        assert "context 'there' does not exist; known: here" in wrong.err


def test_somebody_else_can_be_acted_for(kubeconfig: Path) -> None:
    """With groups, which need a name."""
    options = ClusterOptions(kubeconfig=str(kubeconfig), user="jane", groups=("dev", "ops"))
    somebody = config_for(options).user.impersonation
    assert somebody is not None
    assert (somebody.user, somebody.groups) == ("jane", ("dev", "ops"))


def test_a_program_that_cannot_act_for_others_says_so(numakube: Any) -> None:
    """Rather than act with all rights."""
    ended = numakube("--as", "jane", "dashboard")
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "error: dashboard takes --kubeconfig and --context only.",
    )


def test_a_port_that_is_taken_is_named(numakube: Any, kubeconfig: Path) -> None:
    """By the dashboard too, which has already begun to look at the cluster."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = numakube("dashboard", "--port", port, "--kubeconfig", kubeconfig)
    assert ended.code == 1
    assert f"error: cannot listen on 127.0.0.1:{port}: " in ended.err
    assert "address already in use" in ended.err


def test_a_group_without_a_user_is_wrong_usage(numakube: Any, kubeconfig: Path) -> None:
    """As kubectl has it."""
    assert numakube("top", "--kubeconfig", kubeconfig, "--as-group", "dev").code == 2


def test_a_server_needs_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bare host is plain HTTP, as for kubectl."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert config_for(ClusterOptions(server="127.0.0.1:80")).server == "http://127.0.0.1:80"


def test_a_kubeconfig_that_does_not_exist_is_named(
    numakube: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By option or by variable, in words."""
    absent = tmp_path / "none"
    monkeypatch.setenv("KUBECONFIG", str(absent))
    assert f"KUBECONFIG names {absent}, which does not exist" in numakube("top").err
    told = numakube("top", "--kubeconfig", absent).err
    assert told == f"error: {absent}: cannot read this kubeconfig: No such file or directory\n"


def test_the_proxy_is_that_of_the_server_that_is_asked(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment's, for another server than the kubeconfig's; one that it names stays."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.9.9.9")

    def proxy(server: str, file: Path = kubeconfig) -> str:
        return config_for(ClusterOptions(kubeconfig=str(file), server=server)).proxy_url

    assert proxy("https://10.1.2.3") == "http://proxy:3128"
    assert proxy("https://10.9.9.9") == ""
    own = tmp_path / "own"
    own.write_text(KUBECONFIG.replace(f'"{DEAD}"', f'"{DEAD}", proxy-url: "http://own:1"'))
    assert proxy("https://10.1.2.3", own) == "http://own:1"


def test_a_kind_that_is_not_explained_is_told(numakube: Any) -> None:
    """It is not taken for a namespace."""
    for words in (["daemonset/x"], ["ds", "x"], ["cronjobs/x", "-n", "y"]):
        ended = numakube("explain", *words)
        assert ended.code == 2
        assert "explain is about pod, deployment, " in ended.err


def test_a_request_takes_no_longer_than_told(numakube: Any) -> None:
    """By a server that accepts and says nothing; a number alone is seconds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        ended = numakube("debug", "queue", "--server", address, "--request-timeout", "200ms")
    # Without a limit of the user's, a request waits for a minute.
    assert time.monotonic() - begun < 50
    assert (ended.code, "no answer in time" in ended.err) == (3, True)
    assert numakube("debug", "queue", "--server", DEAD, "--request-timeout", "1").code == 3
    assert numakube("debug", "queue", "--server", DEAD, "--request-timeout", "soon").code == 2


def test_details_are_logged_if_asked_for() -> None:
    """Else standard error is for errors; in a process of its own, for logs are the process's."""
    code = "import sys; from numakube.cli.main import run; sys.exit(run(sys.argv[1:], program='n'))"

    def told(verbosity: str) -> str:
        line = [sys.executable, "-c", code, "debug", "queue", "-s", DEAD, "-v", verbosity]
        ended = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
        assert (ended.returncode, ended.stdout) == (3, ""), ended
        return ended.stderr

    assert "request_retried" in told("6")
    assert "request_retried" not in told("1")


def test_versions_of_program_and_server(numakube: Any, live: str) -> None:
    """As text and as kubectl's document; the server is not needed."""
    both = json.loads(numakube("version", "-o", "json", "--kubeconfig", live).out)
    assert both["clientVersion"]["gitVersion"] == f"v{VERSION}"
    assert both["serverVersion"]["minor"] == "35"
    text = numakube("version", "--kubeconfig", live).out
    assert text.splitlines()[1].startswith("Kubernetes  v1.35")
    alone = numakube("version", "--server", DEAD)
    assert (alone.code, alone.out) == (0, f"numakube    v{VERSION}\n")
    assert "refused the connection" in alone.err
    assert numakube("version", "--client").err == ""
