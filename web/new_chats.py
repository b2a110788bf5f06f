"""What new chats begin with: the server's own system prompt or a preset, and a person's defaults.

Event loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool

from inference.engine import Engine
from storage.preferences import Preferences
from storage.presets import Presets
from storage.records import PresetRecord
from web.opening import Opening


class NewChats:
    """The beginnings of chats, and which of them the engine keeps computed."""

    def __init__(self, engine: Engine, presets: Presets, preferences: Preferences) -> None:
        self.own_prompt = engine.config.system_prompt
        self._engine = engine
        self._presets = presets
        self._preferences = preferences
        self._shared: frozenset[str] = frozenset()

    async def opening(self, person: str) -> Opening:
        """How a person's new chat begins where nothing else is chosen."""
        defaults = await run_in_threadpool(self._preferences.defaults_of, person)
        presets = await self.presets(person)
        text = next((p.text for p in presets if p.id == defaults.preset_id), self.own_prompt)
        return Opening.of(text, defaults.choices)

    async def presets(self, person: str) -> Sequence[PresetRecord]:
        """What a person has to choose from."""
        return await run_in_threadpool(self._presets.list_for, person)

    async def name_of(self, system_prompt: str, person: str) -> str | None:
        """What that text is called among a person's presets."""
        presets = await self.presets(person)
        return next((preset.name for preset in presets if preset.text == system_prompt), None)

    async def share(self) -> None:
        """Have the engine compute the shared presets ahead, as they are now."""
        shared = await run_in_threadpool(self._presets.list_shared)
        self._shared = frozenset(preset.text for preset in shared)
        self._engine.share(dict.fromkeys(preset.text for preset in shared))

    def is_shared(self, system_prompt: str) -> bool:
        """Whether it is computed once for everybody."""
        return system_prompt == self.own_prompt or system_prompt in self._shared
