"""The chart under the real helm: it finds no fault, and renders what our own renderer does."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from release.chart import CHART_COMPONENTS, default_values
from tests.release.test_chart import FOLDER, by_key, rendered

from numakube.api.yaml_text import load_manifests

HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
SETS = 24

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not on the PATH")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm."""
    assert HELM is not None
    return subprocess.run(  # noqa: S603 - the developer's own
        [HELM, *words], check=False, capture_output=True, text=True
    )


def drawn(rng: Random) -> dict[str, Any]:
    """Return values that a user might choose."""
    values = copy.deepcopy(default_values())
    for part in values.values():
        if "enabled" in part:
            part["enabled"] = rng.random() < 0.5
    values["image"] |= {
        "pullSecrets": rng.choice([[], [{"name": "mine"}]]),
        "repository": rng.choice(["numakube", "r.example/x", "r.example:5000/team/numakube"]),
        "tag": rng.choice(["1", "1.2.3", "latest", f"1@sha256:{'0' * 64}"]),
        "pullPolicy": rng.choice(["Always", "IfNotPresent", "Never"]),
    }
    values["scheduler"] |= {
        "name": rng.choice(["numa", "e3", "numakube.example.com", "null-and-void"]),
        "replicas": rng.randint(1, 5),
    }
    values["scheduler"] |= {
        "pluginConfig": rng.choice([[], [{"name": "NodeResourcesFit", "args": {}}]]),
        "profiles": rng.choice([[], [{"schedulerName": "b"}, {"schedulerName": "c"}]]),
        "configuration": rng.choice([{}, {}, {"kind": 'it\'s "quoted"', "profiles": [{}]}]),
    }
    for component in CHART_COMPONENTS:
        values[component] |= {
            "extraArgs": rng.choice([[], ["--log-level=debug", "--odd=a b: 'c'"]]),
            "nodeSelector": rng.choice([{}, {"pool": "true"}]),
            "tolerations": rng.choice([[], [{"key": "a", "tolerationSeconds": 300}]]),
        }
    values["exporter"]["period"] = rng.choice(["5s", "1m30s", "0.5h"])
    values["exporter"]["maxSilence"] = rng.choice(["", "5m"])
    values["exporter"]["measure"] = rng.random() < 0.5
    return values


@pytest.mark.parametrize("seed", [None, *range(SETS)])
def test_helm_renders_what_our_own_renderer_does(seed: int | None, tmp_path: Path) -> None:
    """With the default values and with others."""
    values = default_values() if seed is None else drawn(Random(seed))
    (tmp_path / "values.json").write_text(json.dumps(values), encoding="utf-8")
    namespace = "numakube" if seed is None else f"ns-{seed}"
    told = ("--namespace", namespace, "--values", str(tmp_path / "values.json"))
    done = helm("template", "x", str(FOLDER), *told)
    assert done.returncode == 0, done.stderr
    documents = list(load_manifests(done.stdout, "helm"))
    assert by_key(documents) == by_key(rendered(values, namespace))
    assert len(documents) == len(by_key(documents))


def test_helm_has_nothing_to_complain_of() -> None:
    """Not even with every component on."""
    on = [name for name, value in default_values().items() if "enabled" in value]
    everything = [word for name in on for word in ("--set", f"{name}.enabled=true")]
    for words in ([], everything):
        done = helm("lint", "--strict", str(FOLDER), *words)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "mistake",
    [
        "schedulr.name=x",
        "scheduler.nam=x",
        "scheduler.replicas=0",
        "scheduler.replicas=many",
        "scheduler.enabled=perhaps",
        "scheduler.name=Numa",
        "exporter.period=often",
        "exporter.period=5",
        "exporter.maxSilence=long",
        "image.pullPolicy=Sometimes",
        "image.tag=",
        "image.tag=a b",
        "scheduler.tolerations=all",
        "scheduler.extraArgs=--log-level=debug",
        "scheduler.nodeSelector=ssd",
    ],
)
def test_helm_refuses_values_that_mean_nothing(mistake: str) -> None:
    """By the schema that comes with the chart."""
    done = helm("template", "x", str(FOLDER), "--set", mistake)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_a_name_that_yaml_takes_for_something_else_is_refused() -> None:
    """Although it is a text like any other."""
    done = helm("template", "x", str(FOLDER), "--set-string", "scheduler.name=true")
    assert "scheduler.name" in done.stderr
