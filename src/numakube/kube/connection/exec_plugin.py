"""Run a credential plugin of a kubeconfig (``client.authentication.k8s.io`` v1 and v1beta1).

The plugin receives the cluster and its own settings in ``KUBERNETES_EXEC_INFO`` and prints an
``ExecCredential`` with a token, a client certificate, or both, and possibly an expiry. This is the
only place where numakube starts a process.
"""

import asyncio
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.errors import CredentialError
from numakube.kube.clock import Clock
from numakube.kube.connection.cluster_config import ExecPlugin
from numakube.kube.connection.tls import CertificatePair
from numakube.values.safe_text import printable_lines

EXEC_INFO = "KUBERNETES_EXEC_INFO"
"""The environment variable in which a plugin finds what it is asked."""

TIME_LIMIT_SECONDS = 120.0
"""How long a plugin may take that cannot be waiting for a person."""

_QUOTED = 300
"""How much of a plugin's error output an error message shows."""


@dataclass(frozen=True, slots=True)
class ExecCredentials:
    """What a plugin gave."""

    token: str = field(default="", repr=False)
    pair: CertificatePair | None = None
    expires: datetime | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


async def run_plugin(
    plugin: ExecPlugin, *, clock: Clock, env: Mapping[str, str], terminal: bool
) -> ExecCredentials:
    """Run *plugin* and return its credentials.

    Args:
        plugin: what to run.
        clock: for the time limit of a run that cannot be waiting for a person.
        env: the environment that the plugin inherits; its ``PATH`` is searched.
        terminal: standard input is a terminal.
    """
    interactive = _is_interactive(plugin, terminal=terminal)
    process = await _start(plugin, env, interactive=interactive)
    try:
        async with clock.timeout(None if interactive else TIME_LIMIT_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as exc:
        raise CredentialError(
            f"exec plugin {plugin.command}: no answer within {TIME_LIMIT_SECONDS:.0f} s"
        ) from exc
    finally:
        await _end(process)
    if process.returncode:
        raise CredentialError(_failure(plugin, process.returncode, errors or b""))
    return parse_answer(output, plugin)


def parse_answer(output: bytes, plugin: ExecPlugin) -> ExecCredentials:
    """Return the credentials in what *plugin* printed."""
    name = f"exec plugin {plugin.command}"
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except BROKEN_JSON as exc:
        raise CredentialError(f"{name}: its output is not an ExecCredential: {exc}") from exc
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialError(
            f"{name}: configured for {plugin.api_version} but it returned "
            f"{answer.api_version or 'no apiVersion'} {answer.kind or 'without a kind'}"
        )
    status = answer.status
    if status is None:
        raise CredentialError(f"{name}: it returned no status")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialError(f"{name}: it returned only a certificate or a key, not both")
    if not status.token and not status.client_key_data:
        raise CredentialError(f"{name}: it returned neither a token nor a certificate with its key")
    return ExecCredentials(status.token, _pair(status), _in_utc(status.expiration_timestamp))


def exec_info(plugin: ExecPlugin, *, interactive: bool) -> bytes:
    """Return what a plugin finds in ``KUBERNETES_EXEC_INFO``."""
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.cluster_info is not None:
        spec["cluster"] = dict(plugin.cluster_info)
    return msgspec.json.encode(
        {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    )


def _is_interactive(plugin: ExecPlugin, *, terminal: bool) -> bool:
    if plugin.interactive_mode == "Always" and not terminal:
        raise CredentialError(
            f"exec plugin {plugin.command} has to ask a person (interactiveMode: Always), "
            "but standard input is not a terminal"
        )
    return terminal and plugin.interactive_mode != "Never"


async def _start(plugin: ExecPlugin, env: Mapping[str, str], *, interactive: bool) -> Process:
    """Start the plugin; one that asks questions gets our terminal."""
    program = shutil.which(plugin.command, path=env.get("PATH"))
    if program is None:
        hint = f"\n{printable_lines(plugin.install_hint)}" if plugin.install_hint else ""
        raise CredentialError(f"exec plugin {plugin.command} is not installed{hint}")
    info = exec_info(plugin, interactive=interactive).decode()
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *plugin.args,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            stderr=None if interactive else PIPE,
            env={**env, **dict(plugin.env), EXEC_INFO: info},
        )
    except OSError as exc:
        raise CredentialError(f"exec plugin {plugin.command} cannot be started: {exc}") from exc


async def _end(process: Process) -> None:
    """Leave no process behind, however the wait for it ended."""
    if process.returncode is None:
        process.kill()
        await asyncio.shield(process.wait())


def _failure(plugin: ExecPlugin, code: int, errors: bytes) -> str:
    said = printable_lines(errors.decode(errors="replace").strip())[-_QUOTED:]
    return f"exec plugin {plugin.command} failed with exit code {code}" + (
        f": {said}" if said else ""
    )


def _pair(status: _Status) -> CertificatePair | None:
    if not status.client_key_data:
        return None
    return CertificatePair(status.client_certificate_data.encode(), status.client_key_data.encode())


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC)
