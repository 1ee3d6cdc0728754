"""Clusters for tests of pages, and settings for all of these tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about the load of the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

pytest_plugins = ["tests.sites.plugin"]
