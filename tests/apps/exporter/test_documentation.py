"""The exporter's reference page is complete."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from numakube.apps.exporter.settings import SETTINGS, RunSettings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exporter.md"


def test_every_setting_is_on_the_page() -> None:
    """Its flag, its key and its variable, on one line."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    of_a_call = {field.name for field in fields(RunSettings)}
    for setting in SETTINGS.all:
        if setting.name in of_a_call:
            continue
        wanted = [setting.flag.split()[0].split("/")[0], setting.key, setting.env]
        marks = [f"`{name}`" for name in wanted if name]
        assert any(all(mark in line for mark in marks) for line in lines), marks
