"""The admission webhook as a process: answers API servers, and tells them whom to trust."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import structlog

from numakube.apps.host.access import Access
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.metrics import new_registry
from numakube.apps.host.serving import Health, Serving
from numakube.apps.webhook.endpoints import MAX_BODY_BYTES, Endpoint
from numakube.apps.webhook.metrics import WebhookMetrics
from numakube.apps.webhook.registration import Registration
from numakube.kube.connect import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.host.surroundings import Surroundings
    from numakube.kube.client import Client

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def run(values: Mapping[str, Any], around: Surroundings, stop: asyncio.Event) -> int:
    """Answer until *stop* is set; return the exit code.

    Args:
        values: the settings.
        around: clock, environment and file system.
        stop: set when the process is to end.
    """
    registry = new_registry("webhook")
    metrics, health = WebhookMetrics(registry), Health()
    async with AsyncExitStack() as stack:
        client = await _client(values, around, stack)
        registration = _registration(values, around, client)
        if registration is not None:
            health.ready("registration", lambda: registration.trouble)
        listen = around.placed(listen_of(values, locate=around.locate))
        server = await stack.enter_async_context(
            Serving(
                listen,
                health=health,
                registry=registry,
                access=None if client is None else Access(client, host=listen.host),
                routes=Endpoint(metrics, around.clock).routes(),
                max_body_bytes=MAX_BODY_BYTES,
            )
        )
        _log.info("serving", url=server.url)
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(_keep(registration, metrics, around, values["interval"]))
            await stop.wait()
            keeping.cancel()
    return 0


async def _keep(
    registration: Registration | None,
    metrics: WebhookMetrics,
    around: Surroundings,
    seconds: float,
) -> None:
    """See to it that API servers know the authority, again and again."""
    while registration is not None:
        await registration.renew()
        metrics.registered.set(not registration.trouble)
        await around.clock.sleep(seconds)


async def _client(
    values: Mapping[str, Any], around: Surroundings, stack: AsyncExitStack
) -> Client | None:
    """Return a client of the cluster, if there is anything to do there."""
    if not values["ca_file"]:
        return None
    config = cluster_of(values, env=around.env, root=around.root)
    return await stack.enter_async_context(
        connect(config, clock=around.clock, env=around.env, user_agent="numakube-webhook")
    )


def _registration(
    values: Mapping[str, Any], around: Surroundings, client: Client | None
) -> Registration | None:
    if client is None:
        return None
    return Registration(client, values["configuration"], around.locate(values["ca_file"]))
