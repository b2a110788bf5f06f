"""Telling those who look at a conversation what has become of it. Event loop."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from storage.access import right_of
from storage.records import ConversationRecord, MovedHead
from web.beginning import Begun
from web.hub import Watcher
from web.protocol import Accepted, ChatRight, InEachLanguage, Snapshot, Switched
from web.services import Services


async def announce_begun(
    ref: str, begun: Begun, services: Services, watcher: Watcher | None = None
) -> InEachLanguage:
    """Tell of a reply that begins: its sender alone where the command is a repeated one.

    `watcher` is the sender's socket, which looks at the conversation from now on; None when it came by POST.
    """
    turn, running = begun.turn, begun.generation
    user = await run_in_threadpool(services.message, turn.user) if begun.asks else None
    reply = await run_in_threadpool(services.message, turn.reply, running.opening if running else None)
    frames = await services.in_each_language(
        lambda p: Accepted(
            ref=ref,
            conversation_id=turn.conversation.id,
            parent_id=turn.user.parent_id if begun.asks else turn.user.id,
            user_id=turn.user.id,
            reply_id=turn.reply.id,
            user_html=p.message(user) if user else None,
            reply_html=p.message(reply),
            cut_id=turn.conversation.cut_id,
        )
    )
    told = [watcher] if watcher else []
    if watcher:
        watcher.conversation_id = turn.conversation.id
    if not turn.repeated:
        told = list(services.hub.watching(turn.conversation.id))
    for each in told:
        each.post(frames)
        if running is not None:
            each.follow(running, running.first_seq)
    if not turn.repeated:
        await services.announce_conversations(turn.conversation)
    elif watcher and turn.conversation.head_id != turn.reply.id:
        # The page would show that reply at its end, though another branch is looked at by now.
        await show_whole(ref, turn.conversation.id, services, watcher)
    return frames


async def announce_moved(
    ref: str, moved: MovedHead, services: Services, watcher: Watcher, at: str | None = None
) -> None:
    """Tell everyone who looks at the conversation which branch that is now; `at` is a message of it."""
    watcher.conversation_id = moved.conversation.id
    shown = await services.transcript(moved.conversation, at)
    kept = moved.kept_id if any(m.id == moved.kept_id for m in shown.view.messages) else None
    frames = await services.in_each_language(
        lambda p: Switched(
            ref=ref,
            conversation_id=moved.conversation.id,
            kept_id=kept,
            html=p.messages(shown.view, kept),
            cut_id=moved.conversation.cut_id,
            context=shown.context,
        )
    )
    for each in services.hub.watching(moved.conversation.id):
        each.post(frames)
        each.restart(shown.running, shown.seq)


async def announce_right(services: Services, conversation: ConversationRecord) -> None:
    """Tell everyone who looks at a conversation what they may do with it now, and show it to nobody else."""
    for watcher in list(services.hub.watching(conversation.id)):
        if right_of(watcher.person, conversation) is None:
            watcher.look_away()
        view = await run_in_threadpool(services.right_view, conversation, watcher.person)
        html = services.presenters[watcher.language.code].right(view)
        watcher.post(ChatRight(conversation.id, view.right, html))
    await services.announce_conversations()


async def show_whole(ref: str, conversation_id: str, services: Services, watcher: Watcher) -> None:
    """Send one watcher everything, and then what comes."""
    conversation = await run_in_threadpool(services.conversations.get, conversation_id)
    shown = await services.transcript(conversation)
    presenter = services.presenters[watcher.language.code]
    html = await run_in_threadpool(presenter.transcript, shown.view)
    watcher.post(Snapshot(ref, conversation.id, html, shown.context))
    watcher.restart(shown.running, shown.seq)
