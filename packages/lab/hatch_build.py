"""What numakube-lab depends on; numakube itself in exactly the version of the lab."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Fills in the dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field of *metadata*."""
        metadata["dependencies"] = [
            f"numakube=={metadata['version']}",
            # The lab serves HTTPS with a certificate authority of its own and token files.
            "cryptography>=44",
            "grpcio>=1.70",
            "h2>=4.2",
            "protobuf>=5.29",
            "uvloop>=0.21",
        ]
