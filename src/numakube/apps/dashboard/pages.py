"""The pages: from a request to HTML."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube.apps.dashboard import node_rows as row_facts
from numakube.apps.dashboard.dashboard_pods import phase_of
from numakube.apps.dashboard.explain_view import Explainer
from numakube.apps.dashboard.heatmap_colours import MEASURES, USED
from numakube.apps.dashboard.node_filters import grouping_labels, wanted
from numakube.apps.dashboard.node_view import drawing_of, node_view, picture_of
from numakube.apps.dashboard.overview import groups_of, overview_of, totals_of
from numakube.apps.dashboard.page_files import load_assets, render, seconds_since, type_of
from numakube.apps.dashboard.paged_tables import Wish, part_of
from numakube.apps.dashboard.pending_view import group_by_reason, waiting_gangs
from numakube.apps.dashboard.pod_view import pod_view
from numakube.apps.dashboard.reports_view import ages_of, orphans_of, report_line
from numakube.insight.drawing.connection_matrix import connections_of
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.apps.dashboard.explain_view import Room
    from numakube.apps.dashboard.node_rows import NodeRow
    from numakube.apps.dashboard.page_source import Source
    from numakube.apps.dashboard.paged_tables import Part

PODS_OF_A_GROUP: Final = 20
NODES_FOUND: Final = 20
LATEST: Final = 3
REFRESH: Final = "X-Numakube-Refresh"
"""Sent by a page that is open already and wants its live parts only."""
_YEAR: Final = "public, max-age=31536000, immutable"


class Pages:
    """Answers requests for pages from one source."""

    def __init__(self, source: Source, *, prefix: str, title: str) -> None:
        self._source = source
        self._prefix = prefix
        self._title = title
        self._explainer = Explainer(source)

    async def overview(self, request: web.Request) -> web.Response:
        """The first page."""
        await self._source.learn_ages()
        rows, inside = await self._source.zone_book.rows(), self._source.inside
        wish = Wish.of(request.query)
        room = await self._room(request, wish.shape)
        return self._page(
            "overview.html",
            topic="",
            overview=overview_of(self._source, rows),
            ages=ages_of(self._source, [row.name for row in rows]),
            missed=list(inside.mispredictions())[:LATEST] if inside else [],
            measures=MEASURES,
            asked_ago=0.0 if room is None else self._source.clock.monotonic() - room.at,
            **self._node_values(rows, wish, room),
        )

    async def nodes(self, request: web.Request) -> web.Response:
        """All nodes in a table."""
        rows, wish = await self._source.zone_book.rows(), Wish.of(request.query)
        return self._page("nodes.html", topic="", **self._node_values(rows, wish, None))

    async def search(self, request: web.Request) -> web.Response:
        """Nodes and pods whose names have something in common."""
        wish = Wish.of(request.query)
        rows = [row for row in await self._source.zone_book.rows() if wish.text in row.name]
        return self._page(
            "search.html",
            topic="",
            nodes=rows[:NODES_FOUND] if wish.text else [],
            nodes_total=len(rows),
            part=self._pod_part(wish),
            pods_on=self._source.pod_book.count_on,
            phase_of=phase_of,
        )

    async def node(self, request: web.Request) -> web.Response:
        """One node."""
        await self._source.learn_ages()
        name = request.match_info["name"]
        found = node_view(self._source, name)
        if found is None:
            return self.message(f"There is no node {name}.", status=404)
        picture = picture_of(self._source, name)
        return self._page(
            "node.html",
            topic=f"node/{name}",
            found=found,
            picture=picture,
            drawing=None if picture is None else drawing_of(picture, prefix=self._prefix),
            connections=None if picture is None else connections_of(picture),
        )

    async def pods(self, request: web.Request) -> web.Response:
        """All pods in a table."""
        part = self._pod_part(Wish.of(request.query))
        return self._page("pods.html", topic="", part=part, phase_of=phase_of)

    async def pod(self, request: web.Request) -> web.Response:
        """One pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = pod_view(self._source, namespace, name)
        if found is None:
            return self.message(f"There is no pod {namespace}/{name}.", status=404)
        explanation = None
        if REFRESH not in request.headers and (
            "explain" in request.query or self._explainer.is_cheap()
        ):
            explanation = await self._explainer.explain(found.pod)
        return self._page(
            "pod.html", topic=f"pod/{namespace}/{name}", found=found, explanation=explanation
        )

    async def pending(self, _: web.Request) -> web.Response:
        """Waiting pods by reason, and pods that kubelets refused."""
        book, inside = self._source.pod_book, self._source.inside
        queue = {one.pod: one for one in inside.waiting()} if inside else {}
        refused = sorted(book.refused.values(), key=_newest_first, reverse=True)
        return self._page(
            "pending.html",
            topic="",
            groups=group_by_reason(book.waiting.values()),
            waiting=len(book.waiting),
            queue=queue,
            gangs=waiting_gangs(queue.values(), book.waiting),
            refused=refused[:PODS_OF_A_GROUP],
            refused_by_reason=Counter(
                pod.status.reason for pod in refused if pod.status is not None
            ).most_common(),
            shown=PODS_OF_A_GROUP,
        )

    async def mispredictions(self, _: web.Request) -> web.Response:
        """Predictions that did not come true."""
        inside = self._source.inside
        refused = sorted(self._source.pod_book.refused.values(), key=_newest_first, reverse=True)
        return self._page(
            "mispredictions.html",
            topic="",
            missed=list(inside.mispredictions()) if inside else None,
            refused=refused[:PODS_OF_A_GROUP],
            refused_total=len(refused),
        )

    async def caches(self, request: web.Request) -> web.Response:
        """How fresh the reports are, and whether they are of the pods we know."""
        wish, source = Wish.of(request.query), self._source
        await source.learn_ages()
        rows = list(filter(wanted(wish.text), await source.zone_book.rows()))
        part = part_of(
            rows,
            wish,
            orders={
                "name": lambda row: row_facts.natural(row.name),
                "age": lambda row: age.seconds if (age := source.report_age(row.name)) else 0.0,
                "trouble": lambda row: -row.flags,
            },
            default="trouble",
        )
        return self._page(
            "caches.html",
            topic="",
            part=part,
            lines=[report_line(source, row.name) for row in part.rows],
            ages=ages_of(source, [row.name for row in rows]),
            orphans=orphans_of(source),
        )

    async def heat(self, request: web.Request) -> web.Response:
        """The map of one resource, as JSON."""
        resource = request.query.get("resource", CPU)
        measure = request.query.get("measure", USED)
        book = self._source.zone_book
        return _json(await book.heat(resource, measure if measure in MEASURES else USED))

    async def fits(self, request: web.Request) -> web.Response:
        """How many pods of a shape fit on each node, as JSON."""
        shape = Wish.of(request.query).shape
        room = await self._explainer.room_for(shape, keep=True)
        if room.problem:
            return _json({"shape": shape, "problem": room.problem}, status=400)
        return _json({"shape": shape, "total": room.total, "nodes": room.nodes})

    async def asset(self, request: web.Request) -> web.Response:
        """A style sheet or a script."""
        assets, name = load_assets(), request.match_info["name"]
        content = assets.contents.get(name)
        if content is None or request.match_info["folder"] != assets.folder:
            raise web.HTTPNotFound(text=f"there is no {name} of this version\n")
        response = web.Response(body=content, content_type=type_of(name), charset="utf-8")
        response.headers["Cache-Control"] = _YEAR
        return response

    async def nowhere(self, _: web.Request) -> web.Response:
        """The page for addresses that there are not."""
        return self.message("There is no such page.", status=404)

    def message(self, text: str, *, status: int) -> web.Response:
        """A page that says one thing."""
        return self._page("message.html", topic="-", status=status, text=text)

    def login(self, *, target: str, wrong: bool = False) -> web.Response:
        """The page that asks for a token."""
        status = 403 if wrong else 200
        return self._page("login.html", topic="-", status=status, target=target, wrong=wrong)

    async def _room(self, request: web.Request, shape: str) -> Room | None:
        if not shape:
            return None
        return await self._explainer.room_for(shape, keep=REFRESH in request.headers)

    def _node_values(
        self, rows: Sequence[NodeRow], wish: Wish, room: Room | None
    ) -> dict[str, Any]:
        """Return what a table of nodes is made from."""
        book, labels = self._source.pod_book, grouping_labels(rows)
        shown = list(filter(wanted(wish.text), rows))
        fits = None if room is None or room.problem else room.nodes
        groups = groups_of(shown, wish.group, pods_on=book.count_on, fits=fits or {})
        return {
            "part": self._node_part(shown, wish, fits or {}),
            "groups": groups if wish.group else [],
            "labels": labels,
            "room": room,
            "fits": fits,
            "resources": [total.name for total in totals_of(rows)] or [CPU],
            "pods_on": book.count_on,
            "flags": row_facts,
        }

    def _node_part(
        self, rows: Sequence[NodeRow], wish: Wish, fits: Mapping[str, int]
    ) -> Part[NodeRow]:
        book = self._source.pod_book
        return part_of(
            rows,
            wish,
            orders={
                "name": lambda row: row_facts.natural(row.name),
                "cpu": lambda row: _used(row, CPU),
                "memory": lambda row: _used(row, MEMORY),
                "largest": lambda row: row.uses[CPU].largest if CPU in row.uses else -1,
                "pods": lambda row: book.count_on(row.name),
                "fits": lambda row: fits.get(row.name, 0),
                "trouble": lambda row: -row.flags,
            },
        )

    def _pod_part(self, wish: Wish) -> Part[Pod]:
        book = self._source.pod_book
        pods = [*book.waiting.values(), *book.placed()]
        return part_of(
            [pod for pod in pods if wish.text in pod.metadata.key],
            wish,
            orders={
                # There may be a hundred thousand: no order that has to be computed.
                "name": lambda pod: (pod.metadata.namespace, pod.metadata.name),
                "node": lambda pod: pod.spec.node_name,
                "phase": phase_of,
                "age": lambda pod: pod.metadata.creation_timestamp or "",
            },
            default="name",
        )

    def _page(self, template: str, *, status: int = 200, **values: Any) -> web.Response:  # noqa: ANN401
        source = self._source
        now = source.clock.now()
        text = render(
            template,
            prefix=self._prefix,
            static=f"{self._prefix}static/{load_assets().folder}",
            title=self._title,
            role=source.inside.role if source.inside else "",
            frozen_at=source.frozen_at,
            missing=source.missing(),
            page=template.removesuffix(".html"),
            since=lambda moment: seconds_since(moment, now),
            **values,
        )
        response = web.Response(text=text, status=status, content_type="text/html")
        response.headers["Cache-Control"] = "no-store"
        response.enable_compression()
        return response


def _json(content: object, *, status: int = 200) -> web.Response:
    body = msgspec.json.encode(content)
    response = web.Response(body=body, status=status, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    response.enable_compression()
    return response


def _used(row: NodeRow, resource: str) -> int:
    use = row.uses.get(resource)
    return -1 if use is None else use.used_percent


def _newest_first(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""
