"""Bases for kustomize: one folder a component, and one with what most clusters want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.yamls import dump_yaml
from numakube.manifests.components import COMPONENTS, DEFAULT, Choices, objects_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER: Final = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def bases() -> dict[str, str]:
    """Return the files by path."""
    folders = {"default": DEFAULT, **{name: (name,) for name in COMPONENTS}}
    files: dict[str, str] = {}
    for folder, components in folders.items():
        files[f"{folder}/objects.yaml"] = _text(objects_of(components, Choices()))
        files[f"{folder}/kustomization.yaml"] = dump_yaml(
            {**_HEADER, "resources": ["objects.yaml"]}
        )
    return files


def _text(documents: Iterable[dict[str, Any]]) -> str:
    return "---\n".join(dump_yaml(one) for one in documents)
