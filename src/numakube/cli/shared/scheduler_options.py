"""Commands that look inside schedulers: the options they share, and the documents they get.

Documents come from running programs (`numakube.apps.debug_client`) or from a bundle (``--from``).
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from numakube.cli.shared.connection_options import connected
from numakube.errors import ConfigError, NotFound, NumakubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.debug_client import Reached
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.kube.resource_types import ObjectKey

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSchedulers:
    """Which schedulers a command asks."""

    urls: tuple[str, ...] = ()
    selector: str = ""
    authority: str = ""
    token_file: str = ""

    def token(self) -> str:
        """Return what to show to a URL; empty if nothing."""
        if not self.token_file:
            return ""
        return Path(self.token_file).read_text(encoding="utf-8").strip()


def scheduler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare where schedulers are; it arrives as ``schedulers``."""

    @click.option(
        "--scheduler-url",
        "urls",
        metavar="URL",
        multiple=True,
        help="Ask this scheduler or extender directly, not through the API server.",
    )
    @click.option(
        "--scheduler-selector",
        default="",
        metavar="SELECTOR",
        help="Labels of the pods to ask, if they are not the usual ones.",
    )
    @click.option(
        "--scheduler-ca",
        default="",
        metavar="FILE",
        help="Authority of the certificate behind --scheduler-url.",
    )
    @click.option(
        "--scheduler-token-file",
        default="",
        metavar="FILE",
        help="Bearer token for --scheduler-url.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: object,
        urls: tuple[str, ...],
        scheduler_selector: str,
        scheduler_ca: str,
        scheduler_token_file: str,
        **others: object,
    ) -> object:
        options = AskedSchedulers(
            urls=urls,
            selector=scheduler_selector,
            authority=scheduler_ca,
            token_file=scheduler_token_file,
        )
        return command(*args, schedulers=options, **others)

    return wrapped


@asynccontextmanager
async def reached(
    cluster: ClusterOptions, schedulers: AskedSchedulers
) -> AsyncIterator[tuple[Reached, ...]]:
    """Give every scheduler and extender that can be asked.

    Raises:
        ConfigError: there is none; it says why.
    """
    from numakube.apps.debug_client import reach_schedulers
    from numakube.manifests.cluster_policies import SELECTOR

    async with connected(cluster) as client:
        found = await reach_schedulers(
            client,
            urls=schedulers.urls,
            selector=schedulers.selector or SELECTOR,
            authority=schedulers.authority,
            token=schedulers.token(),
        )
        try:
            yield _usable(found)
        finally:
            for one in found:
                await one.aclose()


async def asked_as_tenant(
    cluster: ClusterOptions, schedulers: AskedSchedulers, pod: ObjectKey
) -> Document:
    """Return what a scheduler explains of *pod* to a user who may read it, but not the cluster.

    Raises:
        NumakubeError: none can be asked; it says why.
    """
    from numakube.apps.debug_client import ask_as_tenant
    from numakube.manifests.cluster_policies import SELECTOR

    async with connected(cluster) as client:
        body = await ask_as_tenant(
            client,
            pod,
            urls=schedulers.urls,
            selector=schedulers.selector or SELECTOR,
            authority=schedulers.authority,
            token=schedulers.token(),
        )
        document: Document = msgspec.json.decode(body)
        return document


def _usable(found: tuple[Reached, ...]) -> tuple[Reached, ...]:
    usable = tuple(one for one in found if not one.trouble)
    for one in found:
        if one.trouble and usable:
            click.echo(f"warning: {one.name} cannot be asked: {one.trouble}", err=True)
    if usable:
        return usable
    if found:
        raise ConfigError(f"no scheduler can be asked: {_reasons(found)}")
    raise ConfigError(
        "there is no pod of a numakube scheduler or extender that runs; "
        "name one by --scheduler-url or --scheduler-selector"
    )


def _reasons(found: tuple[Reached, ...]) -> str:
    """Return why none of them can be asked, equal reasons once."""
    names: dict[str, list[str]] = {}
    for one in found:
        names.setdefault(one.trouble, []).append(one.name)
    return "; ".join(": ".join(filter(None, (", ".join(who), why))) for why, who in names.items())


def documents_for(
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    file: str,
    path: str,
    query: Mapping[str, str] | None = None,
) -> dict[str, Document]:
    """Return what each program says at *path*, or said in the *file* of a bundle, by its name.

    Raises:
        ConfigError: none can be asked, or the bundle has nothing of any.
    """
    if not cluster.live:
        return bundled(cluster, file)
    return asyncio.run(_asked(cluster, schedulers, path, query))


async def _asked(
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    path: str,
    query: Mapping[str, str] | None,
) -> dict[str, Document]:
    async with reached(cluster, schedulers) as found:
        return await ask_all(found, path, query)


async def ask_all(
    found: tuple[Reached, ...], path: str, query: Mapping[str, str] | None = None
) -> dict[str, Document]:
    """Return what each of *found* says at *path*; those that have nothing are left out."""
    answers: dict[str, Document] = {}
    for one in found:
        try:
            answers[one.name] = msgspec.json.decode(await one.get(path, query))
        except NotFound:
            continue
        except NumakubeError as error:
            click.echo(f"warning: {one.name}: {error}", err=True)
    return answers


def bundled(cluster: ClusterOptions, file: str) -> dict[str, Document]:
    """Return the documents of that name in a bundle, by scheduler."""
    from numakube.cli.shared.cluster_options import collected_for

    found: dict[str, Document] = {}
    for name, body in collected_for(cluster).files.items():
        match name.split("/"):
            case ["scheduler", scheduler, last] if last == f"{file}.json":
                found[scheduler] = msgspec.json.decode(body)
            case _:
                pass
    if not found:
        raise ConfigError(f"the bundle {cluster.bundle} has no {file} of any scheduler")
    return found


def leads(document: Document) -> bool:
    """Tell whether who said *document* is the one that works, rather than one that stands by."""
    return bool((document.get("speaker") or {}).get("leads"))


def leading(documents: Mapping[str, Document]) -> dict[str, Document]:
    """Return the documents of those who lead (one of each scheduler), or of anybody."""
    found = {name: document for name, document in documents.items() if leads(document)}
    return found or dict(list(documents.items())[:1])


def configuration_in_file(path: str | None) -> KubeSchedulerConfiguration | None:
    """Return the scheduler's configuration in the file *path*, if one is named."""
    if path is None:
        return None
    from numakube.apps.scheduler.settings import configuration_of

    return configuration_of({"config": path}, Path)
