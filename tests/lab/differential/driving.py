"""Drive one server through a sequence and write down what it answers."""

from __future__ import annotations

import asyncio
import collections.abc
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from msgspec import UNSET
from tests.lab.differential.bodies import Json, Kind, T, widget_definition
from tests.lab.differential.normalising import Normaliser
from tests.lab.differential.sequences import Sequence

from numakube.testing import until
from numakube_lab.replay.recorded_cases import RecordedStep
from numakube_lab.replay.run_case import TOKENS, Answer, Sender

WATCH_SECONDS: Final = 10.0
LAST: Final = "zz-last"
_CAPTURED: Final = re.compile(r"\$\{(c\d+)\}")
_NOTHING: Final = Answer(0, "", "{}")
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Server:
    """A server to drive, with a session that can reach it."""

    name: str
    url: str
    session: aiohttp.ClientSession

    def sender(self, **known: str) -> Sender:
        """Return what sends requests to it; *known* are values that requests mention."""
        return Sender(self.session, self.url, TOKENS, dict(known))


@dataclass
class Record:
    """What a server answered.

    Attributes:
        answers: of each step, in common names.
        texts: of each step, as received.
        events: of each kind's watch, in common names.
        lists: of each kind, at the end.
    """

    answers: list[Json] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    events: dict[str, list[Json]] = field(default_factory=dict)
    lists: dict[str, list[Json]] = field(default_factory=dict)


async def define_widgets(server: Server) -> None:
    """Create the definition of the custom kind and wait until it is served."""
    sender = server.sender()
    await sender.send(RecordedStep(method="POST", path=_DEFINITIONS, body=widget_definition()))
    served = RecordedStep(path="/apis/differential.numakube.io/v1/widgets")
    await until(lambda: sender.send(served), lambda answer: answer.status == 200)


async def drive(
    server: Server, sequence: Sequence, namespace: str, *, managed_fields: bool = False
) -> Record:
    """Send *sequence* to *server*, in *namespace*, while watching all that it is about."""
    sender = server.sender(ns=namespace)
    normalise = Normaliser(managed_fields=managed_fields)
    record = Record()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await sender.send(RecordedStep(method="POST", path="/api/v1/namespaces", body=body))
    async with contextlib.AsyncExitStack() as stack:
        watches = [
            (kind, await stack.enter_async_context(_watch(sender, kind))) for kind in sequence.kinds
        ]
        for step in sequence.steps:
            answer = _NOTHING if _is_moot(step, sender) else await sender.send(step)
            with contextlib.suppress(ValueError):  # a refusal in plain text holds nothing
                sender.capture(step, answer)
            record.texts.append(answer.text)
            record.answers.append(_comparable(answer, normalise))
        for kind, watch in watches:
            record.lists[kind.resource] = await _listed(sender, kind)
            await _create_last(sender, kind)
            events = await _events(watch, kind.name(LAST).replace("${ns}", namespace))
            record.events[kind.resource] = [normalise(event) for event in events]
            record.lists[kind.resource] = [normalise(item) for item in record.lists[kind.resource]]
    return record


def _is_moot(step: RecordedStep, sender: Sender) -> bool:
    """Tell whether *step* needs what an earlier request was refused."""
    if isinstance(step.body, dict) and "$from" in step.body:
        source = sender.captured[step.body["$from"]]
        return not isinstance(source, dict) or source.get("kind") == "Status"
    body = "" if step.body is UNSET else json.dumps(step.body)
    asked = _CAPTURED.findall(f"{step.query} {body}")
    return any(sender.captured[name] is None for name in asked)


def _comparable(answer: Answer, normalise: Normaliser) -> Json:
    try:
        body = normalise(json.loads(answer.text))
    except ValueError:
        body = answer.text
    result = {
        "status": answer.status,
        "type": answer.content_type,
        "warnings": list(answer.warnings),
        "body": body,
    }
    if answer.retry_after is not None:
        result["retryAfter"] = answer.retry_after
    return result


@contextlib.asynccontextmanager
async def _watch(sender: Sender, kind: Kind) -> AsyncIterator[aiohttp.ClientResponse]:
    """Watch a collection from now on."""
    listed = await sender.send(RecordedStep(path=kind.collection))
    version = json.loads(listed.text)["metadata"]["resourceVersion"]
    query = {"watch": "true", "resourceVersion": version}
    async with sender.request(RecordedStep(path=kind.collection, query=query)) as response:
        yield response


async def _events(watch: aiohttp.ClientResponse, last: str) -> list[Json]:
    """Return the events up to the creation of the object called *last*."""
    prefix = last.removesuffix(LAST)
    found: list[Json] = []
    async with asyncio.timeout(WATCH_SECONDS):
        async for line in watch.content:
            event = json.loads(line)
            name = event["object"].get("metadata", {}).get("name", "")
            if name == last:
                return found
            if name.startswith(prefix):
                found.append(event)
    return found


async def _listed(sender: Sender, kind: Kind) -> list[Json]:
    answer = await sender.send(RecordedStep(path=kind.collection))
    own = kind.name("").replace("${ns}", str(sender.captured["ns"]))
    items: list[Json] = json.loads(answer.text)["items"]
    return [item for item in items if item["metadata"]["name"].startswith(own)]


async def _create_last(sender: Sender, kind: Kind) -> None:
    """Create an object whose event is the last that a watch has to show."""
    body = kind.object(_Plain(), {"name": kind.name(LAST)})
    await sender.send(RecordedStep(method="POST", path=kind.collection, body=body))


class _Plain:
    """Chooses the first and leaves out the rest: makes the plainest object of a kind."""

    def choice(self, seq: collections.abc.Sequence[T], /) -> T:
        """Return the first of *seq*."""
        return seq[0]

    def random(self) -> float:
        """Return what leaves optional fields out."""
        return 1.0
