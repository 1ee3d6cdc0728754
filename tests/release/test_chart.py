"""The Helm chart renders to what we deploy without it."""

from __future__ import annotations

import copy
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from release.alerts import prometheus_rule
from release.chart import CHART_COMPONENTS, chart, default_values
from tests.release.helm_rendering import render

from numakube.api.crds import NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD, UPDATE_CRD, crd
from numakube.api.yaml_text import load_manifests, load_yaml
from numakube.insight.scheduler_engine import tried
from numakube.manifests.components import COMPONENTS, Choices, objects_of
from numakube.manifests.pod_template_parts import HASH
from numakube.manifests.release_image import IMAGE

KIND = "CustomResourceDefinition"
FOLDER = Path(__file__).parents[2] / "deploy" / "chart"
FILES = {file.path: file.text for file in chart()}
TEMPLATES = [path for path in FILES if path.startswith("templates/") and path.endswith(".yaml")]


def rendered(values: dict[str, Any], namespace: str = "numakube") -> list[dict[str, Any]]:
    """Return the objects of all templates."""
    texts = [render(FILES[path], values, namespace=namespace) for path in TEMPLATES]
    return [manifest for text in texts for manifest in load_manifests(text, "template")]


def by_key(documents: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return objects by kind, namespace and name."""
    return {
        (
            document["kind"],
            document["metadata"].get("namespace", ""),
            document["metadata"]["name"],
        ): document
        for document in documents
    }


def values_with(**switches: bool) -> dict[str, Any]:
    """Return the default values with components on or off."""
    values = copy.deepcopy(default_values())
    for name, enabled in switches.items():
        values[name]["enabled"] = enabled
    return values


def without_kinds(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what Helm makes in its own way, and the leases, which programs make."""
    left_out = ("Namespace", "CustomResourceDefinition", "Lease")
    return [document for document in documents if document["kind"] not in left_out]


def test_the_files_are_up_to_date() -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/release`` after a change."""
    if os.environ.get("UPDATE_MANIFESTS"):
        shutil.rmtree(FOLDER, ignore_errors=True)
        for path, text in FILES.items():
            (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
            (FOLDER / path).write_text(text, encoding="utf-8")
    written = {
        str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    assert written == FILES


def unhashed(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the digest of the configuration, which Helm makes in its own way."""
    for document in documents:
        metadata = document.get("spec", {}).get("template", {}).get("metadata", {})
        if metadata.get("annotations", {}).keys() == {HASH}:
            del metadata["annotations"]
    return documents


def test_the_default_values_render_to_what_deploy_applies() -> None:
    """Exporter and scheduler."""
    expected = objects_of(("api", "exporter", "scheduler"), Choices())
    found = without_kinds(unhashed(rendered(default_values())))
    assert by_key(found) == by_key(without_kinds(unhashed(expected)))


def test_the_operators_kinds_come_with_the_operator_alone_and_stay() -> None:
    """Helm would delete all objects of a kind together with it."""
    names = {path for path in FILES if path.startswith("crds/")}
    assert names == {f"crds/{NRT_CRD}", f"crds/{UPDATE_CRD}"}
    assert not any(item["kind"] == KIND for item in rendered(default_values()))
    found = [item for item in rendered(values_with(operator=True)) if item["kind"] == KIND]
    for item in found:
        assert item["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert found == [crd(OPERATOR_CRD), crd(SCHEDULER_CRD)]


def test_every_lease_is_part_of_the_release() -> None:
    """So that it goes when the release does, although programs hold it."""
    values = values_with(**dict.fromkeys(CHART_COMPONENTS, True))
    values["scheduler"]["name"] = "mine"
    found = rendered(values, "elsewhere")
    held = {
        name
        for item in found
        if item["kind"] == "Role"
        for rule in item["rules"]
        if rule["resources"] == ["leases"]
        for name in rule.get("resourceNames", ())
    }
    leases = {key: one for key, one in by_key(found).items() if key[0] == "Lease"}
    of_the_operators_scheduler = "numa-scheduler-leader"
    names = held - {of_the_operators_scheduler}
    assert leases.keys() == {("Lease", "elsewhere", name) for name in names}
    assert "mine" in names
    assert all("spec" not in lease for lease in leases.values())


def scheduler_with(**chosen: Any) -> tuple[dict[str, Any], str]:
    """Return the scheduler's configuration with some values, and the digest on its pods."""
    values = copy.deepcopy(default_values())
    values["scheduler"] |= chosen
    found = by_key(rendered(values))
    text = found["ConfigMap", "numakube", "numakube-scheduler-config"]["data"]["config.yaml"]
    deployment = found["Deployment", "numakube", "numakube-scheduler"]
    digest: str = deployment["spec"]["template"]["metadata"]["annotations"][HASH]
    tree: Any = load_yaml(text, "config.yaml")
    tried(tree, "config.yaml")
    return tree, digest


def test_profiles_and_their_arguments_can_be_chosen_and_a_change_rolls_the_pods() -> None:
    """B13, C24: cache, scoring, foreign pods, resync and more profiles, from values."""
    plugin = "NodeResourceTopologyMatch"
    args = {"cache": {"kind": "overreserve"}, "cacheResyncPeriodSeconds": 10}
    more: dict[str, Any] = {"schedulerName": "b", "pluginConfig": [{"name": plugin, "args": args}]}
    more["plugins"] = {"multiPoint": {"enabled": [{"name": plugin}]}}
    usual, before = scheduler_with()
    tree, after = scheduler_with(pluginConfig=[{"name": plugin, "args": args}], profiles=[more])

    assert [profile["schedulerName"] for profile in tree["profiles"]] == ["numakube-scheduler", "b"]
    assert tree["profiles"][0]["pluginConfig"] == [{"name": plugin, "args": args}]
    assert tree["profiles"][1] == more
    assert "pluginConfig" not in usual["profiles"][0]
    assert before != after
    assert scheduler_with(replicas=3)[1] == before


def test_the_right_to_kube_schedulers_lease_is_given_on_request() -> None:
    """B16: a second scheduler has no business with it."""
    values = default_values()
    key = ("Role", "kube-system", "numakube-scheduler")
    assert key not in by_key(rendered(values))
    values["scheduler"]["defaultScheduler"]["enabled"] = True
    (_, held) = by_key(rendered(values))[key]["rules"]
    assert held["resourceNames"] == ["kube-scheduler"]
    deployed = objects_of(["scheduler"], Choices(scheduler_name="default-scheduler"))
    assert by_key(deployed)[key] == by_key(rendered(values))[key]


def test_a_configuration_of_ones_own_replaces_ours() -> None:
    """C27: the whole file, with names of its own."""
    own = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podMaxBackoffSeconds": 20,
        "profiles": [{"schedulerName": "topo-a"}, {"schedulerName": 'it\'s "b"'}],
    }
    tree, digest = scheduler_with(configuration=own)
    assert tree == own
    assert digest != scheduler_with()[1]


@pytest.mark.parametrize("component", [name for name in COMPONENTS if name != "api"])
def test_each_component_renders_to_what_deploy_applies(component: str) -> None:
    """Alone, with every choice made otherwise."""
    off = {name: name == component for name in COMPONENTS if name != "api"}
    values = values_with(**off)
    values["image"] |= {"repository": "r.example:5000/x", "tag": "2", "pullPolicy": "Always"}
    values["scheduler"] |= {"name": "mine", "replicas": 3}
    values["exporter"] |= {"period": "5s", "maxSilence": "5m", "measure": True}
    choices = Choices(
        namespace="elsewhere",
        image="r.example:5000/x:2",
        pull_policy="Always",
        scheduler_name="mine",
        replicas=3,
        period="5s",
        max_silence="5m",
        measure=True,
    )
    found = by_key(without_kinds(unhashed(rendered(values, "elsewhere"))))
    assert found == by_key(without_kinds(unhashed(objects_of(("api", component), choices))))


@pytest.mark.parametrize("component", CHART_COMPONENTS)
def test_where_and_how_pods_run_can_be_chosen(component: str) -> None:
    """For every component, beside what is its own; what is empty is left out."""
    values = values_with(**{name: name == component for name in CHART_COMPONENTS})
    values["image"]["pullSecrets"] = [{"name": "mine"}]
    chosen = {
        "nodeSelector": {"pool": "true"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [],
        "priorityClassName": "",
    }
    values[component] |= {
        **chosen,
        "resources": {"limits": {"memory": "2Gi"}},
        "extraArgs": ["--log-level=debug", "--odd=a b: 'c'"],
    }
    pod, plain = (
        next(
            item["spec"]["template"]["spec"]
            for item in rendered(some)
            if item["kind"] in ("DaemonSet", "Deployment")
        )
        for some in (values, values_with(**{name: name == component for name in CHART_COMPONENTS}))
    )

    assert {key: pod[key] for key in chosen if key in pod} == {k: v for k, v in chosen.items() if v}
    assert pod["imagePullSecrets"] == [{"name": "mine"}]
    assert "imagePullSecrets" not in plain
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"memory": "2Gi"}}
    assert container["args"] == [
        *plain["containers"][0]["args"],
        "--log-level=debug",
        "--odd=a b: 'c'",
    ]


