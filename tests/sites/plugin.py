"""The fixtures by which tests get their clusters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from tests.real.api_server import RealServer, assets
from tests.sites.bare import BareOpener, bare_lab, bare_real
from tests.sites.real_site import real_site

from numakube_lab.testing import Opener, lab_site

SITES = ("lab", "real") if assets() is not None else ("lab",)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A real kube-apiserver that all tests of this process share."""
    with RealServer(tmp_path_factory.mktemp("real")) as server:
        yield server


@pytest.fixture(params=SITES)
def sites(request: pytest.FixtureRequest) -> Opener:
    """What opens a cluster: on the lab and, if there is one, on a real kube-apiserver."""
    if request.param == "lab":
        return lab_site
    return partial(real_site, request.getfixturevalue("shared_server"))


@pytest.fixture(params=SITES)
def bare_servers(request: pytest.FixtureRequest) -> BareOpener:
    """What opens an API server without anything on it, the lab's or a real one."""
    if request.param == "lab":
        return bare_lab
    return partial(bare_real, request.getfixturevalue("shared_server"))
