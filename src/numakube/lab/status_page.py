"""A page that shows the lab's nodes, zone by zone, and the same as plain data for commands."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from numakube.lab.nodes.pool import NODE_INDEX
from numakube.values.quantity import Quantity

if TYPE_CHECKING:
    from types import TracebackType

    from numakube.api.core import Pod
    from numakube.kubelet.node import KubeletNode
    from numakube.lab.nodes.kubelet import LabKubelet
    from numakube.lab.nodes.pool import NodePool

# How the kubelet begins the message of a pod that it refused.
REJECTED_PREFIX = "Pod was rejected: "

_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { margin: 2rem; } table { border-collapse: collapse; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


class StatusPage:
    """Serves the page; it reloads itself every few seconds."""

    def __init__(self, pool: NodePool, *, host: str = "127.0.0.1") -> None:
        self._pool = pool
        self._host = host
        application = web.Application()
        application.add_routes([web.get("/", self._page), web.get("/nodes.json", self._data)])
        self._runner = web.AppRunner(application, handle_signals=False, access_log=None)
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    async def _page(self, _: web.Request) -> web.Response:
        rows = "".join(map(_row, node_summaries(self._pool)))
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return web.Response(
            text=(
                '<!doctype html><html lang="en"><meta charset="utf-8">'
                '<meta http-equiv="refresh" content="5"><title>numakube lab</title>'
                f"<style>{_STYLE}</style><h1>numakube lab</h1><table><thead><tr><th>Node"
                "<th>State<th>Policy<th>Scope<th>Pods<th>Rejected<th>NUMA node<th>CPUs free"
                f"<th>Memory free<th>Devices free</tr></thead><tbody>{rows}</tbody></table></html>"
            ),
            content_type="text/html",
            headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"},
        )

    async def _data(self, _: web.Request) -> web.Response:
        return web.json_response(node_summaries(self._pool))


def node_summaries(pool: NodePool) -> list[dict[str, Any]]:
    """Return every node's state, with what is free on each of its NUMA nodes."""
    return [
        _summary(kubelet, rejected=sum(map(_is_rejected, pool.pods.select(NODE_INDEX, name))))
        for name, kubelet in pool.kubelets.items()
    ]


def _is_rejected(pod: Pod) -> bool:
    message = pod.status.message if pod.status else ""
    return bool(message) and message.startswith(REJECTED_PREFIX)


def _summary(kubelet: LabKubelet, *, rejected: int) -> dict[str, Any]:
    admission = kubelet.admission
    model = admission.model if admission else None
    config = kubelet.plan.config
    cpus = model.cpus if model else None
    return {
        "name": kubelet.name,
        "state": kubelet.state.value,
        "policy": config.topology_manager_policy or "none",
        "scope": config.topology_manager_scope or "container",
        "pods": len(list(admission.pods)) if admission else 0,
        "rejected": rejected,
        "exclusiveCpus": (cpus.allocatable & ~cpus.shared).bit_count() if cpus else 0,
        "allocatableCpus": cpus.allocatable.bit_count() if cpus else 0,
        "zones": _zones(model) if model else [],
    }


def _zones(model: KubeletNode) -> list[dict[str, Any]]:
    cpus = model.cpus.free_by_node("cpu") if model.cpus else {}
    memory = model.memory.free_by_node("memory") if model.memory else {}
    devices = {name: model.devices.free_by_node(name) for name in model.devices.resources()}
    return [
        {
            "id": node.id,
            "cpusFree": cpus.get(node.id),
            "memoryFreeBytes": memory.get(node.id),
            "devicesFree": {name: free.get(node.id, 0) for name, free in devices.items()},
        }
        for node in model.machine.nodes
    ]


def _row(node: dict[str, Any]) -> str:
    """Return the table rows of a node, one a NUMA node."""
    zones = node["zones"] or [{}]
    head = "".join(
        f'<td rowspan="{len(zones)}">{escape(str(node[key]))}</td>'
        for key in ("name", "state", "policy", "scope", "pods", "rejected")
    )
    return "".join(
        f"<tr>{head if index == 0 else ''}{_zone_cells(zone)}</tr>"
        for index, zone in enumerate(zones)
    )


def _zone_cells(zone: dict[str, Any]) -> str:
    memory = zone.get("memoryFreeBytes")
    devices = zone.get("devicesFree") or {}
    texts = (
        str(zone.get("id", "")),
        _text(zone.get("cpusFree")),
        "-" if memory is None else str(Quantity.of_bytes(memory)),
        ", ".join(f"{count} {name}" for name, count in devices.items()) or "-",
    )
    return "".join(f'<td class="number">{escape(text)}</td>' for text in texts)


def _text(value: int | None) -> str:
    return "-" if value is None else str(value)
