"""A real browser, driven over the DevTools protocol: as much of it as our tests need.

async with Browser.launched(program, folder) as browser:
page = await browser.open(url, width=1440, height=900)
assert await page.evaluate("document.title") == "..."
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import aiohttp

from numakube.testing import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATIENCE_SECONDS = 50.0
"""Below the time limit of a test; a slow machine needs seconds for what takes milliseconds."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_LARGEST_MESSAGE = 64 << 20
_TEXT_NODE = 3
_KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
}


class BrowserError(Exception):
    """The browser refused a command, or a script in the page failed."""


class Browser:
    """A running browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    @classmethod
    @asynccontextmanager
    async def launched(cls, program: str, folder: Path) -> AsyncIterator[Browser]:
        """Start *program* with a profile of its own in *folder*, and end it with the context."""
        process = await asyncio.create_subprocess_exec(
            program,
            *FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await _address_in(folder, process)
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(address, max_msg_size=_LARGEST_MESSAGE) as socket,
            ):
                browser = cls(socket)
                reader = asyncio.create_task(browser._read())
                try:
                    yield browser
                finally:
                    with suppress(BrowserError, TimeoutError, ConnectionError):
                        await browser.call("Browser.close")
                    reader.cancel()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, TimeoutError):
                    await asyncio.wait_for(process.wait(), 10)
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def open(
        self, url: str, *, width: int = 1440, height: int = 900, dark: bool = False
    ) -> Page:
        """Return a new page at *url*, loaded."""
        target = await self.call("Target.createTarget", {"url": "about:blank"})
        attached = await self.call(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        page = Page(self, attached["sessionId"], target["targetId"])
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.resize(width, height)
        await page.prefer("dark" if dark else "light")
        await page.go(url)
        return page

    async def call(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message)
        found = await asyncio.wait_for(answer, PATIENCE_SECONDS)
        if "error" in found:
            raise BrowserError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            found = message.json()
            if "id" in found:
                waiting = self._answers.pop(found["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(found)
            elif found.get("sessionId") in self._pages:
                self._pages[found["sessionId"]].happened(found["method"], found["params"])


class Page:
    """One tab.

    Attributes:
        complaints: errors of scripts and of the browser: exceptions, refused content.
        requests: addresses that were asked for.
    """

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def happened(self, method: str, params: dict[str, Any]) -> None:
        """Take an event of the browser."""
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case _:
                pass

    async def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command about this page."""
        return await self._browser.call(method, params, self._session)

    async def go(self, url: str) -> None:
        """Load *url*."""
        self._loaded.clear()
        answer = await self.call("Page.navigate", {"url": url})
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_SECONDS)

    async def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", size)

    async def prefer(self, scheme: str) -> None:
        """Let the system prefer ``dark`` or ``light``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", {"features": features})

    async def without_scripts(self) -> None:
        """Switch JavaScript of pages off, from the next page on."""
        await self.call("Emulation.setScriptExecutionDisabled", {"value": True})

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression or a promise in the page."""
        answer = await self.call(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True},
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true in the page, and return its value."""
        try:
            # A page that is being left has nobody to answer.
            return await until(lambda: self.evaluate(expression), despite=(BrowserError,))
        except AssertionError as error:
            raise AssertionError(f"{expression}: {error}; {self.complaints}") from None

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code, number, text = _KEYS.get(key, ("", ord(key[0].upper()), key))
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        down = "keyDown" if text else "rawKeyDown"
        await self.call("Input.dispatchKeyEvent", {"type": down, "text": text, **event})
        await self.call("Input.dispatchKeyEvent", {"type": "keyUp", **event})

    async def mouse(self, kind: str, x: float, y: float, **others: Any) -> None:
        """Move, press, release or turn the wheel of the mouse."""
        await self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **others})

    async def text(self) -> str:
        """Return the text of the page, which needs no script to run in it."""
        document = await self.call("DOM.getDocument", {"depth": -1})
        return " ".join(_texts(document["root"]))

    async def close(self) -> None:
        """Close the tab."""
        await self._browser.call("Target.closeTarget", {"targetId": self._target})

    async def screenshot(self, *, whole: bool = False) -> bytes:
        """Return a picture of the window, or of the whole page."""
        options = {"format": "png", "captureBeyondViewport": whole}
        answer = await self.call("Page.captureScreenshot", options)
        return base64.b64decode(answer["data"])


async def _address_in(folder: Path, process: asyncio.subprocess.Process) -> str:
    """Return where the browser listens, which it writes into its profile."""
    file = folder / "DevToolsActivePort"

    def written() -> list[str]:
        if process.returncode is not None:
            raise BrowserError(f"the browser ended with {process.returncode}")
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    port, path = await until(written, lambda lines: len(lines) > 1)
    return f"ws://127.0.0.1:{port}{path}"


def _texts(node: dict[str, Any]) -> list[str]:
    own = [node["nodeValue"]] if node["nodeType"] == _TEXT_NODE else []
    return own + [text for child in node.get("children", ()) for text in _texts(child)]
