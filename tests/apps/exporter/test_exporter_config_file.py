"""The exporter's files, environment and flags."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click
import pytest

from numakube.apps.exporter.exporter_config_file import ExporterOptions
from numakube.apps.exporter.process import PROGRAM
from numakube.apps.exporter.report_options import PodPattern, ReferenceContainer
from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system without any configuration."""
    return tmp_path


def write(path: Path, text: str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def options(root: Path, *args: str, **env: str) -> ExporterOptions:
    """Return the options of a command line on a host whose files are below *root*."""

    def locate(path: str) -> Path:
        return root / path.lstrip("/")

    around = Surroundings(env=env, root=root, locate=locate)
    return PROGRAM.read(PROGRAM.parse(args), around)


def test_defaults_are_those_of_the_agents_people_know(root: Path) -> None:
    """Where theirs are sensible."""
    found = options(root)
    assert found.settings.waking.period == 60
    assert found.settings.content.fingerprint_method == "with-exclusive-resources"
    assert found.settings.publishing.owner
    assert found.settings.own_pod.conditions
    assert found.node_name == socket.gethostname()


def test_nothing_is_served_off_loopback_by_default(root: Path) -> None:
    """Unlike theirs; the familiar modes still do as they say."""
    listen = options(root).listen(Path)
    assert listen is not None
    assert (listen.host, listen.port) == ("127.0.0.1", 2112)
    assert options(root, "--metrics-mode", "disabled").listen(Path) is None
    with pytest.raises(ConfigError, match="can be reached by others"):
        options(root, "--metrics-ip", "0.0.0.0").listen(Path)
    open_ = options(root, "--metrics-mode=http", "--metrics-ip=0.0.0.0", "--port=99").listen(Path)
    assert open_ is not None
    assert (open_.host, open_.port) == ("0.0.0.0", 99)
    secure = options(root, "--metrics-mode=HTTPTLS", "--metrics-ip=0.0.0.0").listen(Path)
    assert secure is not None
    assert secure.tls is not None
    assert secure.tls.key == Path("/etc/secrets/rte/tls.key")


def test_flags_win_over_the_environment_and_that_over_files(root: Path) -> None:
    """Of every kind."""
    file = write(root / "c.yaml", "nrtUpdater: {hostname: from-file}")
    args = ("--config", file.relative_to(root).as_posix())
    assert options(root, *args).node_name == "from-file"
    assert options(root, *args, NODE_NAME="from-env").node_name == "from-env"
    found = options(root, *args, "--hostname", "from-flag", NODE_NAME="from-env")
    assert found.node_name == "from-flag"


def test_variables_that_older_agents_ignored_by_mistake_count(root: Path) -> None:
    """Port and address of the metrics."""
    found = options(root, METRICS_PORT="1234", METRICS_ADDRESS="::1").listen(Path)
    assert found is not None
    assert (found.host, found.port) == ("::1", 1234)


def test_a_folder_of_files_is_read_in_order(root: Path) -> None:
    """Configlets may be links, as in mounted ConfigMaps; hidden ones are not configlets."""
    daemon = root / "etc/rte/daemon"
    write(daemon / "config.yaml", "topologyExporter: {sleepInterval: 5s, metricsPort: 1}")
    write(daemon / "config.yaml.d/10", "topologyExporter: {metricsPort: 2}")
    write(daemon / "config.yaml.d/..data/20", "topologyExporter: {metricsPort: 3}")
    (daemon / "config.yaml.d/20").symlink_to("..data/20")
    found = options(root).settings
    assert (found.waking.period, found.metrics.metrics_port) == (5.0, 3)
    write(root / "other/extra/config.yaml", "kubelet: {topologyManagerPolicy: restricted}")
    found = options(root, "/other").settings
    assert (found.reading.policy, found.waking.period) == ("restricted", 60.0)


def test_one_folder_at_most(root: Path) -> None:
    """In the words that are known."""
    with pytest.raises(ConfigError, match=r"too many config roots given \(2\)"):
        options(root, "a", "b")


def test_a_file_that_was_asked_for_must_exist(root: Path) -> None:
    """Others need not."""
    with pytest.raises(ConfigError, match=r"--config nowhere\.yaml: no such file"):
        options(root, "--config", "nowhere.yaml")


def test_mistyped_keys_are_errors(root: Path) -> None:
    """They would silently do nothing."""
    write(root / "c.yaml", "topologyExporter: {sleepIntervall: 5s}")
    with pytest.raises(ConfigError, match=r"is 'topologyExporter\.sleepInterval' meant"):
        options(root, "--config", "c.yaml")


def test_exclusions_come_from_files_of_both_agents(root: Path) -> None:
    """By node, or for all."""
    text = """
    resourceExclude: {"*": [memory], worker-0: [vendor.example/gpu]}
    excludeList: {worker-1: [cpu]}
    podExclude:
    - {namespacePattern: "kube-*", namePattern: "*"}
    """
    write(root / "c.yaml", text)
    found = options(root, "--config", "c.yaml", "--hostname", "worker-0").report_options()
    assert dict(found.resource_exclude) == {
        "*": ("memory",),
        "worker-0": ("vendor.example/gpu",),
        "worker-1": ("cpu",),
    }
    assert found.pod_exclude == (PodPattern("kube-*", "*"),)
    assert found.node_name == "worker-0"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("resourceExclude: [cpu]", "must map node names"),
        ("resourceExclude: {a: cpu}", "resourceExclude.a: must be a list"),
        ("excludeList: {a: [1]}", "excludeList.a: must be a list"),
        ("excludeList: {a: [cpu, 1]}", "excludeList.a: must be a list"),
        ("podExclude: {a: b}", "podExclude: must be a list"),
        ("podExclude: [{namePattern: x}]", r"podExclude\[0\]: must have"),
        ("podExclude: [kube-system]", r"podExclude\[0\]: must have"),
        ("podExclude: [{namespacePattern: 1, namePattern: x}]", r"podExclude\[0\]: must have"),
        ("topologyExporter: {sleepInterval: soon}", "topologyExporter.sleepInterval"),
        ("topologyExporter: {metricsMode: https}", "topologyExporter.metricsMode"),
        ("- a", "must be a mapping"),
    ],
)
def test_files_are_checked(root: Path, text: str, complaint: str) -> None:
    """With the place of the mistake."""
    write(root / "c.yaml", text)
    with pytest.raises(ConfigError, match=complaint):
        options(root, "--config", "c.yaml")


