"""Hands spans to the OpenTelemetry SDK, which queues, batches, encodes and sends them.

Imported only where traces are wanted. Every setting but the collector's address is the SDK's own,
read from its variables. What it logs goes to our log, once for each trouble.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Status, StatusCode

from numakube.values.safe_text import quoted, without_secrets
from numakube.version import VERSION
from numakube_tracing.attempt_spans import trace_id_of
from numakube_tracing.collector import NAMES_A_COLLECTOR

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from numakube_tracing.attempt_spans import Span

_NANOSECONDS: Final = 1_000_000_000

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Told(logging.Handler):
    """Tells what the SDK complains of, in one line and not again and again."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        trouble = quoted(without_secrets(record.getMessage()))
        if trouble != self._last:
            _log.warning("traces_not_sent", error=trouble)
        self._last = trouble


class _PodIds(IdGenerator):
    """Gives the next trace the id of a pod."""

    def __init__(self) -> None:
        self.trace_id = 0
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self._random.generate_span_id()


class OtlpExporter:
    """Exports to the collector that the environment names, over HTTP.

    Attributes:
        endpoint: where to, without what is secret in it.
    """

    def __init__(self, *, instance: str, exporter: SpanExporter | None = None) -> None:
        named = map(os.environ.get, reversed(NAMES_A_COLLECTOR))
        address = urlsplit(next(filter(None, named), ""))
        self.endpoint = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
        self._ids = _PodIds()
        self._told = _Told()
        sdk = logging.getLogger("opentelemetry")
        sdk.addHandler(self._told)
        sdk.propagate = False
        service = {"service.version": VERSION, "service.instance.id": instance}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            service["service.name"] = "numakube"
        self._provider = TracerProvider(
            resource=Resource.create(service), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("numakube", VERSION)

    def export(self, uid: str, span: Span, offset: float) -> None:
        """Export a span and its children, whose times become times of day by *offset*."""
        self._ids.trace_id = trace_id_of(uid)
        self._export(span, offset, trace.INVALID_SPAN)

    def _export(self, span: Span, offset: float, parent: trace.Span) -> None:
        made = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(parent),
            attributes=dict(span.attributes),
            start_time=_nanoseconds(span.start, offset),
        )
        for event in span.events:
            made.add_event(event.name, dict(event.attributes), _nanoseconds(event.at, offset))
        if span.error:
            made.set_status(Status(StatusCode.ERROR, span.error))
        for child in span.children:
            self._export(child, offset, made)
        made.end(_nanoseconds(span.end, offset))

    def close(self) -> None:
        """Send what is left, within the SDK's own limit of time."""
        self._provider.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._told)


def _nanoseconds(at: float, offset: float) -> int:
    return round((at + offset) * _NANOSECONDS)
