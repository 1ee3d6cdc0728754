"""After any sequence of faults a reflector's store equals the collection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.scripted_server import ScriptedServer
from numakube.testing import turns

if TYPE_CHECKING:
    pass

from tests.kube.collection import PODS, Collection, Mirror, equal

NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.sampled_from(["bookmark", "cut", "end", "forget", "pause"])),
    st.tuples(st.just("error"), st.sampled_from([410, 500])),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("refuse"), st.sampled_from([410, 429, 500])),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=12), streaming=st.booleans(), as_event=st.booleans())
def test_after_any_sequence_of_faults_the_store_equals_the_collection(
    steps: list[tuple[Any, ...]], streaming: bool, as_event: bool
) -> None:
    """Whatever changes, drops, 410s and restarts come in whatever order.

    What the handlers were told, applied to an empty mapping, gives the same.
    """
    asyncio.run(play(steps, streaming=streaming, as_event=as_event))


async def play(steps: list[tuple[Any, ...]], *, streaming: bool, as_event: bool) -> None:
    """Perform *steps* on a server while a reflector follows it."""
    async with world() as (server, pods, client):
        pods.expired_as_event = as_event
        pods.page_size = 2
        reflector = Reflector(client, PODS, streaming=streaming)
        mirror = Mirror(reflector)
        async with reflecting(reflector):
            for name, *arguments in steps:
                await perform(server, pods, name, *arguments)
            await equal(pods, reflector, mirror)


async def perform(server: ScriptedServer, pods: Collection, name: str, *arguments: Any) -> None:
    """Perform one step."""
    if name == "restart":
        await pods.restart(losing_everything=arguments[0])
    elif name == "refuse":
        server.refuse(arguments[0])
    elif name == "error":
        pods.error(arguments[0], "")
    elif name == "pause":
        await turns(20)
    else:
        getattr(pods, name)(*arguments)


@asynccontextmanager
async def world() -> AsyncIterator[tuple[ScriptedServer, Collection, Client]]:
    """A server with pods and a client on a clock that does not wait."""
    async with (
        ScriptedServer() as server,
        connect(server.config, clock=JumpingClock(), rng=Random(1)) as client,
    ):
        yield server, Collection(server, version=10**40), client
