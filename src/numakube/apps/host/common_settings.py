"""The settings that every long-running process has: cluster, logs, and where it serves.

class ExampleSettings:
    serving: ServingSettings = serving_on(8080)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)

config = cluster_of(settings.connection, env=env, root=root)
listen = listen_of(settings.serving, locate=Path)

What is logged can be changed while the process runs: all of it, a module, or one pod. `SWITCH` is
the one of this process: `numakube.cli.shared.log_options` puts it first among structlog's
processors. A rule for a module or a pod holds for a while and then ends by itself, so that no one
has to remember it. Which rule applies: that of the pod that an event is about, else that of the
innermost module, else the general level. As long as there are no rules, none of this costs
anything; code that would log details at every turn asks `LevelSwitch.details` first.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import structlog

from numakube.apps.host.http_serving import VERSIONS, Listen, TlsFiles, parse_address
from numakube.apps.host.settings_sources import DURATION, group, setting
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from numakube.kube.clock import Clock
    from numakube.kube.connection.cluster_config import ClusterConfig


LEVELS: Final = ("debug", "info", "warning", "error")
MOST_RULES: Final = 64
_DEBUG_VERBOSITY: Final = 4
"""klog's verbosity from which on details are logged; ours has one level for that."""


def level_of_verbosity(verbosity: int) -> str:
    """Return the level that klog's *verbosity* (as in ``PUT /debug/flags/v``) stands for."""
    return "debug" if verbosity >= _DEBUG_VERBOSITY else "info"


def level_name(number: int) -> str:
    """Return the name of a level."""
    return logging.getLevelName(number).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSubject:
    """What a rule is about: a module with all below it, or a pod (``namespace/name``)."""

    module: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    number: int
    until: float
    clock: Clock

    @property
    def seconds_left(self) -> float:
        return self.until - self.clock.monotonic()


@dataclass(frozen=True, slots=True)
class RuleShown:
    """A rule in force."""

    subject: LogSubject
    level: str
    seconds_left: float


class LevelSwitch:
    """Drops what is below the current level.

    Attributes:
        details: whether anybody may want to see debug events.
    """

    def __init__(self) -> None:
        self.details = False
        self._normal = logging.INFO
        self._for_now: tuple[int, float, Clock] | None = None
        self._rules: dict[LogSubject, _Rule] = {}

    @property
    def level(self) -> str:
        """The general level in force."""
        return level_name(self._general())

    def set(self, level: str) -> None:
        """Log from *level* on, from now on."""
        self._normal = logging.getLevelNamesMapping()[level.upper()]
        self._for_now = None
        self._look_again()

    def set_for(self, level: str, seconds: float, clock: Clock) -> None:
        """Log from *level* on for *seconds*, then as before."""
        number = logging.getLevelNamesMapping()[level.upper()]
        self._for_now = (number, clock.monotonic() + seconds, clock)
        self._look_again()

    def set_rule(self, subject: LogSubject, level: str, seconds: float, clock: Clock) -> None:
        """Log what is about *subject* from *level* on for *seconds*.

        Raises:
            ConfigError: there are too many rules.
        """
        self._expire()
        if len(self._rules) >= MOST_RULES and subject not in self._rules:
            raise ConfigError(f"there are {MOST_RULES} rules already; take some back")
        number = logging.getLevelNamesMapping()[level.upper()]
        self._rules[subject] = _Rule(number, clock.monotonic() + seconds, clock)
        self._look_again()

    def remove_rule(self, subject: LogSubject) -> bool:
        """Take a rule back; tell whether there was one."""
        found = self._rules.pop(subject, None) is not None
        self._look_again()
        return found

    def rules(self) -> list[RuleShown]:
        """Return the rules in force."""
        self._expire()
        return [
            RuleShown(subject, level_name(rule.number), rule.seconds_left)
            for subject, rule in self._rules.items()
        ]

    def seconds_left(self) -> float | None:
        """Return how long the general level holds; ``None`` if for good."""
        self._general()
        return None if self._for_now is None else self._for_now[1] - self._for_now[2].monotonic()

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        """Let *event* pass or drop it: a structlog processor."""
        number = logging.getLevelNamesMapping().get(method.upper(), logging.ERROR)
        if number < self._threshold(event):
            raise structlog.DropEvent
        return event

    def _threshold(self, event: MutableMapping[str, object]) -> int:
        general = self._general()
        if not self._rules:
            return general
        self._expire()
        rule = self._rules.get(LogSubject(pod=str(event.get("pod") or "")))
        if rule is None and any(subject.module for subject in self._rules):
            rule = self._module_rule(_calling_module())
        return general if rule is None else rule.number

    def _module_rule(self, module: str) -> _Rule | None:
        while module:
            rule = self._rules.get(LogSubject(module=module))
            if rule is not None:
                return rule
            module = module.rpartition(".")[0]
        return None

    def _general(self) -> int:
        if self._for_now is None:
            return self._normal
        number, until, clock = self._for_now
        if clock.monotonic() >= until:
            self._for_now = None
            self._look_again()
            return self._normal
        return number

    def _expire(self) -> None:
        ended = [subject for subject, rule in self._rules.items() if rule.seconds_left <= 0]
        for subject in ended:
            del self._rules[subject]
        if ended:
            self._look_again()

    def _look_again(self) -> None:
        numbers = [self._normal, *(rule.number for rule in self._rules.values())]
        if self._for_now is not None:
            numbers.append(self._for_now[0])
        self.details = min(numbers) <= logging.DEBUG


