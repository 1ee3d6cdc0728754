"""What every long-running program needs: settings, command line, logs, server, shutdown.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.host.common_settings import (
        LogSettings,
        ServingSettings,
        listen_of,
        serving_on,
    )
    from numakube.apps.host.endpoint_access import Access
    from numakube.apps.host.http_serving import Elsewhere, Health, Serving
    from numakube.apps.host.process_life import (
        Surroundings,
        new_registry,
        quiet_collector,
        run_fast,
    )
    from numakube.apps.host.program import KLOG, Program, load_program
    from numakube.apps.host.settings_sources import (
        DURATION,
        SettingsTable,
        Values,
        group,
        setting,
    )

__all__ = [
    "DURATION",
    "KLOG",
    "Access",
    "Elsewhere",
    "Health",
    "LogSettings",
    "Program",
    "Serving",
    "ServingSettings",
    "SettingsTable",
    "Surroundings",
    "Values",
    "group",
    "listen_of",
    "load_program",
    "new_registry",
    "quiet_collector",
    "run_fast",
    "serving_on",
    "setting",
]

__getattr__ = lazy_names(
    __name__,
    {
        "common_settings": "LogSettings ServingSettings listen_of serving_on",
        "endpoint_access": "Access",
        "http_serving": "Elsewhere Health Serving",
        "process_life": "Surroundings new_registry quiet_collector run_fast",
        "program": "KLOG Program load_program",
        "settings_sources": "DURATION SettingsTable Values group setting",
    },
)
