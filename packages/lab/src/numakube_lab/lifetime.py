"""Parts of the lab that live for the length of ``async with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType


class Lifetime(ABC):
    """A part whose whole life is one generator: what comes before its ``yield`` starts it."""

    __life: AbstractAsyncContextManager[None]

    @abstractmethod
    def live(self) -> AsyncIterator[None]:
        """Start, yield once, and end."""

    async def __aenter__(self) -> Self:
        self.__life = asynccontextmanager(self.live)()
        await self.__life.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.__life.__aexit__(kind, error, trace)
