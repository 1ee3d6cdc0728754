"""Arguments of the plugin: upstream's work unchanged, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from numakube.api.codec import Wire
from numakube.api.strictness import Leniency, Strictness
from numakube.errors import ConfigError
from numakube.scheduling.numa.caches.known_pods import ForeignPods
from numakube.scheduling.numa.caches.overreserve import ResyncScope
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods
from numakube.scheduling.numa.topology_match_args import (
    CacheArgs,
    CacheKind,
    Mode,
    NativeArgs,
    NodeResourceTopologyMatchArgs,
    read_args,
)
from numakube.values.topology_policy import TopologyPolicy


def test_without_arguments_upstreams_defaults_hold_in_native_mode() -> None:
    """LeastAllocated by CPU and memory, all foreign pods, fingerprint method by the report."""
    settings = read_args({})
    assert settings.mode is Mode.NATIVE
    assert settings.strategy == "LeastAllocated"
    assert settings.weights == {"cpu": 1, "memory": 1}
    assert settings.cache.kind is CacheKind.PREDICT
    assert settings.cache.foreign_pods is ForeignPods.ALL
    assert settings.cache.fingerprint_pods is FingerprintPods.AUTODETECT
    assert settings.cache.resync_scope is ResyncScope.ALL
    assert settings.simulates_evictions
    assert not settings.notes


@pytest.mark.parametrize(
    ("discard", "period", "kind"),
    [
        (True, 5, CacheKind.DISCARD_RESERVED),
        (True, 0, CacheKind.DISCARD_RESERVED),
        (False, 5, CacheKind.OVER_RESERVE),
        (False, 0, CacheKind.PASSTHROUGH),
        (False, -3, CacheKind.PASSTHROUGH),
        (False, None, CacheKind.PASSTHROUGH),
    ],
)
def test_upstream_mode_chooses_the_cache_as_upstream_does(
    discard: bool, period: int | None, kind: CacheKind
) -> None:
    """Discarding takes precedence over a resync period."""
    args = {
        "mode": "upstream",
        "discardReservedNodes": discard,
        "cacheResyncPeriodSeconds": period,
    }
    assert read_args(args).cache.kind is kind


def test_a_full_upstream_configuration_is_read() -> None:
    """As it stands in upstream's manifests, type information included."""
    settings = read_args(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourceTopologyMatchArgs",
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 5}, {"name": "vendor.example/gpu"}],
            },
            "cacheResyncPeriodSeconds": 7,
            "cache": {
                "foreignPodsDetect": "OnlyExclusiveResources",
                "resyncMethod": "OnlyExclusiveResources",
                "informerMode": "Dedicated",
                "resyncScope": "OnlyResources",
            },
            "preemptionMode": "Enabled",
            "mode": "upstream",
        }
    )
    assert settings.strategy == "MostAllocated"
    assert settings.weights == {"cpu": 5, "vendor.example/gpu": 1}
    assert settings.cache.kind is CacheKind.OVER_RESERVE
    assert settings.cache.resync_seconds == 7
    assert settings.cache.foreign_pods is ForeignPods.ONLY_EXCLUSIVE
    assert settings.cache.fingerprint_pods is FingerprintPods.ONLY_EXCLUSIVE
    assert settings.cache.resync_scope is ResyncScope.ONLY_RESOURCES
    assert settings.simulates_evictions


def test_the_kind_of_cache_can_be_said_outright() -> None:
    """Any cache goes with any mode."""
    assert read_args({"cache": {"kind": "overreserve"}}).cache.kind is CacheKind.OVER_RESERVE
    both = {"mode": "upstream", "cache": {"kind": "predict"}}
    assert read_args(both).cache.kind is CacheKind.PREDICT


