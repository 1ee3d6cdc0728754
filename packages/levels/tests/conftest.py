"""Commands run inside the test's process, and clusters, as in the tests of numakube itself."""

from __future__ import annotations

from hypothesis import settings
from tests.cli.conftest import numakube, usual_width
from tests.conftest import plain_logs

# How long an example takes says more about the load of the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

pytest_plugins = ["tests.sites.plugin"]
__all__ = ["numakube", "plain_logs", "usual_width"]