def _calling_module() -> str:
    """Return the module that logs."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] != "structlog" and name != __name__:
            return name
        frame = frame.f_back
    return ""


SWITCH: Final = LevelSwitch()


Locate: TypeAlias = Callable[[str], Path]
"""Where a path of the process really is: elsewhere if it runs in a container of the lab."""

FORMATS: Final = ("text", "json")

_SERVED: Final = "Where to serve {}; port 0 takes a free one."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach the cluster."""

    kubeconfig: str = setting(
        "--kubeconfig",
        key="global.kubeconfig",
        metavar="FILE",
        help="How to reach the cluster; by default as kubectl does, or the pod's own account.",
    )
    context: str = setting(
        "--context",
        help="Context of the kubeconfig to use.",
    )


class LogLevel(click.Choice[str]):
    """A level by its name, or by the number that Go programs have for it."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as its base class has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the name of the level."""
        if isinstance(value, str) and value.isdecimal():
            return level_of_verbosity(int(value))
        return super().convert(value, param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is logged, and how."""

    log_level: str = setting(
        "--log-level",
        type=LogLevel(LEVELS),
        default="info",
        key="global.logLevel",
        help="Minimum level of events to log.",
    )
    log_format: str = setting(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        key="global.logFormat",
        help="Format of the log.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Whether several agree on one that works, and where."""

    leader_elect: bool = setting(
        "--leader-elect/--no-leader-elect",
        default=True,
        help="Whether several replicas elect a leader.",
    )
    namespace: str = setting(
        "--namespace",
        default="numakube",
        env="POD_NAMESPACE",
        metavar="NAME",
        help="Where the lease is.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Where health and metrics are served."""

    bind_address: str = setting(
        "--bind-address",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help=_SERVED.format("health and metrics"),
    )
    tls_cert_file: str = setting(
        "--tls-cert-file",
        metavar="FILE",
        help="Certificate with its chain, for HTTPS.",
    )
    tls_key_file: str = setting(
        "--tls-key-file --tls-private-key-file",
        metavar="FILE",
        help="Key of the certificate.",
    )
    tls_client_ca_file: str = setting(
        "--tls-client-ca-file",
        metavar="FILE",
        help="Ask clients for a certificate of this authority.",
    )
    tls_min_version: str = setting(
        "--tls-min-version",
        type=click.Choice(tuple(VERSIONS)),
        default="VersionTLS12",
        help="Minimum version of TLS.",
    )
    insecure_serving: bool = setting(
        "--insecure-serving/--no-insecure-serving",
        default=False,
        help="Serve plain HTTP to every client, even on addresses that others can reach.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationSettings:
    """How a program that API servers ask tells them of its certificate's authority."""

    ca_file: str = setting(
        "--ca-file",
        metavar="FILE",
        help="Authority of the certificate, to be registered with API servers; by default"
        " another program does that.",
    )
    configuration: str = setting(
        "--configuration",
        metavar="NAME",
        help="Configuration of webhooks to register the authority in.",
    )
    interval: float = setting(
        "--registration-interval",
        type=DURATION,
        default=60.0,
        help="How often to check that the right authority is registered.",
    )


def registered_in(kind: str, name: str) -> RegistrationSettings:
    """Return the field for the registration in a *kind* of configuration, by default in *name*."""
    text = {"default": name, "help": f"{kind} to register the authority in."}
    return group(RegistrationSettings, configuration=text)


def serving_on(port: int, served: str = "health and metrics") -> ServingSettings:
    """Return the field for where *served* is served, by default on *port* of loopback."""
    address = {"default": f"127.0.0.1:{port}", "help": _SERVED.format(served)}
    return group(ServingSettings, bind_address=address)


def cluster_of(
    connection: ConnectionSettings, *, env: Mapping[str, str], root: Path = Path("/")
) -> ClusterConfig:
    """Return how to reach the cluster; *root* is where the pod's account is mounted.

    Raises:
        ConfigError: nothing says how.
    """
    # Not every process has a cluster; one that has none does without the memory.
    from numakube.kube.connection.cluster_config import load_config

    kubeconfig, context = connection.kubeconfig or None, connection.context or None
    # Another root is another file system, in which this one's home directory does not exist.
    home = None if root == Path("/") else root
    return load_config(kubeconfig=kubeconfig, context=context, env=env, home=home, root=root)


def listen_of(serving: ServingSettings, *, locate: Locate = Path) -> Listen:
    """Return where to serve.

    Raises:
        ConfigError: the settings contradict each other.
    """
    host, port = parse_address(serving.bind_address)
    certificate, key = serving.tls_cert_file, serving.tls_key_file
    if bool(certificate) != bool(key):
        raise ConfigError("--tls-cert-file and --tls-key-file must be given together")
    tls = None
    if certificate:
        authority = serving.tls_client_ca_file
        tls = TlsFiles(
            certificate=locate(certificate),
            key=locate(key),
            client_authority=locate(authority) if authority else None,
            min_version=serving.tls_min_version,
        )
    return Listen(host=host, port=port, tls=tls, plain=serving.insecure_serving)