@pytest.mark.parametrize(
    ("args", "env", "expected"),
    [
        ((), {}, None),
        (("--reference-container", "a/b/c"), {}, ReferenceContainer("a", "b", "c")),
        (
            (),
            {
                "REFERENCE_NAMESPACE": "ns",
                "REFERENCE_POD_NAME": "p",
                "REFERENCE_CONTAINER_NAME": "c",
            },
            ReferenceContainer("ns", "p", "c"),
        ),
        ((), {"REFERENCE_NAMESPACE": "ns", "REFERENCE_POD_NAME": "p"}, None),
    ],
)
def test_the_reference_container(
    root: Path, args: tuple[str, ...], env: dict[str, str], expected: Any
) -> None:
    """From the flag, or from all three variables."""
    assert options(root, *args, **env).reference_container == expected


def test_wrong_values_of_flags_are_wrong_usage(root: Path) -> None:
    """Not something to log and go on."""
    with pytest.raises(ConfigError, match="malformed ident"):
        options(root, "--reference-container", "a/b")
    with pytest.raises(ConfigError, match="--reserved-cpus"):
        options(root, "--reserved-cpus", "few").reserved_cpus()
    with pytest.raises(ConfigError, match="interval cannot be negative: -5s"):
        options(root, "--sleep-interval", "-5s")
    with pytest.raises(click.BadParameter, match="soon"):
        options(root, "--sleep-interval", "soon")
    with pytest.raises(click.BadParameter):
        options(root, "--pods-fingerprint-method", "some")


@pytest.mark.parametrize("text", ["", "*"])
def test_a_star_means_all_namespaces(root: Path, text: str) -> None:
    """As with one of the agents; the other takes nothing for all."""
    assert options(root, "--watch-namespace", text).report_options().watch_namespace == ""


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("{}", "info"),
        ("{debug: true}", "debug"),
        ("{debug: false}", "info"),
        ("{verbose: 5}", "debug"),
        ("{verbose: 2}", "info"),
        ("{debug: true, verbose: 2}", "debug"),
        ("{debug: true, logLevel: warning}", "warning"),
    ],
)
def test_rtes_words_for_how_much_is_logged_are_known(root: Path, words: str, level: str) -> None:
    """Ours wins over both."""
    write(root / "etc/rte/daemon/config.yaml", f"global: {words}")
    assert options(root).settings.logs.log_level == level
