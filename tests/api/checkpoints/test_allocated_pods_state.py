"""The kubelet's note of the pods that it has admitted."""

from __future__ import annotations

import pytest

from numakube.api.checkpoints import (
    peek_allocated_pods,
    read_allocated_pods,
    write_allocated_pods,
)
from numakube.api.checkpoints.allocated_pods_state import entry_of
from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.errors import CorruptCheckpoint

POD = convert(
    Pod,
    {
        "metadata": {"name": "p", "uid": "u-1"},
        "spec": {
            "initContainers": [
                {"name": "done", "resources": {"limits": {"cpu": "1"}}},
                {"name": "side", "restartPolicy": "Always"},
            ],
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "requests": {"memory": "1Gi", "cpu": "2"},
                        "limits": {"memory": "1Gi", "cpu": "2"},
                    },
                }
            ],
        },
    },
)


def test_what_is_written_is_read() -> None:
    """Checksum and all; init containers that end are not noted."""
    data = write_allocated_pods({"u-1": entry_of(POD)})
    asked = {"cpu": "2", "memory": "1Gi"}
    assert read_allocated_pods(data) == {
        "u-1": {
            "ContainerResources": {"main": {"limits": asked, "requests": asked}, "side": {}},
            "PodLevelResources": None,
        }
    }
    assert peek_allocated_pods(data) == {"u-1"}


def test_a_kubelet_without_pods_has_an_empty_note() -> None:
    """As it is after the last pod has gone."""
    data = write_allocated_pods({})
    assert (read_allocated_pods(data), peek_allocated_pods(data)) == ({}, frozenset())


def test_a_damaged_note_is_refused() -> None:
    """An onlooker does not check the sum, but needs the shape."""
    data = write_allocated_pods({"u-1": entry_of(POD)}).replace(b"u-1", b"u-2")
    assert peek_allocated_pods(data) == {"u-2"}
    with pytest.raises(CorruptCheckpoint, match="corrupted"):
        read_allocated_pods(data)
    for junk in (b"", b"[]", b'{"data": 3}', b'{"data": "["}', b'{"data": "{\\"entries\\": []}"}'):
        with pytest.raises(CorruptCheckpoint):
            peek_allocated_pods(junk)
