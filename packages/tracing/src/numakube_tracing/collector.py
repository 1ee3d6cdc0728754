"""Whether traces are wanted, and what takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_tracing.attempt_spans import Span

NAMES_A_COLLECTOR: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_SWITCHED_OFF: Final = "OTEL_SDK_DISABLED"


def is_wanted(env: Mapping[str, str]) -> bool:
    """Tell whether *env* names a collector."""
    return env.get(_SWITCHED_OFF, "").lower() != "true" and any(map(env.get, NAMES_A_COLLECTOR))


class SpanExporter(Protocol):
    """Takes the ways of pods."""

    endpoint: str

    def export(self, uid: str, span: Span, offset: float) -> None:
        """Export a span and its children, whose times become times of day by *offset*."""
        ...

    def close(self) -> None:
        """Send what is left, within the SDK's own limit of time."""
        ...
