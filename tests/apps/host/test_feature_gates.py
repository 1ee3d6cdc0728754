"""Feature gates: who decides, what is refused, and what is told."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import generate_latest

from numakube.annexes import feature_gates
from numakube.apps.exporter.exporter_config_file import read_options
from numakube.apps.host.process_life import Surroundings, new_registry
from numakube.apps.host.program import load_program
from numakube.apps.host.settings_sources import (
    KEY,
    activate,
    add_of_files,
    checked_gates,
    is_enabled,
    read_gates,
    require,
)
from numakube.errors import ConfigError
from numakube.programs import Stage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def enabled(
    name: str, flag: str = "", env: Mapping[str, str] | None = None, file: Any = None
) -> bool:
    """Return whether a gate is on in a program that is told so much."""

    def told() -> bool:
        activate(flag, env or {})
        if file is not None:
            add_of_files(checked_gates(file, f"file.yaml: {KEY}"))
        return is_enabled(name)

    return contextvars.copy_context().run(told)


def test_alpha_is_off_and_beta_is_on_unless_somebody_decides() -> None:
    for gate in feature_gates().values():
        assert enabled(gate.name) is (gate.stage is Stage.BETA)


@pytest.mark.parametrize("word", ["false", "F", "0", "False"])
def test_a_gate_is_switched_as_go_reads_booleans(word: str) -> None:
    assert not enabled("SchedulerShards", f"ReportUpdates=true, SchedulerShards={word}")


def test_all_of_a_stage_are_switched_unless_they_are_named() -> None:
    assert not enabled("SchedulerShards", "AllBeta=false")
    assert enabled("SchedulerShards", "AllBeta=false,SchedulerShards=true")
    assert enabled("NodeResourceTopologyV1Beta1", "AllAlpha=true")
    assert enabled("SchedulerShards", "AllAlpha=false")


def test_the_flag_wins_over_the_variable_and_both_over_a_file() -> None:
    off, on = {"NUMAKUBE_FEATURE_GATES": "PodMoves=false"}, {"PodMoves": True}
    assert not enabled("PodMoves", env=off)
    assert enabled("PodMoves", "PodMoves=true", env=off)
    assert not enabled("PodMoves", env=off, file=on)
    assert not enabled("PodMoves", file={"PodMoves": False})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "SchedulerShard=true",
            "unknown feature gate SchedulerShard; did you mean SchedulerShards?",
        ),
        ("Zebra=true", "unknown feature gate Zebra; there are AllAlpha, AllBeta, "),
        ("SchedulerShards=yes", "SchedulerShards=yes is neither true nor false"),
        ("SchedulerShards", "SchedulerShards= is neither true nor false"),
    ],
)
def test_what_nobody_knows_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^--feature-gates: ") as refused:
        read_gates(text, "--feature-gates")
    assert words in str(refused.value)


def test_gates_of_kubernetes_mean_nothing_here() -> None:
    """Command lines of kube-scheduler have them."""
    assert read_gates("DynamicResourceAllocation=true,SchedulerShards=false", "") == {
        "SchedulerShards": False
    }


@pytest.mark.parametrize("file", [["SchedulerShards"], "SchedulerShards=true", 7])
def test_a_file_has_a_mapping(file: Any) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml: featureGates: must be a mapping"):
        enabled("SchedulerShards", file=file)


@pytest.mark.parametrize(
    ("texts", "is_on"), [(("true", "false"), False), (("false", "true"), True)]
)
def test_the_last_of_several_files_wins_as_for_every_setting(
    texts: tuple[str, str], is_on: bool, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(f"featureGates: {{ReportUpdates: {text}}}")

    def read() -> bool:
        activate("", {})
        read_options({}, env={}, files=files, host="n")
        return is_enabled("ReportUpdates")

    assert contextvars.copy_context().run(read) is is_on


def test_what_is_asked_for_while_its_gate_is_off_is_refused_with_the_way_out() -> None:
    def ask() -> None:
        activate("SchedulerShards=false", {})
        require("SchedulerShards", "--shard")

    with pytest.raises(ConfigError, match=r"--shard needs .* --feature-gates SchedulerShards=true"):
        contextvars.copy_context().run(ask)


@pytest.mark.parametrize(
    ("program", "line", "gate"),
    [
        ("scheduler", ("--shard", "a"), "SchedulerShards"),
        ("exporter", ("--max-silence", "5m"), "ReportUpdates"),
        ("exporter", ("--measure",), "MeasuredLocality"),
        ("enforcer", ("--nri", "on"), "EnforcerNRI"),
        ("rebalancer", (), "PodMoves"),
    ],
)
async def test_each_beta_feature_can_be_switched_off(
    program: str, line: tuple[str, ...], gate: str
) -> None:
    around = Surroundings(env={"NODE_NAME": "a"})
    work = load_program(program).perform(
        (*line, f"--feature-gates={gate}=false"), around, asyncio.Event()
    )
    with pytest.raises(ConfigError, match=f"needs the feature gate {gate}, which is off"):
        await asyncio.create_task(work)


async def test_programs_in_one_process_have_their_own_gates() -> None:
    """As in a lab."""
    both_told = asyncio.Barrier(2)

    async def told(flag: str) -> bool:
        activate(flag, {})
        await both_told.wait()
        return is_enabled("SchedulerShards")

    first, second = await asyncio.gather(told("SchedulerShards=false"), told(""))
    assert (first, second) == (False, True)


def test_metrics_tell_which_are_on() -> None:
    def metrics() -> str:
        activate("SchedulerShards=false", {})
        return generate_latest(new_registry("scheduler")).decode()

    text = contextvars.copy_context().run(metrics)
    assert 'kubernetes_feature_enabled{name="SchedulerShards",stage="BETA"} 0.0' in text
    assert 'kubernetes_feature_enabled{name="ReportUpdates",stage="BETA"} 1.0' in text
    assert (
        'kubernetes_feature_enabled{name="NodeResourceTopologyV1Beta1",stage="ALPHA"} 0.0' in text
    )
