"""Credentials come from every place a kubeconfig can name, and are renewed in time."""

import asyncio
import base64
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from numakube.errors import CredentialError
from numakube.kube.clock import JumpingClock, ManualClock
from numakube.kube.connection.cluster_config import ExecPlugin, Impersonation, Pem, UserConfig
from numakube.kube.connection.credentials import (
    Authenticator,
    CertificatePair,
    Credentials,
    SingleFlight,
    authenticator_for,
)
from numakube.testing import turns, until

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


async def authorization(auth: Authenticator) -> str:
    """Return the Authorization header that *auth* gives now."""
    return dict((await auth.credentials()).headers).get("Authorization", "")


async def test_a_user_without_anything_is_anonymous() -> None:
    """No header, no certificate."""
    auth = authenticator_for(UserConfig(), clock=JumpingClock())

    assert await auth.credentials() == Credentials()
    assert not auth.rejected(await auth.credentials())


async def test_bearer_basic_and_id_tokens_become_headers() -> None:
    """Each kind has its scheme; a token has precedence over a password."""
    clock = JumpingClock()
    both = UserConfig(token="t", username="u", password="p")

    assert await authorization(authenticator_for(both, clock=clock)) == "Bearer t"
    basic = UserConfig(username="u", password="p")
    assert await authorization(authenticator_for(basic, clock=clock)) == "Basic dTpw"
    oidc = UserConfig(id_token="opaque")
    assert await authorization(authenticator_for(oidc, clock=clock)) == "Bearer opaque"


def id_token(expires: datetime, subject: str = "me") -> str:
    """Return an unsigned JWT."""
    claims = msgspec.json.encode({"sub": subject, "exp": expires.timestamp()})
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}."


@pytest.mark.parametrize("subject", ["me", "you", "them", "many of them"])
async def test_an_expired_id_token_is_explained(subject: str) -> None:
    """The server would only say 401. Tokens are of any length."""
    clock = JumpingClock()
    fresh = UserConfig(id_token=id_token(clock.now() + timedelta(hours=1), subject))
    stale = UserConfig(id_token=id_token(clock.now() - timedelta(hours=1), subject))

    assert await authorization(authenticator_for(fresh, clock=clock))
    with pytest.raises(CredentialError, match=r"id-token .* has expired"):
        await authorization(authenticator_for(stale, clock=clock))


async def test_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    """Kubernetes renews the token of a service account in place."""
    clock = ManualClock()
    path = tmp_path / "token"
    path.write_text("one\n")
    auth = authenticator_for(UserConfig(token_file=path), clock=clock)
    assert await authorization(auth) == "Bearer one"

    path.write_text("two\n")
    await clock.advance(59)
    assert await authorization(auth) == "Bearer one"
    await clock.advance(1)
    assert await authorization(auth) == "Bearer two"


async def test_a_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    """A retry makes sense only if the file says something new."""
    path = tmp_path / "token"
    path.write_text("one")
    auth = authenticator_for(UserConfig(token_file=path), clock=ManualClock())
    used = await auth.credentials()

    assert not auth.rejected(used)
    path.write_text("two")
    assert auth.rejected(used)
    assert await authorization(auth) == "Bearer two"
    assert auth.rejected(used), "another request still carried the old one"


async def test_a_token_file_that_vanishes_leaves_the_last_token(tmp_path: Path) -> None:
    """A moment without the file is not a reason to fail; never having had it is."""
    clock = ManualClock()
    path = tmp_path / "token"
    auth = authenticator_for(UserConfig(token_file=path), clock=clock)
    with pytest.raises(CredentialError, match="cannot read this token"):
        await auth.credentials()
    path.write_text("")
    with pytest.raises(CredentialError, match="is empty"):
        await auth.credentials()
    path.write_text("one")
    assert await authorization(auth) == "Bearer one"

    path.unlink()
    await clock.advance(61)
    assert await authorization(auth) == "Bearer one"


async def test_a_token_given_in_place_stands_in_for_its_file(tmp_path: Path) -> None:
    """What the file says has precedence once it is there."""
    clock = ManualClock()
    path = tmp_path / "token"
    auth = authenticator_for(UserConfig(token="t", token_file=path), clock=clock)
    assert await authorization(auth) == "Bearer t"

    path.write_text("file")
    await clock.advance(61)
    assert await authorization(auth) == "Bearer file"


async def test_certificate_files_are_read_again(tmp_path: Path) -> None:
    """Client certificates are renewed in place, too."""
    clock = ManualClock()
    certificate, key = tmp_path / "crt", tmp_path / "key"
    certificate.write_text("C1")
    key.write_text("K1")
    user = UserConfig(certificate=Pem(path=certificate), key=Pem(path=key))
    auth = authenticator_for(user, clock=clock)
    assert (await auth.credentials()).pair == CertificatePair(b"C1", b"K1")

    certificate.write_text("C2")
    await clock.advance(60)
    assert (await auth.credentials()).pair == CertificatePair(b"C2", b"K1")


