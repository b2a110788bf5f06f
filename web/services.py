"""Everything that lives as long as the server, and what several rooms do with it. Event loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from inference.engine import Engine
from inference.text_pieces import TokenizerShelf
from inference.types import ModelPhase
from storage.access import Access, Right, right_of
from storage.branches import Branches
from storage.conversations import Conversations
from storage.errors import NotFound, StorageError
from storage.listing import Listing
from storage.people import People
from storage.preferences import Preferences
from storage.presets import Presets
from storage.records import ConversationRecord, MessageRecord
from storage.search import Search
from storage.transfer.exporting import Exports
from web import protocol
from web.activity import Activity
from web.generation import Generation, RunningView
from web.generations import Generations
from web.hub import Hub
from web.imports import ImportDesk
from web.language import Language
from web.languages import Languages
from web.listing import read_page
from web.message_views import NEWEST, author_of, message_view, transcript_view
from web.new_chats import NewChats
from web.order import Order
from web.presenter import Presenter
from web.prompts import Prompts
from web.protocol import ContextView, InEachLanguage, ServerFrame, StatusFrame
from web.rereading import Rereading
from web.saving import Saving
from web.scorings import Scorings
from web.sharing import Sharing
from web.socket_limits import SocketLimits
from web.telemetry import Telemetry
from web.trash import Trash
from web.turns import Turns
from web.views import ConversationPage, MessageView, RightView, SystemView, TranscriptView
from web.wording import runs_in_words, size_in_words


@dataclass(frozen=True, slots=True)
class Shown:
    """A transcript, and the running reply in it as of event `seq`."""

    view: TranscriptView
    context: ContextView | None
    running: Generation | None
    seq: int


@dataclass(frozen=True, slots=True)
class Services:
    """Made by the app's lifespan, read by handlers. `presenters` has one for each language, by its code."""

    engine: Engine
    access: Access
    people: People
    conversations: Conversations
    branches: Branches
    listing: Listing
    search: Search
    trash: Trash
    generations: Generations
    turns: Turns
    rereading: Rereading
    scorings: Scorings
    saving: Saving
    prompts: Prompts
    new_chats: NewChats
    presets: Presets
    preferences: Preferences
    exports: Exports
    imports: ImportDesk
    hub: Hub
    languages: Languages
    presenters: Mapping[str, Presenter]
    activity: Activity
    telemetry: Telemetry
    shelf: TokenizerShelf
    sharing: Sharing | None = None
    limits: SocketLimits = SocketLimits()
    order: Order = field(default_factory=Order)

    def presenter(self, connection: HTTPConnection) -> Presenter:
        """The one that speaks the language of whoever connects."""
        return self.presenters[self.languages.of(connection).code]

    async def in_each_language(self, make: Callable[[Presenter], ServerFrame]) -> InEachLanguage:
        """A frame that holds rendered words. `make` is called in a pool thread, once for each language."""
        return await run_in_threadpool(lambda: {code: make(p) for code, p in self.presenters.items()})

    def status_frame(self, language: Language) -> StatusFrame:
        """What the model is doing, for people, and whether anything can be saved."""
        status, description, plan = self.engine.status, self.engine.description, self.engine.plan
        tokenizing = self.engine.tokenizing
        name = tokenizing.model.name if tokenizing else self.engine.config.model
        unsaved = self.saving.unsaved
        return StatusFrame(
            phase=status.phase.value,
            message=language.sentence(status.message),
            done=status.done,
            total=status.total,
            model=language.t("{name} · 4-bit", name=name) if description else name,
            size=size_in_words(language, description) if description else "",
            detail=runs_in_words(language, description, plan) if description and plan else "",
            can_send=tokenizing is not None and status.phase is not ModelPhase.FAILED,
            unsaved=self.presenters[language.code].unsaved(unsaved) if unsaved else "",
        )

    def announce_status(self) -> None:
        """Tell every page that the model's state changed."""
        self.activity.note("model", goes_on=not self.engine.status.phase.is_settled)
        self.hub.broadcast({language.code: self.status_frame(language) for language in self.languages})

    async def announce_conversations(self, changed: ConversationRecord | None = None) -> None:
        """Tell every page that the conversation list changed: its first piece, by the day where they are.

        What `changed` and is not shared is in its own person's list alone. None: anything may have changed.
        """
        only = changed.person_id if changed is not None and changed.shared is None else None
        async with self.order.lists:
            for (person, zone), watchers in self.hub.by_place(only).items():
                page = await self.listed(person, zone)
                frames = await self.in_each_language(
                    lambda p, page=page: protocol.Conversations(p.conversations(page, None))  # type: ignore[misc]
                )
                self.hub.broadcast(frames, to=watchers)

    async def announce_conversation(self, conversation_id: str) -> None:
        """Tell every page where that one is listed, unless it was deleted meanwhile, which was told."""
        with contextlib.suppress(NotFound):
            conversation = await run_in_threadpool(self.conversations.get, conversation_id)
            await self.announce_conversations(conversation)

    async def announce_imported(self) -> None:
        """Tell every page of conversations that came from a file, if the database is still open."""
        with contextlib.suppress(StorageError):
            await self.announce_conversations()

    def announce_deleted(self, conversation_id: str, *, deleted: bool) -> None:
        """Tell those who look at a conversation that it is gone, or there again."""
        frame = protocol.ConversationDeleted(conversation_id, deleted)
        self.hub.broadcast(frame, to=self.hub.watching(conversation_id))

    def right_view(self, conversation: ConversationRecord, person: str) -> RightView:
        """What a person may do with a conversation. Blocks."""
        right = right_of(person, conversation)
        owner = None if right is Right.OWN else self.people.names().get(conversation.person_id, "")
        return RightView(right.word if right else "none", owner, conversation.shared)

    def is_running(self, conversation_id: str) -> bool:
        """Whether a reply is being written in a conversation."""
        return bool(self.generations.in_conversation(conversation_id))

    async def listed(self, person: str, zone: tzinfo | None) -> ConversationPage:
        """The first piece of a person's conversation list."""
        return await read_page(self.listing, self.is_running, self.people, person, zone)

    async def transcript(self, conversation: ConversationRecord, at: str | None = None) -> Shown:
        """The branch of a conversation that is looked at, as its page shows it now, and its context bar. With
        `at`, that message of it is shown too.
        """
        running = self.generations.get(conversation.head_id or "")  # first: it may end while rows are read
        messages = await run_in_threadpool(self._path, conversation)
        siblings = await run_in_threadpool(self.branches.siblings, conversation.id)
        now = running.view() if running else None
        system = await self._system_of(conversation)
        names = await run_in_threadpool(self.people.names)
        view = await run_in_threadpool(
            transcript_view, conversation, messages, now, system, siblings, at, names
        )
        # Counting a long conversation takes a while: its page asks for it once it is there.
        context = await self.prompts.context_of(conversation) if len(messages) <= NEWEST else None
        return Shown(view, context, running, now.seq if now else 0)

    def _path(self, conversation: ConversationRecord) -> list[MessageRecord]:
        return self.conversations.path(conversation.id, conversation.head_id) if conversation.head_id else []

    def message(self, record: MessageRecord, running: RunningView | None = None) -> MessageView:
        """One message as the page shows it. Blocks."""
        siblings = self.branches.siblings(record.conversation_id).get(record.id)
        conversation = self.conversations.get(record.conversation_id)
        return message_view(record, running, siblings, author_of(record, conversation, self.people.names()))

    async def system_view(self, system_prompt: str, thinking: bool | None, person: str) -> SystemView | None:
        """The system text that the model reads: ours, or what its chat template adds where there is none. It
        has its name where it is a preset of that person's.
        """
        tokenizing = self.engine.tokenizing
        if system_prompt:
            return SystemView(
                system_prompt,
                folded=tokenizing is not None and not tokenizing.tokenizer.template.takes_system,
                name=await self.new_chats.name_of(system_prompt, person),
                shared=self.new_chats.is_shared(system_prompt),
            )
        if tokenizing is None:
            return None
        template = tokenizing.tokenizer.template
        added = template.default_system(self.engine.config.thinking if thinking is None else thinking)
        return SystemView(added, by_template=True) if added else None

    async def _system_of(self, conversation: ConversationRecord) -> SystemView | None:
        choices = conversation.choices
        return await self.system_view(conversation.system_prompt, choices.thinking, conversation.person_id)

    async def announce_settings(self, conversation: ConversationRecord) -> None:
        """Tell those who watch a conversation what was chosen for it."""
        system = await self._system_of(conversation)
        context = await self.prompts.context_of(conversation)
        frames = await self.in_each_language(
            lambda p: protocol.ChatSettings(conversation.id, p.system(system), context)
        )
        self.hub.broadcast(frames, to=self.hub.watching(conversation.id))

    async def finished_frames(self, reply_id: str) -> InEachLanguage:
        """The last frame of a reply that has just been stored."""
        record = await run_in_threadpool(self.conversations.message, reply_id)
        message = await run_in_threadpool(self.message, record)
        conversation = await run_in_threadpool(self.conversations.get, record.conversation_id)
        context = await self.prompts.context_of(conversation)
        reason = record.finish_reason or record.status
        return await self.in_each_language(
            lambda p: protocol.Finished(reply_id, 0, reason, p.message(message), context)
        )
