"""What the commands of deployment share: options, the cluster, and how progress is shown."""

from __future__ import annotations

import asyncio
import difflib
import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from numakube.apps.host.settings_sources import FLAG, as_text, read_gates
from numakube.cli.deploying.exporter_configuration import (
    configuration_of_exporters,
    pools_of_functions,
)
from numakube.cli.deploying.scheduler_configuration import scheduler_configuration_options
from numakube.cli.shared.connection_options import connected, current_cluster
from numakube.cli.shared.connection_options import connection_options as declared
from numakube.errors import ConfigError, InvalidValue
from numakube.manifests.components import (
    ABSENT,
    ALL,
    COMPONENTS,
    DEFAULT,
    DEFAULT_NAMESPACE,
    UPDATERS,
    Choices,
)
from numakube.manifests.release_image import IMAGE
from numakube.values.times import SECOND, parse_duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube.cli.deploying.scheduler_configuration import ConfiguredScheduler
    from numakube.kube.client import Client

_COMPONENTS = ", ".join((*COMPONENTS, ALL))


class _Component(click.Choice[str]):
    """A component, or all of them."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of one that there is."""
        del param
        if value in ABSENT:
            raise ModuleNotFoundError(name=ABSENT[value].package)
        if value not in self.choices:
            near = difflib.get_close_matches(value, self.choices, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {_COMPONENTS}."
            raise click.UsageError(f"There is no component {value!r}{hint}", ctx)
        return value


def components_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the components to work on; they arrive as ``components``, never empty."""

    @click.argument(
        "components",
        nargs=-1,
        type=_Component((*COMPONENTS, ALL)),
        metavar=f"[COMPONENT]...  ({_COMPONENTS})",
    )
    @functools.wraps(command)
    def wrapped(*args: object, components: tuple[str, ...], **others: object) -> object:
        return command(*args, components=components or DEFAULT, **others)

    return wrapped


def _checked_gates(_: click.Context, __: click.Parameter, text: str) -> dict[str, bool]:
    return read_gates(text, FLAG)


def _v1beta1_allowed(gates: dict[str, bool]) -> bool:
    """Return true; raise if the gate is off, and say so if it is not named, as in 0.9."""
    gate = "NodeResourceTopologyV1Beta1"
    if gate not in gates and "AllAlpha" not in gates:
        click.echo(
            f"warning: --nrt-v1beta1 is alpha; from 1.1 on it needs {FLAG} {gate}=true", err=True
        )
    elif not gates.get(gate, gates.get("AllAlpha")):
        raise ConfigError(f"--nrt-v1beta1 needs the feature gate {gate}, which is off")
    return True


def choices_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare how to deploy; it arrives as ``choices``."""

    @click.option(
        "-n",
        "--namespace",
        default=DEFAULT_NAMESPACE,
        show_default=True,
        metavar="NAME",
        help="Namespace of the components.",
    )
    @click.option("--image", default=IMAGE, show_default=True, metavar="IMAGE", help="Our image.")
    @scheduler_configuration_options
    @click.option(
        "-R",
        "--replicas",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        help="Number of schedulers and extenders.",
    )
    @click.option(
        "--shards",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Schedulers that share the nodes, each with its replicas; for very large clusters.",
    )
    @click.option(
        "--updater-type",
        type=click.Choice(UPDATERS, case_sensitive=False),
        default=UPDATERS[0],
        show_default=True,
        help="What writes the topologies: our exporter, or another project's agent.",
    )
    @click.option(
        "--updater-sync-period",
        default="",
        metavar="DURATION",
        help="How often it scans even if nothing seems to have changed.",
    )
    @click.option(
        "--updater-pfp-enable/--no-updater-pfp-enable",
        default=True,
        show_default=True,
        help="Whether it publishes the pods' fingerprint.",
    )
    @click.option(
        "--koordinator", is_flag=True, help="Our exporter also publishes what koordlet publishes."
    )
    @click.option(
        "--measure",
        is_flag=True,
        help="Our exporter also measures where memory and threads of pods really are.",
    )
    @click.option(
        "--max-silence",
        default="",
        metavar="DURATION",
        help="Our exporter only publishes what was not foreseen, and at least once in this time.",
    )
    @click.option(
        "--exporter-config",
        "--rte-config-file",
        "exporter_config",
        type=click.Path(exists=True, dir_okay=False),
        callback=configuration_of_exporters,
        help="A configuration file for our exporter, in the format of RTE's.",
    )
    @click.option(
        "--pools",
        type=click.Path(exists=True, dir_okay=False),
        callback=pools_of_functions,
        help="PCI functions that nodes offer: a configuration of the SR-IOV device plugin.",
    )
    @click.option(
        "--pull-policy",
        type=click.Choice(("Always", "IfNotPresent", "Never")),
        default="IfNotPresent",
        show_default=True,
        help="When images are pulled.",
    )
    @click.option(
        "--extender-tls/--no-extender-tls",
        default=True,
        show_default=True,
        help="Whether calls to the extender are encrypted.",
    )
    @click.option(
        "--nrt-v1beta1",
        is_flag=True,
        help="Serve the proposed v1beta1 of NodeResourceTopology; needs the components api and"
        " webhook.",
    )
    @click.option(
        "--feature-gates",
        default="",
        metavar="NAME=true|false,...",
        callback=_checked_gates,
        help="Features to switch on or off in all programs: numakube help topic feature-gates.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: object,
        namespace: str,
        image: str,
        scheduler: ConfiguredScheduler,
        replicas: int,
        shards: int,
        updater_type: str,
        updater_sync_period: str,
        updater_pfp_enable: bool,
        koordinator: bool,
        measure: bool,
        max_silence: str,
        exporter_config: str,
        pools: tuple[dict[str, Any], ...],
        pull_policy: str,
        extender_tls: bool,
        nrt_v1beta1: bool,
        feature_gates: dict[str, bool],
        **others: object,
    ) -> object:
        choices = Choices(
            namespace=namespace,
            image=image,
            scheduler_name=scheduler.name,
            configuration=scheduler.configuration,
            replicas=replicas,
            shards=shards,
            updater=updater_type,
            period=updater_sync_period,
            fingerprint=updater_pfp_enable,
            koordinator=koordinator,
            measure=measure,
            max_silence=max_silence,
            exporter_configuration=exporter_config,
            pools=pools,
            pull_policy=pull_policy,
            tls=extender_tls,
            nrt_v1beta1=nrt_v1beta1 and _v1beta1_allowed(feature_gates),
            feature_gates=as_text(feature_gates),
        )
        return command(*args, choices=choices, **others)

    return wrapped


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare how to reach the cluster; `on_cluster` knows the rest."""

    @declared()
    @functools.wraps(command)
    def wrapped(*args: object, **others: object) -> object:
        cluster = current_cluster()
        return command(*args, kubeconfig=cluster.kubeconfig, context=cluster.context, **others)

    return wrapped


def others_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare what to do about others that do the same; it arrives as ``others``."""

    @click.option("--adopt", is_flag=True, help="Take over from installations that do the same.")
    @click.option("--beside", is_flag=True, help="Deploy beside others that do the same.")
    @functools.wraps(command)
    def wrapped(*args: object, adopt: bool, beside: bool, **others: object) -> object:
        if adopt and beside:
            raise click.UsageError("--adopt and --beside exclude each other.")
        return command(*args, others="adopt" if adopt else "beside" if beside else "", **others)

    return wrapped


class _Wait(click.ParamType[float]):
    """Seconds, written as in Go (``1m30s``) or as a bare number."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        text = str(value)
        try:
            seconds = float(text) if text[-1:].isdecimal() else parse_duration(text) / SECOND
        except (InvalidValue, ValueError):
            self.fail(f"{text!r} is no duration; write it as in 60s or 1m30s", param, ctx)
        if not 0 <= seconds < float("inf"):
            self.fail(f"{text!r} is no time to wait", param, ctx)
        return seconds


def wait_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare whether and how long to wait; it arrives as ``wait`` and ``timeout``."""
    wait = click.option("-W", "--wait", is_flag=True, help="Wait until it is done.")
    timeout = click.option(
        "-T",
        "--wait-timeout",
        "timeout",
        type=_Wait(),
        default="120s",
        show_default=True,
        metavar="DURATION",
        help="Longest time to wait, such as 90s or 2m; a bare number is seconds.",
    )
    return wait(timeout(command))


def on_cluster(
    kubeconfig: str | None, context: str | None, work: Callable[[Client], Awaitable[int]]
) -> int:
    """Do *work* with a client; return what it returns."""
    cluster = replace(current_cluster(), kubeconfig=kubeconfig, context=context)

    async def on_client() -> int:
        async with connected(cluster, user_agent="numakube-deployer", patient=True) as client:
            return await work(client)

    return asyncio.run(on_client())


class WaitProgress:
    """Says what is being waited for: in place on a terminal, once each elsewhere."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, text: str) -> None:
        """Say it, unless it was said last."""
        if text == self._last:
            return
        self._last = text
        if sys.stderr.isatty():
            click.echo(f"\r\033[Kwaiting: {text}", nl=False, err=True)
        else:
            click.echo(f"waiting: {text}", err=True)

    def end(self) -> None:
        """Leave the line."""
        if self._last and sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)
