"""The pages: from a request to HTML."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from numakube.errors import InvalidValue
from numakube.insight.node_map.map_words import connections_of
from numakube.insight.usage.zone_usage import NO_LABEL
from numakube.values.display import (
    age_text,
    amount_text,
    held_quantities_text,
    lack_text,
    quantity_text,
    zones_text,
)
from numakube.values.resources import CPU, MEMORY
from numakube.values.times import parse_time
from numakube.version import VERSION
from numakube_pages import node_rows as row_facts
from numakube_pages.drawing.svg import svg_style
from numakube_pages.explain_view import Explainer
from numakube_pages.heatmap import MEASURES, USED
from numakube_pages.node_rows import grouping_labels, natural, wanted
from numakube_pages.node_view import (
    ages_of,
    drawing_of,
    node_view,
    orphans_of,
    picture_of,
    report_line,
)
from numakube_pages.overview import groups_of, overview_of, totals_of
from numakube_pages.page_source import phase_of
from numakube_pages.pod_view import group_by_reason, pod_view, waiting_gangs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from numakube.api.codec import Timestamp
    from numakube.api.pod import Pod
    from numakube_pages.explain_view import Room
    from numakube_pages.history_view import History
    from numakube_pages.node_rows import NodeRow
    from numakube_pages.page_source import Source


PODS_OF_A_GROUP: Final = 20
NODES_FOUND: Final = 20
LATEST: Final = 3
SPANS: Final = (7, 30, 90)
"""Days of history that a reader can choose."""
REFRESH: Final = "X-Numakube-Refresh"
"""Sent by a page that is open already and wants its live parts only."""
_YEAR: Final = "public, max-age=31536000, immutable"


class Pages:
    """Answers requests for pages from one source."""

    def __init__(
        self, source: Source, *, prefix: str, title: str, history: History | None = None
    ) -> None:
        self._source = source
        self._prefix = prefix
        self._title = title
        self._history = history
        self._explainer = Explainer(source)

    async def overview(self, request: web.Request) -> web.Response:
        """The first page."""
        await self._source.learn_ages()
        rows, inside = await self._source.zone_book.rows(), self._source.inside
        wish = TableWish.of(request.query)
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
        rows, wish = await self._source.zone_book.rows(), TableWish.of(request.query)
        return self._page("nodes.html", topic="", **self._node_values(rows, wish, None))

    async def search(self, request: web.Request) -> web.Response:
        """Nodes and pods whose names have something in common."""
        wish = TableWish.of(request.query)
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
        part = self._pod_part(TableWish.of(request.query))
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
        queue = {waiting.pod: waiting for waiting in inside.waiting()} if inside else {}
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
        wish, source = TableWish.of(request.query), self._source
        await source.learn_ages()
        rows = list(filter(wanted(wish.text), await source.zone_book.rows()))
        part = part_of(
            rows,
            wish,
            orders={
                "name": lambda row: natural(row.name),
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

    async def history(self, request: web.Request) -> web.Response:
        """Days of the cluster, as far as something has recorded them."""
        asked = request.query.get("days", "")
        days = next((span for span in SPANS if str(span) == asked), SPANS[0])
        found = None if self._history is None else await self._history.view(days)
        return self._page("history.html", topic="-", found=found, days=days, spans=SPANS)

    async def heat(self, request: web.Request) -> web.Response:
        """The map of one resource, as JSON."""
        resource = request.query.get("resource", CPU)
        measure = request.query.get("measure", USED)
        book = self._source.zone_book
        return _json(await book.heat(resource, measure if measure in MEASURES else USED))

    async def fits(self, request: web.Request) -> web.Response:
        """How many pods of a shape fit on each node, as JSON."""
        shape = TableWish.of(request.query).shape
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
        self, rows: Sequence[NodeRow], wish: TableWish, room: Room | None
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
        self, rows: Sequence[NodeRow], wish: TableWish, fits: Mapping[str, int]
    ) -> TablePage[NodeRow]:
        book = self._source.pod_book
        return part_of(
            rows,
            wish,
            orders={
                "name": lambda row: natural(row.name),
                "cpu": lambda row: _used(row, CPU),
                "memory": lambda row: _used(row, MEMORY),
                "largest": lambda row: row.uses[CPU].largest if CPU in row.uses else -1,
                "pods": lambda row: book.count_on(row.name),
                "fits": lambda row: fits.get(row.name, 0),
                "trouble": lambda row: -row.flags,
            },
        )

    def _pod_part(self, wish: TableWish) -> TablePage[Pod]:
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


# Long tables in pages: what a reader asked for by the address, and the part that is shown.


ROWS = 50
_LONGEST_QUERY = 200
_LONGEST_LABEL = 400
_LONGEST_SHAPE = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWish:
    """What a reader wants to see of a table: ``?q=gpu&sort=-pods&page=2``.

    Attributes:
        group: a label that nodes are added up by.
        shape: a pod of which is to be said how many fit.
    """

    text: str = ""
    sort: str = ""
    page: int = 1
    group: str = ""
    shape: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> TableWish:
        """Return what the query of an address asks for; nonsense asks for nothing."""
        page = query.get("page", "")
        sensible = page.isascii() and page.isdecimal() and len(page) < len("1000000")
        return cls(
            text=query.get("q", "").strip()[:_LONGEST_QUERY],
            sort=query.get("sort", "")[:_LONGEST_QUERY],
            page=max(int(page), 1) if sensible else 1,
            group=query.get("group", "").strip()[:_LONGEST_LABEL],
            shape=query.get("shape", "").strip()[:_LONGEST_SHAPE],
        )

    @property
    def address(self) -> str:
        """The query of an address that asks for this."""
        page = str(self.page) if self.page > 1 else ""
        fields = {
            "q": self.text,
            "sort": self.sort,
            "page": page,
            "group": self.group,
            "shape": self.shape,
        }
        return "?" + urlencode({name: value for name, value in fields.items() if value})

    def only(self, label: str, value: str) -> str:
        """Return the address for the nodes with one value of a label."""
        value = "" if value == NO_LABEL else value
        return replace(self, text=f"{label}={value}", group="", page=1).address

    def named(self) -> str:
        """Return the address for the same text in another table."""
        return TableWish(text=self.text).address

    def turned(self, page: int) -> str:
        """Return the address of another page."""
        return replace(self, page=page).address

    def sorted_by(self, column: str, *, descending: bool = False) -> str:
        """Return the address for an order; the one that is in force is turned round."""
        first, second = (f"-{column}", column) if descending else (column, f"-{column}")
        return replace(self, sort=second if self.sort == first else first, page=1).address

    def direction(self, column: str) -> str:
        """Return how a column is sorted, in the words of ``aria-sort``."""
        if self.sort == column:
            return "ascending"
        return "descending" if self.sort == f"-{column}" else "none"


@dataclass(frozen=True, slots=True)
class TablePage(Generic[T]):
    """One page of a table."""

    rows: Sequence[T]
    total: int
    page: int
    pages: int
    wish: TableWish

    @property
    def first(self) -> int:
        """The number of the first row, from 1."""
        return (self.page - 1) * ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row."""
        return (self.page - 1) * ROWS + len(self.rows)