def test_feature_gates_are_told_to_every_program() -> None:
    """As `numakube deploy` tells them, one flag for each; a kube-scheduler has gates of its own."""
    values = values_with(**dict.fromkeys(CHART_COMPONENTS, True))
    values["featureGates"] = {"SchedulerShards": False, "AllAlpha": True}
    told = 0
    for item in rendered(values):
        if item["kind"] in ("DaemonSet", "Deployment"):
            (container,) = item["spec"]["template"]["spec"]["containers"]
            flags = [one for one in container.get("args", ()) if "feature-gates" in one]
            ours = "numakube/numakube" in container["image"]
            assert flags == ours * [
                "--feature-gates=AllAlpha=true",
                "--feature-gates=SchedulerShards=false",
            ]
            told += ours
    assert told >= len(CHART_COMPONENTS)


def test_artifact_hub_is_told_what_it_shows() -> None:
    """Lists are YAML within texts there, and the picture is a file of the tree."""
    about = load_yaml(FILES["Chart.yaml"], "Chart.yaml")
    assert isinstance(about, dict)
    annotations = about["annotations"]
    assert all(isinstance(text, str) for text in annotations.values())
    listed: dict[str, Any] = {
        name: load_yaml(annotations[f"artifacthub.io/{name}"], name)
        for name in ("crds", "images", "links")
    }
    assert [one["image"] for one in listed["images"]] == [IMAGE]
    assert {one["kind"] for one in listed["crds"]} >= {
        "NodeResourceTopology", "NUMAResourcesOperator",
    }  # fmt: skip
    assert all(one["url"].startswith("https://") for one in listed["links"])
    assert (
        (FOLDER.parents[1] / about["icon"].partition("/raw/main/")[2])
        .read_text()
        .startswith("<svg")
    )
    assert about["maintainers"]
    assert about["sources"]


