"""Acting as another user: ``kubectl --as``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from numakube_lab.api.access.authentication import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from numakube_lab.api.access.authorization import Action, denied
from numakube_lab.api.wire.refusals import bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multidict import CIMultiDictProxy

    from numakube_lab.api.access.authorization import Authorizer

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "Impersonate-Extra-"
_ACCOUNT: Final = "system:serviceaccount:"


def acting_user(user: User, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> User:
    """Return who *user* acts as; refuse if they may not."""
    name = headers.get(_USER)
    if name is None:
        if wishes := " ".join(_wishes(headers)):
            raise bad_request(f"requested [{wishes}] without impersonating a user")
        return user
    wanted = _wanted(name, headers)
    for action in _actions(name, headers):
        if not authorizer.decide(user, action).allowed:
            raise denied(user, action)
    return wanted


def _wishes(headers: CIMultiDictProxy[str]) -> Iterator[str]:
    """Yield what is to be impersonated besides a user, as the real server prints it."""
    yield from (f"{{Group  {group}    }}" for group in headers.getall(_GROUP, []))
    for key, values in _extra(headers):
        yield from (f"{{UserExtra  {value}    {key}}}" for value in values)
    if uid := headers.get(_UID):
        yield f"{{UID  {uid}    }}"


def _wanted(name: str, headers: CIMultiDictProxy[str]) -> User:
    groups = list(headers.getall(_GROUP, []))
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    last = UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED
    if last not in groups:
        groups.append(last)
    return User(name, headers.get(_UID, ""), tuple(groups), tuple(_extra(headers)))


def _extra(headers: CIMultiDictProxy[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    names = dict.fromkeys(h.title() for h in headers if h.title().startswith(_EXTRA))
    for header in names:
        key = unquote(header.removeprefix(_EXTRA).lower())
        yield key, tuple(headers.getall(header))


def _actions(name: str, headers: CIMultiDictProxy[str]) -> Iterator[Action]:
    """Yield what one must be allowed to do to act as that user."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and account:
        yield Action("impersonate", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield Action("impersonate", resource="users", name=name)
    for group in headers.getall(_GROUP, []):
        yield Action("impersonate", resource="groups", name=group)
    group = "authentication.k8s.io"
    if uid := headers.get(_UID):
        yield Action("impersonate", group=group, resource="uids", name=uid)
    for key, values in _extra(headers):
        for value in values:
            yield Action(
                "impersonate", group=group, resource="userextras", subresource=key, name=value
            )
