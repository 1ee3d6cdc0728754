"""What is logged, over HTTP; the path and the body are those of Kubernetes' own components.

GET    /debug/flags/v                                    what is in force
PUT    /debug/flags/v[?for=5m][&module=NAME|&pod=NS/NAME]  a klog verbosity, or the name of a level
DELETE /debug/flags/v?module=NAME|pod=NS/NAME            take a rule back

A rule for a module or a pod ends after ten minutes unless told otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from numakube.apps.debugging.documents import json_answer
from numakube.apps.host.common_settings import LEVELS, SWITCH, LogSubject, level_of_verbosity
from numakube.apps.host.http_serving import body_of
from numakube.errors import ConfigError, InvalidValue
from numakube.values.times import SECOND, parse_duration

if TYPE_CHECKING:
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.clock import Clock

PATH: Final = "/debug/flags/v"
RULE_SECONDS: Final = 600.0
LONGEST_SECONDS: Final = 24 * 3600.0
_LONGEST_BODY: Final = 32


class Levels:
    """The endpoint of one process."""

    def __init__(self, speaker: Speaker, clock: Clock) -> None:
        self._speaker = speaker
        self._clock = clock

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [
            web.get(PATH, access.guarded(self._show)),
            web.put(PATH, access.guarded(self._set)),
            web.delete(PATH, access.guarded(self._remove)),
        ]

    async def _show(self, _: web.Request) -> web.Response:
        left = SWITCH.seconds_left()
        rules = [
            {
                "module": rule.subject.module,
                "pod": rule.subject.pod,
                "level": rule.level,
                "expiresInSeconds": round(rule.seconds_left, 3),
            }
            for rule in SWITCH.rules()
        ]
        general = {
            "level": SWITCH.level,
            "expiresInSeconds": None if left is None else round(left, 3),
        }
        return json_answer(self._speaker.document("LogLevels", general=general, rules=rules))

    async def _set(self, request: web.Request) -> web.Response:
        level = _level((await body_of(request)).decode(errors="replace").strip()[:_LONGEST_BODY])
        subject, text = _subject(request), request.query.get("for")
        seconds = None if text is None else _seconds(text)
        if subject is not None:
            seconds = RULE_SECONDS if seconds is None else seconds
            try:
                SWITCH.set_rule(subject, level, seconds, self._clock)
            except ConfigError as error:
                raise web.HTTPConflict(text=f"{error}\n") from None
            what = subject.module or f"pod {subject.pod}"
            return web.Response(text=f"logging {what} from {level} on for {seconds:g} s\n")
        if seconds is None:
            SWITCH.set(level)
            return web.Response(text=f"logging from {level} on\n")
        SWITCH.set_for(level, seconds, self._clock)
        return web.Response(text=f"logging from {level} on for {text}\n")

    async def _remove(self, request: web.Request) -> web.Response:
        subject = _subject(request)
        if subject is None:
            raise web.HTTPBadRequest(text="name a module or a pod\n")
        if not SWITCH.remove_rule(subject):
            raise web.HTTPNotFound(text=f"there is no rule for {subject.module or subject.pod}\n")
        return web.Response(text="as everything else again\n")


def _level(word: str) -> str:
    if word.isdecimal():
        return level_of_verbosity(int(word))
    if word in LEVELS:
        return word
    names = ", ".join(LEVELS)
    raise web.HTTPBadRequest(text=f"{word!r} is neither a verbosity nor one of {names}\n")


def _subject(request: web.Request) -> LogSubject | None:
    module, pod = request.query.get("module", ""), request.query.get("pod", "")
    if module and pod:
        raise web.HTTPBadRequest(text="either a module or a pod\n")
    if pod and "/" not in pod:
        raise web.HTTPBadRequest(text=f"pod: {pod!r} is not NAMESPACE/NAME\n")
    return LogSubject(module=module, pod=pod) if module or pod else None


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text) / SECOND
    except InvalidValue as error:
        raise web.HTTPBadRequest(text=f"for: {error}\n") from None
    if not 0 < seconds <= LONGEST_SECONDS:
        raise web.HTTPBadRequest(text=f"for: {text} is not a while of a day at most\n")
    return seconds
