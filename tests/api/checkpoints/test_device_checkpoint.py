"""``kubelet_internal_checkpoint``: devices and their checksum."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.checkpoints import (
    DeviceManagerState,
    PodDevices,
    read_device_manager_state,
    write_device_manager_state,
)
from numakube.api.checkpoints.checkpoint_loading import fnv1a_32
from numakube.errors import CorruptCheckpoint

STATE = DeviceManagerState(
    pod_device_entries=(
        PodDevices(
            pod_uid="uid",
            container_name="c",
            resource_name="vendor.example/gpu",
            device_ids={0: ("d1", "d2"), -1: ("d3",)},
            alloc_resp=b"\x0a\x04",
        ),
    ),
    registered_devices={"vendor.example/gpu": ("d1", "d2", "d3")},
)


def test_the_file_is_written_as_the_kubelet_writes_it() -> None:
    """Keys capitalised, the plugin's answer in base64, the checksum over the printed structs."""
    text = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:"
        "(string)uid ContainerName:(string)c ResourceName:(string)vendor.example/gpu DeviceIDs:"
        "(checkpoint.DevicesPerNUMA)map[-1:[d3] 0:[d1 d2]] AllocResp:([]uint8)[10 4]}] "
        "RegisteredDevices:(map[string][]string)map[vendor.example/gpu:[d1 d2 d3]]}"
    )

    assert write_device_manager_state(STATE).decode() == (
        '{"Data":{"PodDeviceEntries":[{"PodUID":"uid","ContainerName":"c","ResourceName":'
        '"vendor.example/gpu","DeviceIDs":{"-1":["d3"],"0":["d1","d2"]},"AllocResp":"CgQ="}],'
        '"RegisteredDevices":{"vendor.example/gpu":["d1","d2","d3"]}},'
        f'"Checksum":{fnv1a_32(text.encode())}}}'
    )


def test_without_devices_the_entries_are_null() -> None:
    """Go's nil slice, which counts in the checksum."""
    data = write_device_manager_state(DeviceManagerState())

    assert json.loads(data)["Data"]["PodDeviceEntries"] is None
    assert read_device_manager_state(data) == DeviceManagerState()


def test_a_wrong_checksum_is_refused() -> None:
    """With the file's name."""
    tree = json.loads(write_device_manager_state(STATE)) | {"Checksum": 1}

    with pytest.raises(CorruptCheckpoint, match="kubelet_internal_checkpoint: checkpoint is corr"):
        read_device_manager_state(json.dumps(tree))


@pytest.mark.parametrize(
    "data",
    ["", "{", '{"Data": {"PodDeviceEntries": [{"DeviceIDs": ["d1"]}]}, "Checksum": 1}'],
)
def test_old_and_malformed_files_are_refused(data: str) -> None:
    """Before Kubernetes 1.20 the device ids were a plain list."""
    with pytest.raises(CorruptCheckpoint):
        read_device_manager_state(data)


ids = st.lists(st.text("ab-/", min_size=1, max_size=4), max_size=3).map(tuple)
entries = st.builds(
    PodDevices,
    pod_uid=st.text("ab", max_size=3),
    container_name=st.text("ab", max_size=3),
    resource_name=st.text("ab/", max_size=3),
    device_ids=st.dictionaries(st.integers(-1, 12), ids),
    alloc_resp=st.none() | st.binary(max_size=4),
)
states = st.builds(
    DeviceManagerState,
    pod_device_entries=st.none() | st.lists(entries, max_size=3).map(tuple),
    registered_devices=st.none() | st.dictionaries(st.text("ab/", max_size=3), ids),
)


@given(states)
def test_states_read_back_as_they_were_written(state: DeviceManagerState) -> None:
    """Nil and empty stay apart."""
    assert read_device_manager_state(write_device_manager_state(state)) == state
