"""What of the measurements is published, when, and how it is read again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology
from numakube_measured.measurement import (
    ANNOTATION,
    MOST_BYTES,
    MeasuredPod,
    MeasuredZone,
    Measurement,
    Unmeasured,
    read_measurement,
    write_measurement,
)
from numakube_measured.news import LEAST_SECONDS, WHOLE_SECONDS, News

replace = msgspec.structs.replace
POD = MeasuredPod(uid="db", zones=(0,), memory_mi={0: 900, 1: 100})
NODE = Measurement(zones=(MeasuredZone(id=0, total_mi=1000, available_mi=500),), pods=(POD,))


def published(text: str) -> NodeResourceTopology:
    """Return a report with a measurement."""
    return NodeResourceTopology(metadata=ObjectMeta(name="worker", annotations={ANNOTATION: text}))


def test_what_is_published_is_read_again() -> None:
    assert read_measurement(published(write_measurement(NODE))) == NODE


def test_a_report_without_measurements_says_what_to_do() -> None:
    found = read_measurement(NodeResourceTopology(metadata=ObjectMeta(name="worker")))
    assert isinstance(found, Unmeasured)
    assert "--measure" in found.why


def test_too_many_pods_are_cut_and_counted() -> None:
    pods = tuple(
        MeasuredPod(uid=f"{number:012}", zones=(0,), memory_mi=dict.fromkeys(range(64), 1 << 30))
        for number in range(120)
    )
    text = write_measurement(Measurement(pods=pods))
    assert len(text) <= MOST_BYTES
    found = read_measurement(published(text))
    assert isinstance(found, Measurement)
    assert len(found.pods) + found.left_out == len(pods)
    assert found.pods == pods[: len(found.pods)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2}',
        '{"pods": [{"uid": 5}]}',
        '{"pods": [{"uid": "a", "memoryMi": {"0": -1}}]}',
        '{"pods": [{"uid": "a", "throttled": 7}]}',
        '{"zones": [{"id": 99999999999999999999}]}',
        "[" * 100_000,
        "x" * (3 * MOST_BYTES),
        '{"zones": [{"id": 0, "guests": [' + ",".join(['{"uid": "a"}'] * 99) + "]}]}",
        '{"takenAt": "' + "x" * 5000 + '"}',
    ],
)
def test_a_text_that_makes_no_sense_is_no_measurement(text: str) -> None:
    assert isinstance(read_measurement(published(text)), Unmeasured)


@given(st.text(max_size=100))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_measurement(published(text))


def test_the_first_measurement_is_published() -> None:
    assert News().take(NODE, 0.0)


def test_what_has_not_changed_is_not_published_again() -> None:
    news = News()
    news.take(NODE, 0.0)
    assert not news.take(replace(NODE, taken_at="later"), 10 * WHOLE_SECONDS)


def pod(**fields: Any) -> Measurement:
    """Return the node with another pod."""
    return replace(NODE, pods=(replace(POD, **fields),))


@pytest.mark.parametrize(
    "now",
    [
        pod(memory_mi={0: 840, 1: 160}),
        pod(memory_mi={0: 1000}),
        pod(others=0.1),
        pod(throttled=0.5),
        pod(confined=True),
        pod(threads={1: 10}),
        replace(NODE, pods=()),
        replace(NODE, pods=(POD, replace(POD, uid="web"))),
        replace(NODE, zones=(MeasuredZone(id=0, total_mi=1000, available_mi=400),)),
        replace(NODE, untold=("memory bandwidth: not mounted",)),
    ],
)
def test_what_would_change_an_answer_is_published(now: Measurement) -> None:
    news = News()
    news.take(NODE, 0.0)
    assert not news.take(now, LEAST_SECONDS - 1)
    assert news.take(now, LEAST_SECONDS)


@pytest.mark.parametrize(
    "now",
    [
        pod(memory_mi={0: 890, 1: 110}),
        pod(others=0.02),
        pod(cache_mi=500),
        replace(NODE, zones=(MeasuredZone(id=0, total_mi=1000, available_mi=480),)),
        replace(NODE, pods=(POD, MeasuredPod(uid="web", memory_mi={0: 5000}))),
    ],
)
def test_small_changes_are_published_after_half_an_hour(now: Measurement) -> None:
    news = News()
    news.take(NODE, 0.0)
    assert not news.take(now, WHOLE_SECONDS - 1)
    assert news.take(now, WHOLE_SECONDS)
