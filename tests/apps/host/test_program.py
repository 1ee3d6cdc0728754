"""Command lines of Go programs work unchanged, and what of them does nothing is told."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from structlog.testing import capture_logs
from tests.real.api_server import assets
from tests.real.marks import needs_assets

from numakube.apps.exporter.exporter_config_file import read_options
from numakube.apps.host.program import WITHOUT_EFFECT, load_program, tell_without_effect
from numakube.apps.scheduler.settings import SETTINGS as SCHEDULER
from numakube.apps.scheduler.settings import configuration_of, serving_of
from numakube.programs import PROGRAMS


def parsed(program: str, *words: str) -> dict[str, Any]:
    """Return what a command line sets."""
    return load_program(program).parse(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--oneshot=true",), {"oneshot": True}),
        (("--oneshot=false",), {"oneshot": False}),
        (("-oneshot=T",), {"oneshot": True}),
        (("--no-publish=false",), {"no_publish": False}),
        (("--publish=0",), {"no_publish": True}),
        (("--dry-run=false",), {}),
        (("-hostname=a", "-sysfs", "/x"), {"node_name": "a", "sysfs": "/x"}),
        (("-v=4",), {"log_level": "debug"}),
        (("--v", "2"), {"log_level": "info"}),
        (("-v", "5", "--log-level=error"), {"log_level": "error"}),
        (("--", "-v=4"), {"roots": ("-v=4",)}),
    ],
)
def test_options_are_taken_in_the_spelling_of_go(
    words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    """One dash or two, switches with a value, levels by number."""
    assert parsed("exporter", *words) == expected


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "extender"])
def test_every_program_takes_them(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There is one way to read a command line; ``--version`` prints and ends."""
    assert parsed(program, "-v=4")["log_level"] == "debug"
    with pytest.raises(click.exceptions.Exit):
        load_program(program).command(lambda flags: flags).parse_args(
            click.Context(click.Command("x")), ["--version"]
        )
    assert capsys.readouterr().out.startswith("numakube ")


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    """By its name."""
    with pytest.raises(click.UsageError, match="--oneshot=maybe: true or false is expected"):
        parsed("exporter", "--oneshot=maybe")


def test_flags_without_a_meaning_here_are_told_in_one_line() -> None:
    """And a flag that nobody knows is an error as before."""
    words = ("--patch-mode=true", "--metrics-tls-cipher-suites=A,B", "--logtostderr")
    told = parsed("exporter", *words)[WITHOUT_EFFECT]
    assert set(told) == {"--patch-mode", "--metrics-tls-cipher-suites", "--logtostderr"}
    with capture_logs() as lines:
        tell_without_effect(told)
        tell_without_effect(())
    (line,) = lines
    assert line["event"] == "flags_without_effect"
    assert "--patch-mode" in line["flags"]
    with pytest.raises(click.NoSuchOption):
        parsed("exporter", "--no-such-flag=1")


def test_a_kube_schedulers_command_line_is_taken() -> None:
    """What scheduler-plugins and kubeadm pass: used, or told."""
    flags = parsed(
        "scheduler",
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--secure-port=10999",
        "--leader-elect=false",
        "--tls-private-key-file=k",
        "--profiling=true",
        "-v=2",
    )
    assert set(flags.pop(WITHOUT_EFFECT)) == {
        "--authentication-kubeconfig",
        "--authorization-kubeconfig",
        "--profiling",
    }
    settings = SCHEDULER.resolve(env={}, flags=flags)
    assert settings.leader_elect is False
    assert settings.serving.tls_key_file == "k"
    assert serving_of(settings).bind_address == "127.0.0.1:10999"


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ((), "127.0.0.1:10259"),
        (("--secure-port=1",), "127.0.0.1:1"),
        (("--bind-address=0.0.0.0",), "0.0.0.0:10259"),
        (("--bind-address=::",), "[::]:10259"),
        (("--bind-address=[::1]:8",), "[::1]:8"),
        (("--bind-address=h:8", "--secure-port=9"), "h:9"),
    ],
)
def test_the_schedulers_address_may_have_its_port_apart(
    words: tuple[str, ...], address: str
) -> None:
    """As kube-scheduler has it."""
    settings = SCHEDULER.resolve(env={}, flags=parsed("scheduler", *words))
    assert serving_of(settings).bind_address == address


def test_a_name_beside_a_configuration_is_told_unless_the_file_has_it(tmp_path: Path) -> None:
    """kube-scheduler takes the names of the file as well."""
    file = tmp_path / "config.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**header, "profiles": [{"schedulerName": "a"}]}))
    for name, told in (("a", 0), ("b", 1)):
        notes: list[str] = []
        config = configuration_of({"config": str(file), "scheduler_name": name}, Path, notes)
        assert [profile.scheduler_name for profile in config.profiles] == ["a"]
        assert len(notes) == told


@needs_assets
def test_every_flag_of_a_real_kube_scheduler_is_known() -> None:
    """By its own help."""
    folder = assets()
    assert folder is not None
    words = [str(folder / "kube-scheduler"), "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603
    flags = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
    command = load_program("scheduler").command(lambda _: None)
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    beside = {"--help", "--version", "--v", "--write-config-to"}
    assert flags - known - beside == set()


FILE = {
    "global": {"debug": False, "verbose": 5, "kubeConfig": "/k"},
    "nrtUpdater": {"patchMode": True, "noPublish": True},
    "resourceMonitor": {
        "resourceExclude": {"*": ["memory"]},
        "podExclude": [{"namespacePattern": "a", "namePattern": "b*"}],
    },
    "topologyExporter": {
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "metricsTLS": {"cipherSuites": ["A"], "certFile": "c"},
    },
}


def test_a_configuration_of_rte_is_read_with_all_of_its_keys(tmp_path: Path) -> None:
    """Used where ours has the same, told where it has not."""
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(FILE))
    options = read_options({}, env={}, files=[file], host="h")
    settings = options.settings
    assert (settings.logs.log_level, settings.connection.kubeconfig) == ("debug", "/k")
    assert (settings.reading.policy, settings.reading.scope) == ("restricted", "pod")
    assert settings.publishing.no_publish is True
    assert dict(options.exclusions.resources) == {"*": ("memory",)}
    assert [pod.name for pod in options.exclusions.pods] == ["b*"]
    assert [note.partition(":")[0] for note in options.notes] == [
        "nrtUpdater.patchMode",
        "metricsTLS.cipherSuites",
    ]