def test_evictions_are_simulated_as_upstream_does_in_its_mode() -> None:
    """Upstream has to be told to."""
    assert not read_args({"mode": "upstream"}).simulates_evictions
    assert not read_args({"preemptionMode": "Disabled"}).simulates_evictions


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"scoringStrategy": {"type": "leastallocated"}},
            'scoringStrategy.type: Invalid value: "leastallocated": invalid ScoringStrategyType',
        ),
        (
            {"scoringStrategy": {}},
            'scoringStrategy.type: Invalid value: "": invalid ScoringStrategyType',
        ),
        (
            {"preemptionMode": "on"},
            'preemptionMode: Invalid value: "on": invalid PreemptionMode',
        ),
        ({"mode": "fast"}, "mode"),
        ({"cache": {"kind": "best"}}, "cache.kind"),
        ({"cacheResyncPeriodSeconds": "5s"}, "cacheResyncPeriodSeconds"),
        ({"native": {"fidelity": "guess"}}, "native.fidelity"),
        ({"native": {"packingWeight": -1}}, "native.packingWeight: must not be negative"),
        ({"native": {"alignmentWeight": 0, "packingWeight": 0, "balanceWeight": 0}}, "native"),
        ({"scoringstrategy": {}}, "scoringstrategy: there is no such field"),
        ({"cache": {"resync": "All"}}, "cache.resync: there is no such field"),
        ({"namespaces": ["a"]}, "namespaces: upstream has removed this field"),
    ],
)
def test_a_wrong_field_is_named(args: dict[str, object], message: str) -> None:
    """Upstream's own two checks have upstream's words."""
    with pytest.raises(ConfigError) as caught:
        read_args(args)
    assert message in str(caught.value)


def test_values_that_upstream_takes_silently_are_noted() -> None:
    """They mean what they mean upstream."""
    settings = read_args(
        {
            "scoringStrategy": {
                "type": "LeastAllocated",
                "resources": [{"name": "cpu", "weight": -4}],
            },
            "cache": {"foreignPodsDetect": "some", "resyncMethod": "x", "resyncScope": "y"},
        }
    )
    assert settings.weights == {"cpu": 1}
    assert settings.cache.foreign_pods is ForeignPods.ALL
    assert settings.cache.fingerprint_pods is FingerprintPods.ALL
    assert settings.cache.resync_scope is ResyncScope.ONLY_RESOURCES
    assert len(settings.notes) == 4


def test_every_field_is_on_the_reference_page() -> None:
    """What can be set can be looked up."""
    page = Path(__file__).parents[3].joinpath("docs/reference/numa-plugin.md").read_text("utf-8")
    for prefix, kind in (
        ("", NodeResourceTopologyMatchArgs),
        ("cache.", CacheArgs),
        ("native.", NativeArgs),
    ):
        for field in msgspec.structs.fields(kind):
            if not isinstance(field.default, Wire):
                assert f"`{prefix}{field.encode_name}`" in page


def test_b21_how_strict_a_profile_is_can_be_said() -> None:
    """Nodes that promise less are taken last by default, as they always were."""
    assert read_args({}).strictness == Strictness()
    args = {"missingData": "Refuse", "requiredPolicy": "restricted", "weakerPolicy": "Allow"}
    assert read_args(args).strictness == Strictness(
        missing_data=Leniency.REFUSE,
        required_policy=TopologyPolicy.RESTRICTED,
        weaker_policy=Leniency.ALLOW,
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            {"missingData": "refuse"},
            'missingData: "refuse" is not one of Allow, Deprioritise, Refuse',
        ),
        ({"weakerPolicy": ""}, 'weakerPolicy: "" is not one of Allow, Deprioritise, Refuse'),
        (
            {"requiredPolicy": "SingleNUMANode"},
            'requiredPolicy: "SingleNUMANode" is not one of none,',
        ),
        ({"missingData": "Refuse", "mode": "upstream"}, "missingData: only native mode has it"),
        ({"missingData": 1}, "missingData"),
    ],
)
def test_b21_a_strictness_that_makes_no_sense_is_named(args: dict[str, object], words: str) -> None:
    """By its field, with what there is to choose from."""
    with pytest.raises(ConfigError) as raised:
        read_args(args)
    assert words in str(raised.value)
