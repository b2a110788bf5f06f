"""A page that is fed with frames as the server makes them, without a model and without waiting for one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from functools import cache
from typing import Any, TypeVar

from markupsafe import Markup
from playwright.sync_api import Page

from inference.types import Delta
from web.generation import Generation
from web.languages import load_languages
from web.markdown import render_in_parts
from web.presenter import Presenter
from web.protocol import Finished, ServerFrame, Snapshot, encode
from web.views import MessageView

T = TypeVar("T")


LANGUAGE = "en"
NOTE_SOCKET = """
window.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    window.fed = this;
  }
};
"""
PUT = """(frames) => {
  for (const data of frames) window.fed.dispatchEvent(new MessageEvent('message', { data }));
}"""


class Feed:
    """Puts frames into the socket of a page's next documents, beside what the server sends."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.add_init_script(NOTE_SOCKET)

    def put(self, *frames: ServerFrame) -> None:
        """Let the page receive frames now."""
        self._page.evaluate(PUT, [encode(frame) for frame in frames])


def pending(conversation_id: str, reply_ids: Iterable[str]) -> Snapshot:
    """A transcript of replies that are about to be written."""
    views = (MessageView(each, "assistant", "running", Markup()) for each in reply_ids)
    return Snapshot("", conversation_id, "".join(map(_presenter().message, views)), None)


def streamed(reply_id: str, text: str, cuts: Iterable[int]) -> list[ServerFrame]:
    """The frames of a reply that is rendered at these lengths, and its end."""
    frames = written(reply_id, text, cuts)
    return [*frames, finished(reply_id, text, len(frames) + 1)]


def written(reply_id: str, text: str, cuts: Iterable[int]) -> list[ServerFrame]:
    """The deltas of a reply that is rendered at these lengths, and at the last whole."""
    return _run(_written(Generation("", reply_id), text, cuts))


async def _written(generation: Generation, text: str, cuts: Iterable[int]) -> list[ServerFrame]:
    start, frames = 0, []
    for cut in [*cuts, len(text)]:
        before = generation.seq
        generation.take(Delta(text[start:cut], ()))
        await generation.render()
        frames += generation.frames_since(before, LANGUAGE)
        start = cut
    return frames


def finished(reply_id: str, text: str, seq: int) -> Finished:
    """The end of a reply."""
    view = MessageView(reply_id, "assistant", "done", Markup(render_in_parts(text)), finish_reason="stop")
    return Finished(reply_id, seq, "stop", _presenter().message(view), None)


@cache
def _presenter() -> Presenter:
    languages = load_languages()
    return Presenter(next(each for each in languages if each.code == LANGUAGE), languages)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Outside of Playwright's event loop, which is in the calling thread."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return results[0]
