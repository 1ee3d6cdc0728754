"""Frames survive any way of cutting them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import MalformedObject
from numakube.node.nri.ttrpc_frames import MOST_BYTES, Inner, Outer, TtrpcFrame, to_bytes

FRAMES = st.builds(
    TtrpcFrame,
    call=st.integers(0, 2**31).map(lambda number: number * 2 + 1).filter(lambda one: one < 2**32),
    type=st.sampled_from((1, 2)),
    data=st.binary(max_size=9000),
)


@given(
    sent=st.lists(st.tuples(st.sampled_from((1, 2)), FRAMES), max_size=5),
    data=st.data(),
)
def test_frames_come_out_as_they_went_in(
    sent: list[tuple[int, TtrpcFrame]], data: st.DataObject
) -> None:
    """However the stream is cut into pieces."""
    stream = b"".join(to_bytes(conversation, frame) for conversation, frame in sent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=20)))
    outer, inner = Outer(), {1: Inner(), 2: Inner()}
    found: list[tuple[int, TtrpcFrame]] = []
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        for conversation, piece in outer.feed(stream[start:end]):
            assert len(piece) <= 4096
            found += ((conversation, frame) for frame in inner[conversation].feed(piece))
    assert found == sent


@given(sent=FRAMES, noise=st.binary(min_size=1, max_size=50))
def test_noise_is_cut_or_refused(sent: TtrpcFrame, noise: bytes) -> None:
    """Never anything else: it comes from outside."""
    outer, inner = Outer(), Inner()
    try:
        for _, piece in outer.feed(to_bytes(1, sent) + noise):
            list(inner.feed(piece))
    except MalformedObject:
        pass


def test_a_message_that_nobody_would_take_is_not_sent() -> None:
    """Four megabytes are the limit."""
    with pytest.raises(MalformedObject, match="allowed"):
        to_bytes(1, TtrpcFrame(1, 1, bytes(MOST_BYTES + 1)))
