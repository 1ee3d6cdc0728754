"""Traces reach a collector over OTLP, and cost no scheduling when it is away."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from numakube.apps.debugging.annex_endpoints import ServingProgram
from numakube.apps.flight_recording import Recording
from numakube.testing import pod_document, until
from numakube_lab.testing import lab_cluster
from numakube_tracing.collector import is_wanted
from numakube_tracing.endpoint import Follower, Traces, make

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass
class Collector:
    """What a collector has received."""

    url: str = ""
    status: int = 200
    calls: int = 0
    spans: list[tuple[dict[str, Any], Any]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.calls += 1
        if self.status == 200:
            sent = ExportTraceServiceRequest.FromString(await request.read())
            for by_resource in sent.resource_spans:
                resource = attributes(by_resource.resource)
                for scope in by_resource.scope_spans:
                    self.spans += [(resource, span) for span in scope.spans]
        return web.Response(status=self.status)

    def called(self, name: str) -> list[Any]:
        return [span for _, span in self.spans if span.name == name]


def attributes(of: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in of.attributes
    }


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    application = web.Application()
    application.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    collector.url = f"http://{host}:{port}"
    try:
        yield collector
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send at once."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


async def test_pods_that_run_and_pods_that_wait_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        lab_cluster(1, shape="2 sockets, 4 cores, smt 2, 16Gi") as cluster,
        collecting() as to,
    ):
        monkeypatch.setenv(ENDPOINT, to.url)
        process = (await cluster.start()).process
        program = ServingProgram(client=cluster.client, decides=process.deciding())
        traces = make(program)
        assert isinstance(traces, Traces)
        async with traces.served():
            await cluster.create(pod_document("web", cpu="4"), pod_document("wide", cpu="9"))
            await cluster.runs("web")
            await cluster.refuses("wide")
            await until(lambda: len(to.called("schedule pod")) >= 2)
        spans = {attributes(span)["k8s.pod.name"]: span for span in to.called("schedule pod")}
        uid = cluster.pod("web").metadata.uid
        assert spans["web"].trace_id == uuid.UUID(uid).bytes
        assert attributes(spans["web"])["numakube.outcome"] == "runs"
        assert attributes(spans["wide"])["numakube.outcome"] == "fits nowhere"
        parts = [span for _, span in to.spans if span.parent_span_id == spans["web"].span_id]
        assert [span.name for span in parts] == ["queue", "decide", "bind", "kubelet"]
        assert all(span.trace_id == spans["web"].trace_id for span in parts)
        (refused,) = {
            attributes(event)["numakube.plugin"]
            for span in to.called("decide")
            if span.trace_id == spans["wide"].trace_id
            for event in span.events
        }
        assert refused == "NodeResourceTopologyMatch"
        resource = to.spans[0][0]
        assert (resource["service.name"], resource["service.instance.id"]) == (
            "numakube",
            process.identity,
        )
        assert traces.document()["exported"] >= 2


async def test_a_collector_that_refuses_costs_no_scheduling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lab_cluster(1) as cluster, collecting() as to:
        to.status = 400
        monkeypatch.setenv(ENDPOINT, to.url.replace("//", "//me:secret@"))
        process = (await cluster.start()).process
        traces = make(ServingProgram(client=cluster.client, decides=process.deciding()))
        assert isinstance(traces, Traces)
        with structlog.testing.capture_logs() as logs:
            async with traces.served():
                await cluster.create(pod_document("first", cpu="2"))
                await cluster.runs("first")
                await until(lambda: "traces_not_sent" in [log["event"] for log in logs])
                await cluster.create(pod_document("second", cpu="2"))
                await cluster.runs("second")
        assert to.spans == []
        assert "secret" not in repr(logs) + repr(traces.document())


async def test_each_attempt_is_found_once() -> None:
    async with lab_cluster(1) as cluster:
        process = (await cluster.start()).process
        recording = process.scheduler.recording
        assert isinstance(recording, Recording)
        follower = Follower(recording, cluster.client.clock)
        found: list[tuple[str, Any]] = []

        def look() -> bool:
            found.extend(
                (finished.subject.name, finished.span.attributes["numakube.attempt"])
                for finished in follower.finished()
            )
            return {name for name, _ in found} == {"web", "wide"}

        await cluster.create(pod_document("wide", cpu="99"), pod_document("web", cpu="2"))
        await until(look)
        look()
        assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_nothing_is_traced_unless_a_collector_is_named(env: dict[str, str], wanted: bool) -> None:
    assert is_wanted(env) is wanted


async def test_without_a_collector_nothing_of_the_sdk_is_made() -> None:
    async with lab_cluster(1) as cluster:
        process = (await cluster.start()).process
        program = ServingProgram(client=cluster.client, decides=process.deciding())
        traces = Traces(program, env={}, exporter=lambda _: pytest.fail("made"))
        async with traces.served():
            assert traces.document() == {
                "kind": "Traces",
                "exported": None,
                "to": f"set {ENDPOINT}",
            }