def test_every_value_is_explained() -> None:
    """By a comment right above it, and the file still has just the default values."""
    text = FILES["values.yaml"]
    assert load_yaml(text, "values.yaml") == default_values()
    lines = text.splitlines()
    for key in ("repository", "enabled", "period", "replicas", "extraArgs", "tolerations"):
        places = [
            number for number, line in enumerate(lines) if line.lstrip().startswith(f"{key}:")
        ]
        assert places
        assert all(lines[number - 1].lstrip().startswith("# ") for number in places)


def test_values_in_the_documentation_exist() -> None:
    """Users copy them."""
    blocks = [
        block
        for page in (FOLDER.parents[1] / "docs").rglob("*.md")
        for block in re.findall(
            r'title="values.yaml"\n(.*?)```', page.read_text("utf-8"), re.DOTALL
        )
    ]

    def check(chosen: Any, known: Any) -> None:
        if isinstance(chosen, dict) and isinstance(known, dict) and known:
            assert chosen.keys() <= known.keys()
            for key, one in chosen.items():
                check(one, known[key])

    assert blocks
    for block in blocks:
        check(load_yaml(block, "values.yaml"), default_values())


def test_policies_and_budgets_can_be_left_out() -> None:
    """Of all components."""
    everything = {name: True for name in COMPONENTS if name != "api"}
    values = values_with(**everything, networkPolicy=False, podDisruptionBudget=False)
    kinds = {item["kind"] for item in rendered(values)}
    assert not kinds & {"NetworkPolicy", "PodDisruptionBudget"}


def test_alerts_keep_their_own_expressions() -> None:
    """Prometheus's templates are no templates of Helm's."""
    values = values_with(prometheusRule=True, serviceMonitor=True)
    found = by_key(rendered(values))
    rule = prometheus_rule("numakube")
    assert found["PrometheusRule", "numakube", rule["metadata"]["name"]] == rule
    assert ("PodMonitor", "numakube", "numakube-scheduler") in found


def test_the_schema_knows_every_value_and_refuses_others() -> None:
    """A mistyped value would do nothing, silently."""
    schema = load_yaml(FILES["values.schema.json"], "schema")
    assert isinstance(schema, dict)

    def check(value: Any, rule: dict[str, Any]) -> None:
        # Objects of Kubernetes are the API server's to check.
        if isinstance(value, dict) and "properties" in rule:
            assert rule["additionalProperties"] is False
            for key, one in value.items():
                check(one, rule["properties"][key])

    check(default_values(), schema)
