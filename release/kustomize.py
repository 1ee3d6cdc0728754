"""Bases for kustomize: one folder a component, and one with what most clusters want.

The scheduler's configuration is a file of its own, which kustomize puts into a ConfigMap with a
name made from the content: an overlay replaces it, and pods start again when it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.yaml_text import dump_yaml
from numakube.manifests.components import COMPONENTS, DEFAULT, Choices, objects_of
from numakube.manifests.scheduler import CONFIG, NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER: Final = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def bases() -> dict[str, str]:
    """Return the files by path."""
    folders = {"default": DEFAULT, **{name: (name,) for name in COMPONENTS}}
    files: dict[str, str] = {}
    for folder, components in folders.items():
        documents = objects_of(components, Choices())
        generated = [document for document in documents if _is_configuration(document)]
        rest = [_without_hash(document) for document in documents if document not in generated]
        files[f"{folder}/objects.yaml"] = _text(rest)
        files |= {
            f"{folder}/{key}": text for entry in generated for key, text in entry["data"].items()
        }
        kustomization = {
            **_HEADER,
            "resources": ["objects.yaml"],
            **({"configMapGenerator": [_generator(one) for one in generated]} if generated else {}),
        }
        files[f"{folder}/kustomization.yaml"] = dump_yaml(kustomization)
    return files


def _is_configuration(document: dict[str, Any]) -> bool:
    return (document["kind"], document["metadata"]["name"]) == ("ConfigMap", CONFIG)


def _generator(document: dict[str, Any]) -> dict[str, Any]:
    return {**document["metadata"], "files": list(document["data"])}


def _without_hash(document: dict[str, Any]) -> dict[str, Any]:
    """Return *document* without the digest of a configuration, which kustomize makes itself."""
    if document["metadata"]["name"] == NAME and document["kind"] == "Deployment":
        del document["spec"]["template"]["metadata"]["annotations"]
    return document


def _text(documents: Iterable[dict[str, Any]]) -> str:
    return "---\n".join(dump_yaml(document) for document in documents)
