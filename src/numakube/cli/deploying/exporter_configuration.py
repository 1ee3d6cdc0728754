"""How what is deployed is configured by files of the user's: exporters, and pools of functions.

A file is read as the programs read it, so that a mistake is found before anything is deployed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def configuration_of_exporters(ctx: click.Context, param: click.Parameter, path: str | None) -> str:
    """Return the text of the file at *path*; raise `ConfigError` if an exporter refuses it."""
    del ctx, param
    if path is None:
        return ""
    from numakube.apps.exporter.exporter_config_file import read_options, values_in_file
    from numakube.apps.exporter.settings import SETTINGS
    from numakube.manifests.exporter import ExporterManifest

    file = Path(path)
    notes = list(read_options({}, env={}, files=[file], host="any").notes)
    flags = {word.partition("=")[0] for word in ExporterManifest().arguments()}
    told = values_in_file(file)
    for setting in SETTINGS.all:
        ours = flags & set(setting.flag.replace("/", " ").split())
        if setting.name in told and ours:
            notes.append(f"{setting.key} has no effect: the DaemonSet sets {ours.pop()}")
    for note in notes:
        click.echo(f"warning: {path}: {note}", err=True)
    return file.read_text(encoding="utf-8")


def pools_of_functions(
    ctx: click.Context, param: click.Parameter, path: str | None
) -> tuple[dict[str, Any], ...]:
    """Return the pools in the file at *path*; raise `ConfigError` if it makes no sense."""
    del ctx, param
    if path is None:
        return ()
    from numakube.node.pci.pool_config import read_entries

    entries, remarks = read_entries(Path(path))
    for remark in remarks:
        click.echo(f"warning: {path}: {remark}", err=True)
    return entries
