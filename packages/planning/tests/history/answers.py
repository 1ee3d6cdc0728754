"""A server that answers as Prometheus does, for tests of what happened over days."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Answers(ThreadingHTTPServer):
    """Values by what a query is about and by label: one for each day, the last day last."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.series: dict[str, list[tuple[dict[str, str], list[float | str | None]]]] = {}
        self.asked: list[dict[str, str]] = []
        self.seen: list[str] = []
        self.raw: tuple[int, bytes] | None = None
        self.paths: list[str] = []

    def handle_error(self, *_: Any) -> None:
        """Be quiet about connections that a client has left."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    @property
    def answers(self) -> Answers:
        assert isinstance(self.server, Answers)
        return self.server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.answers.paths.append(parts.path)
        self.answers.asked.append(asked)
        self.answers.seen.append(self.headers.get("Authorization", ""))
        code, body = self.answers.raw or (200, self._matrix(asked))
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _matrix(self, asked: dict[str, str]) -> bytes:
        start, end = int(asked["start"]), int(asked["end"])
        times = range(start, end + 1, int(asked["step"]))
        result = []
        for name, series in self.answers.series.items():
            if name in asked["query"]:
                for metric, values in series:
                    kept = zip(times, values, strict=True)
                    points = [[time, str(value)] for time, value in kept if value is not None]
                    result.append({"metric": metric, "values": points})
        return json.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": result}}
        ).encode()

    def log_message(self, *_: Any) -> None:
        """Be quiet."""
