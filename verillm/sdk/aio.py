"""``AsyncClient``: the client for asyncio. Calls run in threads, so the event loop never waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from verillm.sdk.client import Client, ClientStatus, Prompt
from verillm.sdk.generation import Generation, Reset, Stream, TextDelta
from verillm.sdk.receipt import Receipt


class AsyncClient:
    """Takes what ``Client`` takes and raises what it raises."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.sync = Client(*args, **settings)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection to the scheduler."""
        await asyncio.to_thread(self.sync.close)

    async def generate(self, prompt: Prompt, **options: Any) -> Generation:
        """Submit one job and wait for its output; ``options`` as in ``Client.prepare``."""
        stream = await asyncio.to_thread(self._submit, prompt, options)
        try:
            return await asyncio.to_thread(lambda: stream.generation)
        except asyncio.CancelledError:
            stream.close()
            raise

    async def stream(self, prompt: Prompt, **options: Any) -> AsyncIterator[TextDelta | Reset]:
        """Submit one job and yield its TextDelta and Reset events. Leaving the loop abandons the job."""
        stream = await asyncio.to_thread(self._submit, prompt, options)
        events = iter(stream)
        try:
            while (event := await asyncio.to_thread(next, events, None)) is not None:
                yield event
        finally:
            stream.close()

    async def receipt(self, generation: Generation, timeout: float = 600.0) -> Receipt:
        """The receipt of a generation, once it is settled."""
        return await asyncio.to_thread(generation.receipt, True, timeout)

    async def deposit_escrow(self, amount: int) -> int:
        """Put ``amount`` token wei into escrow with the scheduler; returns the new escrow."""
        return await asyncio.to_thread(self.sync.deposit_escrow, amount)

    async def status(self) -> ClientStatus:
        """Where client and scheduler stand."""
        return await asyncio.to_thread(self.sync.status)

    def _submit(self, prompt: Prompt, options: dict[str, Any]) -> Stream:
        return self.sync.generate(prompt, **{**options, "stream": True})
