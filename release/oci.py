"""OCI image layouts, made by hand: what registries store, as files (image-spec v1.1.1).

A layout is a tree of blobs named after their checksums, with an index of what can be pulled. Tools
that copy images (skopeo, oras, crane) push it to any registry, so that building needs no engine.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from release.archives import tar

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
CHART_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CHART_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
TAG: Final = "org.opencontainers.image.ref.name"
Descriptor = dict[str, Any]


def sha256(content: bytes) -> str:
    """Return a digest as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(slots=True)
class Layout:
    """Blobs by digest, and what the index lists."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    listed: list[Descriptor] = field(default_factory=list)

    def add(self, content: bytes, media_type: str, **more: object) -> Descriptor:
        """Store *content*, and return what refers to it."""
        digest = sha256(content)
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content), **more}

    def add_json(self, document: Mapping[str, Any], media_type: str, **more: object) -> Descriptor:
        """Store a document in one spelling."""
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return self.add(text.encode(), media_type, **more)

    def read(self, descriptor: Descriptor) -> dict[str, Any]:
        """Return the document that *descriptor* refers to, and that has its checksum."""
        content = self.blobs[descriptor["digest"]]
        if sha256(content) != descriptor["digest"]:
            raise ValueError(f"{descriptor['digest']} has other content than its name says")
        document: dict[str, Any] = json.loads(content)
        return document

    def files(self) -> dict[str, str | bytes]:
        """Return all files of the layout by path."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.listed}
        return {
            "oci-layout": '{"imageLayoutVersion":"1.0.0"}',
            "index.json": json.dumps(index, sort_keys=True, separators=(",", ":")),
            **{f"blobs/sha256/{name.partition(':')[2]}": b for name, b in self.blobs.items()},
        }

    def archive(self) -> bytes:
        """Return the layout as one file, which tools call ``oci-archive``."""
        return tar(self.files())


def layout_of(files: Mapping[str, bytes]) -> Layout:
    """Return the layout that *files* by path make up."""
    blobs = {
        f"sha256:{path.rpartition('/')[2]}": content
        for path, content in files.items()
        if path.startswith("blobs/sha256/")
    }
    return Layout(blobs, json.loads(files["index.json"])["manifests"])


def chart_layout(chart: bytes, metadata: Mapping[str, Any], notes: Mapping[str, str]) -> Layout:
    """Return a packed Helm *chart* as ``helm push`` stores it, under its version."""
    layout = Layout()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add_json(metadata, CHART_CONFIG),
        "layers": [layout.add(chart, CHART_CONTENT)],
        "annotations": dict(notes),
    }
    tag = {TAG: metadata["version"]}
    layout.listed = [layout.add_json(manifest, MANIFEST, annotations=tag)]
    return layout


def with_layer(
    base: Layout, manifest: Descriptor, contents: bytes, config: Mapping[str, Any]
) -> Layout:
    """Return the image *manifest* of *base* with a layer and a *config* more."""
    image = base.read(manifest)
    document = _configured(base.read(image["config"]), sha256(contents), config)
    layout = Layout({layer["digest"]: base.blobs[layer["digest"]] for layer in image["layers"]})
    layer = layout.add(gzip.compress(contents, mtime=0), LAYER)
    body = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add_json(document, CONFIG),
        "layers": [*image["layers"], layer],
        "annotations": {"org.opencontainers.image.base.digest": manifest["digest"]},
    }
    layout.listed = [layout.add_json(body, MANIFEST, platform=_platform(document))]
    return layout


def _configured(below: Mapping[str, Any], layer: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an image with one more *layer*."""
    inherited, own = below.get("config", {}), config["config"]
    environment = merged_environment(inherited.get("Env", []), own.get("Env", []))
    return {
        **_platform(below),
        "config": {**inherited, **own, "Env": environment},
        "rootfs": {"type": "layers", "diff_ids": [*below["rootfs"]["diff_ids"], layer]},
        "history": [*below.get("history", []), {"created_by": "release/image.py"}],
    }


def _platform(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in ("architecture", "os", "variant") if key in config}


def merged_environment(below: list[str], above: list[str]) -> list[str]:
    """Return NAME=VALUE of *below* and *above*, each name once; *above* counts more."""
    values: dict[str, str] = {}
    for one in (*below, *above):
        name, _, value = one.partition("=")
        values[name] = value
    return [f"{name}={value}" for name, value in values.items()]


def joined(images: list[Layout], tag: str) -> Layout:
    """Return one layout with an index of *images* for several architectures, under *tag*."""
    layout = Layout()
    for image in images:
        layout.blobs.update(image.blobs)
    listed = [one for image in images for one in image.listed]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    layout.listed = [layout.add_json(index, INDEX, annotations={TAG: tag})]
    return layout