def part_of(
    rows: Sequence[T],
    wish: TableWish,
    *,
    orders: Mapping[str, Callable[[T], object]],
    default: str = "",
    rows_a_page: int = ROWS,
) -> TablePage[T]:
    """Return the page of *rows* that is wished for, in the wished order.

    Args:
        rows: all of them, in the order that needs no sorting.
        wish: the wish.
        orders: keys by column; an unknown column is no wish.
        default: the order without a wish.
        rows_a_page: how many there are on a page.
    """
    sort = wish.sort if wish.sort.removeprefix("-") in orders else default
    if sort:
        key: Callable[[T], object] = orders[sort.removeprefix("-")]
        rows = sorted(rows, key=key, reverse=sort.startswith("-"))  # type: ignore[arg-type]
    pages = max(-(-len(rows) // rows_a_page), 1)
    page = min(wish.page, pages)
    start = (page - 1) * rows_a_page
    shown = rows[start : start + rows_a_page]
    return TablePage(shown, len(rows), page, pages, replace(wish, page=page, sort=sort))


# The files that pages are made from: templates, style sheets and scripts.
#
# In templates everything that comes from a cluster is escaped, without exception. Style sheets and
# scripts are read once and are all below one folder, whose name is a hash of everything in it:
# browsers keep them, scripts import each other by relative names, and a new version of any is a new
# folder.
#
# Images may leave Jinja2 out: processes that can do without the dashboard import this module only
# when they serve it.


TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
DRAWING_STYLE: Final = "drawing.css"
_UNKNOWN: Final = "\N{EN DASH}"


@cache
def environment() -> Environment:
    """Return where the templates are."""
    made = Environment(
        loader=PackageLoader("numakube_pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["amount"] = amount
    made.filters["held"] = held_quantities_text
    made.filters["zones"] = zones_text
    made.filters["quantity"] = lambda text, resource: quantity_text(resource, text)
    made.filters["lack"] = lambda text, resource: lack_text(resource, text)
    made.filters["breakable"] = breakable
    made.filters["seconds"] = seconds_text
    made.filters["moment"] = moment_text
    made.filters["segment"] = lambda text: quote(str(text), safe="")
    made.globals["numakube_version"] = VERSION
    return made


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template names
    """Return a page."""
    return environment().get_template(template).render(values)


def amount(value: int | None, resource: str) -> str:
    """Return an amount of a resource for people."""
    if value is None:
        return _UNKNOWN
    text = amount_text(resource, value)
    return f"{int(text):,}" if text.isdecimal() else text


def breakable(name: str) -> Markup:
    """Return a long name that may be broken where its parts meet."""
    return Markup("/<wbr>").join(escape(part) for part in name.split("/"))


def seconds_text(seconds: float | None) -> str:
    """Return a span of time for people."""
    return _UNKNOWN if seconds is None else age_text(max(seconds, 0))


def moment_text(moment: Timestamp | None) -> str:
    """Return a moment for people, in UTC; one that cannot be read as it is."""
    if not moment:
        return _UNKNOWN
    try:
        time = parse_time(moment)
    except InvalidValue:
        return moment
    fraction = f".{time.microsecond // 1000:03}" if "." in moment else ""
    return f"{time:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def seconds_since(moment: Timestamp | None, now: datetime) -> float | None:
    """Return how long ago a moment was; ``None`` if it is not known."""
    if not moment:
        return None
    try:
        return (now - parse_time(moment)).total_seconds()
    except InvalidValue:
        return None


@dataclass(frozen=True, slots=True)
class Assets:
    """The files, by name, and the folder that they are served under."""

    folder: str
    contents: Mapping[str, bytes]


@cache
def load_assets() -> Assets:
    """Return everything that pages refer to."""
    contents = {
        entry.name: entry.read_bytes()
        for entry in files(__package__).joinpath("static").iterdir()
        if entry.name.rpartition(".")[2] in TYPES
    }
    contents[DRAWING_STYLE] = svg_style().encode()
    digest = blake2b(digest_size=8)
    for name in sorted(contents):
        digest.update(name.encode() + b"\0" + contents[name] + b"\0")
    return Assets(digest.hexdigest(), contents)


def type_of(name: str) -> str:
    """Return the media type of a file."""
    return TYPES[name.rpartition(".")[2]]
