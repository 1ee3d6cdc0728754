"""Which parts an exporter has follows from its settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from numakube.apps.exporter.api_objects import NodeObject, NoPods
from numakube.apps.exporter.exporter_config_file import read_options
from numakube.apps.exporter.kubelet_checkpoints import StateFolder
from numakube.apps.exporter.kubelet_config_sources import (
    ApiConfigz,
    CommandLine,
    ConfigFile,
    FirstOf,
    KubeletConfigz,
    NodeConfigz,
)
from numakube.apps.exporter.node_scan import NoCheckpoints
from numakube.apps.exporter.nrt_writer import Nowhere, ObjectPublisher
from numakube.apps.exporter.process import (
    make_checkpoints,
    make_config_source,
    make_file_watch,
    make_kubelet,
    make_own_pod,
    make_publisher,
    make_reader,
    make_silence,
    make_wakeups,
)
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeup
from numakube.apps.exporter.settings import ExporterSettings
from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock, ManualClock
from numakube.node.podresources_client import FakePodResources, PodResourcesClient


def settings(**flags: Any) -> ExporterSettings:
    """Return the settings that these flags make."""
    return read_options(flags, env={}, host="node-0").settings


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """A host whose files are below a folder."""
    return Surroundings(env={}, root=tmp_path, locate=lambda path: tmp_path / path.lstrip("/"))


@pytest.mark.parametrize("missing", ["pod_namespace", "pod_name", "conditions"])
def test_conditions_need_the_name_of_the_own_pod(missing: str, bare: Client) -> None:
    """And that they are wanted."""
    named: dict[str, Any] = {"pod_namespace": "numakube", "pod_name": "exporter-x"}
    assert make_own_pod(settings(**named), bare) is not None
    lacking = {**named, missing: False if missing == "conditions" else ""}
    assert make_own_pod(settings(**lacking), bare) is None


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [
        ({"period": 60.0}, 60.0),
        ({"period": 60.0, "max_silence": 20.0, "exact": True, "watch_pods": True}, 20.0),
        ({"period": 0.0, "max_silence": 20.0, "exact": True, "watch_pods": True}, 20.0),
    ],
)
async def test_the_exporter_looks_again_after_the_shorter_of_its_periods(
    flags: dict[str, Any], seconds: float, clock: ManualClock
) -> None:
    """A period of 0 is none."""
    wakeups = make_wakeups(settings(**flags), clock)
    assert await wakeups.next() == Wakeup(frozenset({Trigger.START}))
    waiting = asyncio.create_task(wakeups.next())
    await clock.timeouts()
    await clock.advance(seconds - 0.1)
    assert not waiting.done()
    await clock.advance(0.1)
    assert await waiting == Wakeup(frozenset({Trigger.PERIOD}))


async def test_every_change_is_written_unless_silence_and_pods_are_there(bare: Client) -> None:
    """Without the pods nothing is known to have been foreseen."""
    silent = settings(max_silence=20.0, exact=True, watch_pods=True)
    assert make_silence(silent, None, bare) is None
    assert make_silence(settings(), None, bare) is None


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ({}, [NodeConfigz, ApiConfigz]),
        ({"kubelet_config_file": "/k.yaml"}, [ConfigFile, NodeConfigz, ApiConfigz]),
        ({"kubelet_config_uri": "file:///k.yaml"}, [ConfigFile, NodeConfigz, ApiConfigz]),
        (
            {"kubelet_config_uri": "https://10.0.0.1:10250/configz", "procfs": "/proc"},
            [KubeletConfigz, CommandLine, NodeConfigz, ApiConfigz],
        ),
    ],
)
def test_the_configuration_is_looked_for_where_it_was_said_first(
    flags: dict[str, Any], kinds: list[type], around: Surroundings, bare: Client
) -> None:
    """Then at the process, the kubelet and the API server, as far as there are any."""
    told = settings(**{"kubelet_config_file": "", "procfs": "", **flags})
    node = NodeObject(bare, "node-0")
    sources = make_config_source(told, around, bare, node).sources
    assert [type(source) for source in sources] == kinds
    alone = make_config_source(told, around, None).sources
    assert [type(source) for source in alone] == kinds[:-2]


def test_state_files_and_reports_go_where_they_are_wanted(
    around: Surroundings, bare: Client
) -> None:
    """Or nowhere."""
    node = NodeObject(bare, "node-0")
    assert isinstance(make_checkpoints(settings(state_dir=""), around), NoCheckpoints)
    assert isinstance(make_checkpoints(settings(state_dir="/var/lib"), around), StateFolder)
    assert isinstance(make_publisher(settings(no_publish=True), bare, node), Nowhere)
    assert isinstance(make_publisher(settings(), bare, node), ObjectPublisher)


def test_the_kubelet_is_asked_at_a_socket_or_a_fake_of_it(around: Surroundings) -> None:
    """Nothing else is known."""
    for address, kind in (
        ("unix:///kubelet.sock", PodResourcesClient),
        ("/kubelet.sock", PodResourcesClient),
        ("fake:///pods.json", FakePodResources),
    ):
        assert isinstance(make_kubelet(settings(socket=address), around), kind)
    with pytest.raises(ConfigError, match='protocol "tcp" not supported'):
        make_kubelet(settings(socket="tcp://127.0.0.1"), around)


async def test_every_file_that_changes_with_the_kubelet_wakes_the_exporter(
    around: Surroundings, tmp_path: Path
) -> None:
    """With the reason that belongs to it."""
    told = settings(
        state_dir="/state", socket="unix:///run/kubelet.sock",
        kubelet_config_file="/etc/kubelet.yaml", notify_file="/run/notify/now",
    )  # fmt: skip
    jumping = JumpingClock()
    for folder in ("state", "run", "etc"):
        (tmp_path / folder).mkdir()
    for path, trigger in {
        "state/cpu_manager_state": Trigger.STATE,
        "run/kubelet.sock": Trigger.SOCKET,
        "etc/kubelet.yaml": Trigger.CONFIGURATION,
        "run/notify/now": Trigger.NOTIFICATION,
    }.items():
        wakeups = make_wakeups(told, jumping)
        assert await wakeups.next() == Wakeup(frozenset({Trigger.START}))
        watch = make_file_watch(told, around, wakeups)
        assert (tmp_path / "run/notify/now").read_text() == ""
        assert (tmp_path / "run/notify").stat().st_mode & 0o777 == 0o750
        (tmp_path / path).write_text("changed")
        watch.look()
        assert await wakeups.next() == Wakeup(frozenset({trigger}))
        (tmp_path / path).unlink()


def test_a_file_with_data_is_not_taken_for_notifications(
    around: Surroundings, tmp_path: Path, clock: ManualClock
) -> None:
    """Nor a folder; an empty file is."""
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "data").write_text("x")
    wakeups = make_wakeups(settings(), clock)
    make_file_watch(settings(notify_file="/empty"), around, wakeups)
    with pytest.raises(ConfigError, match="already exists with size=1 isRegular=true"):
        make_file_watch(settings(notify_file="/data"), around, wakeups)
    with pytest.raises(ConfigError, match="isRegular=false"):
        make_file_watch(settings(notify_file="/folder"), around, wakeups)
    with pytest.raises(ConfigError, match="cannot use the notification file"):
        make_file_watch(settings(notify_file="/data/below"), around, wakeups)


@pytest.mark.parametrize("told", [True, False])
def test_what_is_said_by_hand_reaches_the_reader(
    around: Surroundings, bare: Client, *, told: bool
) -> None:
    """And nothing is made up where nothing is said."""
    flags: dict[str, Any] = {"policy": "restricted", "scope": "pod"} if told else {}
    options = read_options(
        {**flags, "no_kubelet": not told, "exact": told, "state_dir": ""}, env={}, host="node-0"
    )
    node = NodeObject(bare, "node-0") if told else None
    reader = make_reader(options, around, node=node)
    assert (reader.policy, reader.scope) == (("restricted", "pod") if told else (None, None))
    assert (reader.kubelet is not None) == told
    assert isinstance(reader.config, FirstOf) == told
    assert (reader.version is not None) == told
    assert (reader.connections is not None) == told
    assert isinstance(reader.pods, NoPods)
    assert reader.annotations == ()
