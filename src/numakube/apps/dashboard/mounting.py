"""The dashboard in a process that serves other things: a scheduler or an extender.

It costs nothing until a page is opened: only then does it subscribe to the process' stores. Pages
need an extra that such a process may lack; then a line of text stands in their place.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from numakube.apps.dashboard.page_source import Source
from numakube.apps.dashboard.watched_source import missing_of, report_dates
from numakube.apps.host.endpoint_access import Access

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.dashboard.scheduler_view import Inside
    from numakube.kube.client import Client

    Mounted: TypeAlias = tuple[list[web.RouteDef], Callable[[], None]]

PREFIX: Final = "/dashboard/"
TEMPLATES: Final = ("jinja2", "markupsafe")
"""What pages are made with; the one brings the other."""
MISSING: Final = "the dashboard needs Jinja2: pip install 'numakube[web]'\n"


def mounted(client: Client, mirror: Mirror, inside: Inside, *, host: str) -> Mounted:
    """Return the routes of a dashboard, and what ends it; to be called before the server ends.

    Args:
        client: the API server, which knows who may look.
        mirror: the cluster as the process sees it.
        inside: what the process knows besides.
        host: where the process listens.
    """
    try:
        from numakube.apps.dashboard.dashboard import Dashboard
    except ModuleNotFoundError as error:
        if error.name not in TEMPLATES:
            raise
        return [web.get(PREFIX, _explain), web.get(PREFIX.rstrip("/"), _explain)], _nothing
    from numakube.apps.dashboard.page_access import Gate

    gate = Gate(client.clock, host=host, path=PREFIX, access=Access(client, host=host))
    dashboard = Dashboard(source_of(client, mirror, inside), gate=gate)
    return dashboard.routes(), dashboard.close


def source_of(client: Client, mirror: Mirror, inside: Inside) -> Source:
    """Return what the process knows, for those who show or explain it."""
    return Source(
        nodes=mirror.nodes.store,
        pods=mirror.pods.store,
        topologies=mirror.reports,
        clock=client.clock,
        devices=mirror.stores,
        inside=inside,
        missing=lambda: missing_of((mirror.nodes, mirror.topologies, mirror.pods)),
        dates=partial(report_dates, client),
    )


async def _explain(_: web.Request) -> web.Response:
    return web.Response(status=501, text=MISSING)


def _nothing() -> None:
    """End nothing."""
