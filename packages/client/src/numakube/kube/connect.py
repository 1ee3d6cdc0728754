"""From a configuration to a client."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numakube.kube.client import DEFAULT_BURST, DEFAULT_RATE, Client
from numakube.kube.clock import SystemClock
from numakube.kube.connection.credentials import authenticator_for
from numakube.kube.connection.http import HttpTransport
from numakube.kube.log_lines import ensure_configured

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from numakube.kube.clock import Clock, RetryPolicy
    from numakube.kube.connection.cluster_config import ClusterConfig


def connect(
    config: ClusterConfig,
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
    env: Mapping[str, str] = os.environ,
    interactive: bool = False,
    user_agent: str = "numakube",
    field_manager: str = "numakube",
    rate: float = DEFAULT_RATE,
    burst: int = DEFAULT_BURST,
    retry: RetryPolicy | None = None,
    request_seconds: float | None = None,
) -> Client:
    """Return a client for the cluster that *config* describes; close it when done.

    Args:
        config: which server, and as whom.
        clock: the clock for retries, rates and expiry.
        rng: the source of jitter.
        env: the environment for an exec plugin.
        interactive: standard input is a terminal on which an exec plugin may ask.
        user_agent: how to introduce ourselves.
        field_manager: as whom to own fields that are written.
        rate: requests per second on average; 0 for no limit.
        burst: requests at once.
        retry: which requests are sent again; the usual ones by default.
        request_seconds: the most that any request but a stream may take.
    """
    ensure_configured()
    clock = clock or SystemClock()
    auth = authenticator_for(config.user, clock=clock, env=env, interactive=interactive)
    transport = HttpTransport(
        config, auth=auth, clock=clock, user_agent=user_agent, request_seconds=request_seconds
    )
    return Client(
        transport,
        clock=clock,
        rng=rng,
        retry=retry,
        rate=rate,
        burst=burst,
        namespace=config.namespace,
        field_manager=field_manager,
    )
