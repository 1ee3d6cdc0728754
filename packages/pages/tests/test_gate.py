"""Who may see the dashboard."""

from __future__ import annotations

from typing import Any

import pytest
from packages.pages.tests.serving import served
from packages.pages.tests.world import empty_source

from numakube.apps.host.endpoint_access import Access
from numakube.errors import ClusterUnreachable
from numakube.kube.clock import ManualClock
from numakube_pages.dashboard import PREFIX
from numakube_pages.page_access import COOKIE, HEADERS, Gate


class Reviewer:
    """Answers reviews as an API server does: it knows some tokens, and who may look."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.known = {"reader-token": "reader", "stranger-token": "stranger"}
        self.allowed = {("reader", "get", PREFIX)}
        self.away = False

    async def create(self, resource: object, review: dict[str, Any]) -> dict[str, Any]:
        """Answer one review."""
        if self.away:
            raise ClusterUnreachable("https://api: connection refused")
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = self.known.get(spec["token"])
            return {"status": {"authenticated": user is not None, "user": {"username": user}}}
        wish = spec["nonResourceAttributes"]
        allowed = (spec["user"], wish["verb"], wish["path"]) in self.allowed
        return {"status": {"allowed": allowed}}


@pytest.fixture
def reviewer() -> Reviewer:
    """Return an API server, as far as reviews go."""
    return Reviewer()


def gate_of(reviewer: Reviewer, host: str = "10.0.0.1") -> Gate:
    """Return the gate of a dashboard that others can reach."""
    access = Access(reviewer, host=host)  # type: ignore[arg-type]
    return Gate(reviewer.clock, host=host, path=PREFIX, access=access)


async def test_on_loopback_everybody_may_look(reviewer: Reviewer) -> None:
    """To any user of the machine."""
    async with (
        served(empty_source(), gate=gate_of(reviewer, "127.0.0.1")) as visitor,
        visitor.get(PREFIX) as response,
    ):
        assert response.status == 200


async def test_elsewhere_a_browser_is_asked_for_a_token(reviewer: Reviewer) -> None:
    """And comes back to where it was."""
    async with served(empty_source(), gate=gate_of(reviewer)) as visitor:
        async with visitor.get(f"{PREFIX}nodes?q=a", allow_redirects=False) as response:
            assert response.status == 303
            login = response.headers["Location"]
        async with visitor.get(login) as response:
            assert f'value="{PREFIX}nodes?q=a"' in await response.text()
        form = {"token": "reader-token", "next": f"{PREFIX}nodes?q=a"}
        async with visitor.post(f"{PREFIX}login", data=form, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (303, f"{PREFIX}nodes?q=a")
            cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"Path={PREFIX}" in cookie
        assert "reader-token" not in cookie


@pytest.mark.parametrize("token", ["", "unknown", "stranger-token", "x" * 20000])
async def test_a_token_that_will_not_do_is_refused(reviewer: Reviewer, token: str) -> None:
    """Without a session."""
    async with (
        served(empty_source(), gate=gate_of(reviewer)) as visitor,
        visitor.post(f"{PREFIX}login", data={"token": token}) as response,
    ):
        assert response.status == 403
        assert "Set-Cookie" not in response.headers


async def session_of(visitor: Any) -> dict[str, str]:
    """Return the header of a browser that has signed in; the test client drops the cookie."""
    form = {"token": "reader-token", "next": ""}
    async with visitor.post(f"{PREFIX}login", data=form, allow_redirects=False) as response:
        return {"Cookie": f"{COOKIE}={response.cookies[COOKIE].value}"}


async def test_a_session_ends_with_the_right_or_the_day_or_by_wish(reviewer: Reviewer) -> None:
    """Whichever comes first."""

    async def sees() -> bool:
        async with visitor.get(PREFIX, headers=session, allow_redirects=False) as response:
            return response.status == 200

    async with served(empty_source(), gate=gate_of(reviewer)) as visitor:
        session = await session_of(visitor)
        assert await sees()
        reviewer.allowed.clear()
        await reviewer.clock.advance(11)
        assert not await sees()
        reviewer.allowed.add(("reader", "get", PREFIX))
        await reviewer.clock.advance(11)
        assert await sees()
        await reviewer.clock.advance(8 * 3600)
        assert not await sees()
        session = await session_of(visitor)
        assert await sees()
        async with visitor.post(f"{PREFIX}logout", headers=session, allow_redirects=False):
            pass
        assert not await sees()


async def test_programs_show_a_bearer_token(reviewer: Reviewer) -> None:
    """And are told by the status what is wrong with it."""
    async with served(empty_source(), gate=gate_of(reviewer)) as visitor:
        for token, status in (("reader-token", 200), ("stranger-token", 403), ("unknown", 403)):
            headers = {"Authorization": f"Bearer {token}"}
            async with visitor.get(f"{PREFIX}heat", headers=headers) as response:
                assert response.status == status


async def test_nobody_gets_in_while_nobody_can_say_who_they_are(reviewer: Reviewer) -> None:
    """It is not their fault, and says so."""
    reviewer.away = True
    async with (
        served(empty_source(), gate=gate_of(reviewer)) as visitor,
        visitor.get(PREFIX, headers={"Authorization": "Bearer reader-token"}) as response,
    ):
        assert response.status == 503
        assert "cannot check who you are" in await response.text()


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        "/etc",
        "javascript:alert(1)",
        "/dashboard/\\x",
        "",
    ],
)
async def test_signing_in_leads_nowhere_else(reviewer: Reviewer, target: str) -> None:
    """Whatever the address of the form says."""
    form = {"token": "reader-token", "next": target}
    async with (
        served(empty_source(), gate=gate_of(reviewer)) as visitor,
        visitor.post(f"{PREFIX}login", data=form, allow_redirects=False) as response,
    ):
        assert response.headers["Location"] == PREFIX


@pytest.mark.parametrize("path", ["", "heat", "nodes/no", "static/x/y", "login"])
async def test_every_answer_tells_browsers_to_be_careful(path: str) -> None:
    """Errors too."""
    async with served(empty_source()) as visitor, visitor.get(PREFIX + path) as response:
        for name, value in HEADERS.items():
            assert response.headers[name] == value
        assert "unsafe" not in response.headers["Content-Security-Policy"]


async def test_there_are_never_too_many_sessions(reviewer: Reviewer) -> None:
    """The oldest gives way."""
    gate = gate_of(reviewer)
    numbers = [await gate.enter("reader-token") for _ in range(300)]
    assert len(set(numbers)) == 300
    assert len(gate._sessions) == 256


async def test_a_form_has_a_bounded_size(reviewer: Reviewer) -> None:
    """Whatever else the server takes; and a stream is for those who read it."""
    async with served(empty_source(), gate=gate_of(reviewer)) as visitor:
        async with visitor.post(f"{PREFIX}login", data={"token": "x" * 100_000}) as response:
            assert response.status == 413
        async with visitor.head(f"{PREFIX}events", allow_redirects=False) as response:
            assert response.status == 405