async def test_impersonation_becomes_headers() -> None:
    """Names of extra fields are escaped, repeated ones repeated."""
    who = Impersonation(user="jane", uid="7", groups=("a", "b"), extra=(("scope/x", ("1", "2")),))
    auth = authenticator_for(UserConfig(token="t", impersonation=who), clock=JumpingClock())

    assert (await auth.credentials()).headers == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope%2Fx", "1"),
        ("Impersonate-Extra-scope%2Fx", "2"),
    )


class PluginScript:
    """An exec plugin on disk that prints what the test says and records how it was called."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plugin"
        self._log = folder / "log"
        self._answer = folder / "answer"
        self.path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"log = open({str(self._log)!r}, 'a')\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "call = {'args': sys.argv[1:], 'info': info, 'env': dict(os.environ)}\n"
            "log.write(json.dumps(call) + '\\n')\n"
            f"sys.stdout.write(open({str(self._answer)!r}).read())\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answer(self, *, version: str = V1, **status: Any) -> None:
        """Print an ExecCredential with *status* from now on."""
        document = {"kind": "ExecCredential", "apiVersion": version, "status": status}
        self._answer.write_bytes(msgspec.json.encode(document))

    def answer_text(self, text: str) -> None:
        """Print *text* from now on."""
        self._answer.write_text(text)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How it was called so far."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [msgspec.json.decode(line) for line in lines]


@pytest.fixture
def script(tmp_path: Path) -> PluginScript:
    """A plugin that gives the token ``t``."""
    script = PluginScript(tmp_path)
    script.answer(token="t")
    return script


def plugin_auth(
    script: PluginScript,
    *,
    clock: ManualClock | None = None,
    terminal: bool = False,
    **fields: Any,
) -> Authenticator:
    """Return the authenticator for *script* as a plugin."""
    settings = {"command": str(script.path), "api_version": V1, "interactive_mode": "Never"}
    plugin = ExecPlugin(**{**settings, **fields})
    return authenticator_for(
        UserConfig(plugin=plugin),
        clock=clock or JumpingClock(),
        env={"PATH": os.environ["PATH"], "INHERITED": "yes"},
        interactive=terminal,
    )


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_is_told_what_it_needs_and_gives_a_token(
    script: PluginScript, version: str
) -> None:
    """Arguments, environment and KUBERNETES_EXEC_INFO arrive as documented."""
    script.answer(version=version, token="secret")
    auth = plugin_auth(
        script,
        api_version=version,
        args=("--for", "me"),
        env=(("REGION", "eu"),),
        cluster_info={"server": "https://c", "config": {"a": 1}},
    )

    assert await authorization(auth) == "Bearer secret"
    call = script.calls[0]
    assert call["args"] == ["--for", "me"]
    assert (call["env"]["REGION"], call["env"]["INHERITED"]) == ("eu", "yes")
    assert call["info"] == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://c", "config": {"a": 1}}},
    }


async def test_a_plugin_gives_a_certificate(script: PluginScript) -> None:
    """A certificate with its key serves as well as a token."""
    script.answer(clientCertificateData="C", clientKeyData="K")

    credentials = await plugin_auth(script).credentials()

    assert credentials.pair == CertificatePair(b"C", b"K")
    assert credentials.headers == ()


async def test_a_plugin_runs_again_when_its_credentials_expire(script: PluginScript) -> None:
    """And not before."""
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    script.answer(token="one", expirationTimestamp="2026-05-01T01:00:00Z")
    auth = plugin_auth(script, clock=clock)
    assert await authorization(auth) == "Bearer one"

    script.answer(token="two")
    await clock.advance(3599)
    assert await authorization(auth) == "Bearer one"
    await clock.advance(1)
    assert await authorization(auth) == "Bearer two"
    await clock.advance(1e6)
    assert await authorization(auth) == "Bearer two", "no expiry means none"
    assert len(script.calls) == 2


async def test_a_plugin_runs_again_once_after_a_401(script: PluginScript) -> None:
    """However many requests were refused with the same credentials."""
    auth = plugin_auth(script)
    used = await auth.credentials()
    script.answer(token="new")

    assert auth.rejected(used)
    assert await authorization(auth) == "Bearer new"
    assert auth.rejected(used)
    assert await authorization(auth) == "Bearer new"
    assert len(script.calls) == 2


async def test_a_plugin_runs_once_for_all_who_wait(script: PluginScript) -> None:
    """Twenty requests at start-up do not start twenty logins."""
    auth = plugin_auth(script)

    await asyncio.gather(*(auth.credentials() for _ in range(20)))

    assert len(script.calls) == 1


async def test_a_plugin_is_not_asked_when_the_user_has_a_token(script: PluginScript) -> None:
    """What the configuration gives directly has precedence."""
    plugin = ExecPlugin(command=str(script.path), api_version=V1)
    auth = authenticator_for(UserConfig(token="own", plugin=plugin), clock=JumpingClock())

    assert await authorization(auth) == "Bearer own"
    assert script.calls == []


async def test_a_plugin_that_must_ask_needs_a_terminal(script: PluginScript) -> None:
    """IfAvailable asks only at a terminal, Always fails without one, Never does not ask."""
    with pytest.raises(CredentialError, match="standard input is not a terminal"):
        await plugin_auth(script, interactive_mode="Always").credentials()

    for mode, terminal in (("IfAvailable", False), ("IfAvailable", True), ("Never", True)):
        await plugin_auth(script, interactive_mode=mode, terminal=terminal).credentials()
    asked = [call["info"]["spec"]["interactive"] for call in script.calls]
    assert asked == [False, True, False]


HEAD = f'{{"kind":"ExecCredential","apiVersion":"{V1}'
WRONG_ANSWERS = [
    ("", "not an ExecCredential"),
    ("{}", "returned no apiVersion"),
    (HEAD + 'beta1"}', "configured for .*/v1 but"),
    (HEAD.replace("Exec", "Other") + '","status":{"token":"t"}}', "returned .*/v1 OtherCredential"),
    (f'{{"apiVersion":"{V1}","status":{{"token":"t"}}}}', "returned .*/v1 without a kind"),
    (HEAD + '"}', "returned no status"),
    (HEAD + '","status":{"clientCertificateData":"C"}}', "only a certificate or a key"),
    (HEAD + '","status":{}}', "neither a token nor"),
    (HEAD + '","status":{"clientKeyData":"K"}}', "only a certificate or a key"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_ANSWERS)
async def test_a_wrong_answer_of_a_plugin_is_explained(
    script: PluginScript, text: str, message: str
) -> None:
    """The message names the plugin and what is wrong with its answer."""
    script.answer_text(text)

    with pytest.raises(CredentialError, match=message) as caught:
        await plugin_auth(script).credentials()

    assert str(script.path) in str(caught.value)


async def test_a_failing_plugin_is_quoted(script: PluginScript) -> None:
    """Its last words are shown, without control characters."""
    script.path.write_text("#!/bin/sh\nprintf 'no \\033[31mticket' >&2\nexit 3\n")

    with pytest.raises(CredentialError, match=r"exit code 3: no \ufffd\[31mticket"):
        await plugin_auth(script).credentials()


async def test_a_missing_plugin_comes_with_its_hint(script: PluginScript) -> None:
    """The kubeconfig may say how to install it."""
    auth = plugin_auth(script, command="no-such-plugin", install_hint="apt install it")

    with pytest.raises(CredentialError, match=r"not installed\napt install it"):
        await auth.credentials()


async def test_a_plugin_that_hangs_is_ended(script: PluginScript) -> None:
    """Both by the time limit and when nobody waits any more; no process stays behind."""
    pid_file = script.path.parent / "pid"
    script.path.write_text(
        f"#!/bin/sh\necho $$ > {pid_file}.new\nmv {pid_file}.new {pid_file}\nexec sleep 600\n"
    )
    clock = ManualClock()
    waiting = asyncio.create_task(plugin_auth(script, clock=clock).credentials())
    pid = await started(pid_file)

    await clock.timeouts()
    await clock.advance(121)
    with pytest.raises(CredentialError, match="no answer within 120 s"):
        await waiting
    assert not alive(pid)

    pid_file.unlink()
    waiting = asyncio.create_task(plugin_auth(script, clock=clock).credentials())
    pid = await started(pid_file)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not alive(pid)


async def started(pid_file: Path) -> int:
    """Return the pid that the plugin wrote."""
    return int(await until(lambda: pid_file.read_text(), despite=(FileNotFoundError,)))


def alive(pid: int) -> bool:
    """Tell whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_work_whose_owner_gives_up_is_taken_over() -> None:
    """Those who wait for a shared run do not fail because the first to ask was cancelled."""
    runs = 0
    proceed = asyncio.Event()

    async def work() -> int:
        nonlocal runs
        runs += 1
        await proceed.wait()
        return runs

    flight = SingleFlight(work)
    owner = asyncio.create_task(flight.result())
    await until(lambda: runs == 1)
    others = [asyncio.create_task(flight.result()) for _ in range(3)]
    await turns()
    owner.cancel()
    await turns(5)
    others[1].cancel()
    proceed.set()

    results = await asyncio.gather(owner, *others, return_exceptions=True)
    assert [type(each).__name__ for each in results] == [
        "CancelledError",
        "int",
        "CancelledError",
        "int",
    ]
    assert (results[1], results[3], runs) == (2, 2, 2)
