"""The plugin's loop: look at the host, tell the kubelet what has changed, and look again.

It looks when the configuration changes, when the kubelet restarts, now and then, and when asked. A
configuration that makes no sense leaves the last good one in force.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import ConfigError
from numakube.node.file_watch import FileWatch
from numakube.node.pci.device_files import remove_other_specifications
from numakube.node.pci.host_scan import Standing, Survey, SurveyOptions, claims_by_id, look
from numakube.node.pci.netlink import hear_uevents
from numakube.node.pci.pool_config import read_config_file
from numakube_sriov.pool_plugin import PoolPlugin
from numakube_sriov.pool_registration import PoolSocket

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.kube import Clock
    from numakube.node.device_plugin.plugin_messages import PluginOptions
    from numakube.node.pci.device_pools import Config, PoolSpec
    from numakube_sriov.metrics import SriovMetrics
    from numakube_sriov.pool_plugin import Places
    from numakube_sriov.pool_registration import KubeletFolders

_SETTLE_SECONDS: Final = 0.05
"""How long to wait for more when something has changed."""

_CLAIMS_SECONDS: Final = 5.0
"""How old it may be what claims have; before a device is given out, it is asked for again."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What the plugin is to do.

    Attributes:
        config_file: the pools.
        prefix: for pools without one of their own.
        places: where to read and write.
        folders: where the kubelet takes plugins.
        survey: how to look at the host.
        rescan: seconds between looks.
        uevents: look when the kernel announces devices, too.
    """

    config_file: Path
    prefix: str
    places: Places
    folders: KubeletFolders
    survey: SurveyOptions = field(default_factory=SurveyOptions)
    rescan: float = 10.0
    uevents: bool = False


@dataclass(slots=True)
class _Served:
    """A pool that is offered to the kubelet."""

    plugin: PoolPlugin
    endpoint: PoolSocket
    task: asyncio.Task[None]
    news: asyncio.Event
    options: PluginOptions


class Agent:
    """The plugin as a whole.

    Attributes:
        survey: what the last look has found; ``None`` before the first.
        config_trouble: why the configuration file is not in force; empty if it is.
    """

    def __init__(
        self,
        options: AgentOptions,
        *,
        clock: Clock,
        metrics: SriovMetrics,
        wake: asyncio.Event | None = None,
    ) -> None:
        """Prepare; the configuration is read, and has to make sense.

        Args:
            options: what to do.
            clock: for pauses.
            metrics: shows what is done.
            wake: setting it makes the plugin look at once.

        Raises:
            ConfigError: the configuration makes no sense.
        """
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._wake = wake or asyncio.Event()
        self._rng = Random()  # noqa: S311 - spreads pauses
        self._config_text: str | None = None
        self._served: dict[str, _Served] = {}
        self.survey: Survey | None = None
        self.config_trouble = ""
        self._config = self._read_config()

    async def run(self, stop: asyncio.Event) -> None:
        """Offer devices until *stop* is set."""
        async with asyncio.TaskGroup() as tasks:
            watchers = [
                tasks.create_task(self._file_watch().run()),
                tasks.create_task(self._end_with(stop)),
            ]
            if self._options.uevents:
                watchers.append(tasks.create_task(self._listen()))
            try:
                while not stop.is_set():
                    await self.look(tasks)
                    await self._pause(stop)
            finally:
                for task in (*watchers, *(served.task for served in self._served.values())):
                    task.cancel()

    @property
    def endpoints(self) -> Mapping[str, PoolSocket]:
        """The sockets by the resources of their pools."""
        return {resource: one.endpoint for resource, one in self._served.items()}

    def registration_trouble(self) -> str:
        """Return which pools the kubelet does not follow; empty if it follows all."""
        found = [f"{name}: {one.trouble}" for name, one in self.endpoints.items() if one.trouble]
        return "; ".join(found)

    def scan_trouble(self) -> str:
        """Return why the host cannot be looked at; empty if it can."""
        if self.survey is None:
            return "the host has not been looked at yet"
        return self.survey.inventory.trouble

    async def look(self, tasks: asyncio.TaskGroup) -> None:
        """Look at the host once, and tell the kubelet."""
        self._config = self._reread_config()
        started = self._clock.monotonic()
        survey = await asyncio.to_thread(
            look,
            self._config,
            self._options.places.host,
            self._options.survey,
            before=self.survey,
            now=started,
        )
        self._metrics.scan_seconds.observe(self._clock.monotonic() - started)
        self._note(survey)
        before, self.survey = self.survey, survey
        await self._drop(survey)
        pods = self._options.places.pods
        claimed = await pods.claimed(within=_CLAIMS_SECONDS) if pods is not None else {}
        for pool in survey.config.pools:
            standings = _unclaimed(survey.standings[pool.resource], claimed)
            await self._offer(pool, standings, tasks)
        await self._clean(before, survey)

    async def _offer(
        self, pool: PoolSpec, standings: Mapping[str, Standing], tasks: asyncio.TaskGroup
    ) -> None:
        served = self._served.get(pool.resource)
        if served is None and not standings:
            # The kubelet would show a resource of which there is none.
            return
        plugin = served.plugin if served is not None else self._plugin(pool)
        plugin.pool = pool
        trouble = await asyncio.to_thread(plugin.write_specification, standings)
        if trouble:
            _log.error("specification_not_written", resource=pool.resource, why=trouble)
            standings = {
                id_: Standing(one.member, one.trouble or trouble, one.lost_at)
                for id_, one in standings.items()
            }
        self._tell(pool, plugin.standings, standings)
        plugin.update(pool, standings)
        if served is None:
            self._serve(plugin, tasks)

    def _plugin(self, pool: PoolSpec) -> PoolPlugin:
        return PoolPlugin(pool, self._options.places, self._metrics, self._wake.set)

    def _serve(self, plugin: PoolPlugin, tasks: asyncio.TaskGroup) -> None:
        news = asyncio.Event()
        endpoint = PoolSocket(
            plugin,
            self._options.folders,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
            news=news,
        )
        resource = plugin.pool.resource
        task = tasks.create_task(endpoint.run(), name=f"endpoint {resource}")
        self._served[resource] = _Served(plugin, endpoint, task, news, plugin.options)

    async def _drop(self, survey: Survey) -> None:
        """End the endpoints of pools that are gone, or whose options have changed."""
        pools = {pool.resource: pool for pool in survey.config.pools}
        for resource, served in tuple(self._served.items()):
            pool = pools.get(resource)
            if pool is not None and self._plugin(pool).options == served.options:
                continue
            served.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await served.task
            del self._served[resource]
            self._metrics.forget(resource)
            if pool is None:
                _log.info("pool_removed", resource=resource)

    async def _clean(self, before: Survey | None, survey: Survey) -> None:
        """Remove what was written about devices that are forgotten, and about former pools."""
        for resource, served in self._served.items():
            known = before.standings.get(resource, {}) if before is not None else {}
            for id_ in known.keys() - survey.standings.get(resource, {}).keys():
                served.plugin.forget(id_)
        folder = self._options.places.cdi
        if folder is not None and (before is None or before.config != survey.config):
            try:
                await asyncio.to_thread(remove_other_specifications, folder, survey.config.pools)
            except OSError as error:
                _log.warning("specifications_left", why=str(error))

    def _tell(
        self, pool: PoolSpec, before: Mapping[str, Standing], after: Mapping[str, Standing]
    ) -> None:
        """Log what has become of devices."""
        for id_, standing in after.items():
            known = before.get(id_)
            if standing.trouble and (known is None or known.trouble != standing.trouble):
                why = standing.trouble
                _log.warning("device_unhealthy", resource=pool.resource, device=id_, why=why)
            elif known is not None and known.trouble and not standing.trouble:
                _log.info("device_healthy", resource=pool.resource, device=id_)
        new, lost = after.keys() - before.keys(), before.keys() - after.keys()
        if new or lost:
            _log.info(
                "devices", resource=pool.resource, count=len(after), new=len(new), lost=len(lost)
            )

    def _note(self, survey: Survey) -> None:
        """Log what cannot be read, once."""
        self._metrics.unreadable.set(len(survey.inventory.unreadable))
        known = self.survey.inventory.unreadable if self.survey is not None else ()
        for unreadable in survey.inventory.unreadable:
            if unreadable not in known:
                _log.warning("function_unreadable", address=unreadable.address, why=unreadable.why)
        trouble = survey.inventory.trouble
        if trouble and (self.survey is None or self.survey.inventory.trouble != trouble):
            _log.error("bus_unreadable", why=trouble)
        refused = self.survey.shares.refused if self.survey is not None else ()
        if survey.shares.refused != refused:
            reasons = Counter((share.resource, share.why) for share in survey.shares.refused)
            for (resource, why), count in reasons.items():
                _log.debug("not_offered", resource=resource, devices=count, why=why)

    def _read_config(self) -> Config:
        config = read_config_file(self._options.config_file, prefix=self._options.prefix)
        self._config_text = _text_of(self._options.config_file)
        for remark in config.remarks:
            _log.warning("configuration", where=remark.where, detail=remark.what)
        self._metrics.show_config(config)
        return config

    def _reread_config(self) -> Config:
        """Return the configuration; read again if its file has changed and makes sense."""
        if _text_of(self._options.config_file) == self._config_text:
            if self.config_trouble:
                _log.info("configuration_restored")
                self.config_trouble = ""
                self._metrics.show_config(self._config)
            return self._config
        try:
            config = self._read_config()
        except ConfigError as error:
            if str(error) != self.config_trouble:
                _log.error("configuration_refused", why=str(error))
            self.config_trouble = str(error)
            self._metrics.config_failed()
            return self._config
        self.config_trouble = ""
        _log.info("configuration_read", pools=len(config.pools))
        return config

    def _file_watch(self) -> FileWatch:
        options = self._options
        files = [options.config_file, options.folders.kubelet_socket]
        return FileWatch(files, self._changed, sleep=self._clock.sleep)

    def _changed(self, path: Path) -> None:
        if path == self._options.config_file:
            self._wake.set()
        else:
            for served in self._served.values():
                served.news.set()

    async def _pause(self, stop: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(self._options.rescan or None):
                await self._wake.wait()
            await self._clock.sleep(0 if stop.is_set() else _SETTLE_SECONDS)
        self._wake.clear()

    async def _listen(self) -> None:
        """Look when the kernel announces devices."""
        await hear_uevents(self._wake.set, self._clock.sleep)
        _log.info("no_uevents", detail="changes are noticed when the host is looked at")

    async def _end_with(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()


def _unclaimed(
    standings: Mapping[str, Standing], claimed: Mapping[str, str]
) -> Mapping[str, Standing]:
    """Return devices of which those are unhealthy that a claim has: a DRA driver gave them out."""
    found = claims_by_id(claimed, standings) if claimed else {}
    return {
        id_: Standing(one.member, one.trouble or f"belongs to claim {found[id_]}", one.lost_at)
        if id_ in found
        else one
        for id_, one in standings.items()
    }


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
