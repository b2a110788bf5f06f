"""The services of one server, put together."""

from __future__ import annotations

from inference.engine import Engine
from inference.text_pieces import TokenizerShelf
from storage.access import Access
from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import Database
from storage.listing import Listing
from storage.people import People
from storage.preferences import Preferences
from storage.presets import Presets
from storage.scores import Scores
from storage.search import Search
from storage.transfer.exporting import Exports
from storage.usage import Usage
from web.activity import Activity
from web.beginning import Beginnings
from web.further_replies import FurtherReplies
from web.generations import Generations
from web.hub import Hub
from web.imports import ImportDesk
from web.languages import Languages
from web.new_chats import NewChats
from web.presenter import Presenter
from web.prompts import Prompts, cut_of
from web.rereading import Rereading
from web.saving import Saving
from web.scorings import Scorings
from web.services import Services
from web.settings import Settings
from web.sharing import Sharing
from web.socket_limits import SocketLimits
from web.telemetry import Telemetry
from web.trash import Trash
from web.turns import Turns


def build_services(
    settings: Settings,
    engine: Engine,
    database: Database,
    languages: Languages,
    sharing: Sharing | None,
    limits: SocketLimits,
    *,
    again_s: float,
) -> Services:
    """For the event loop that runs. `again_s` is how long `Saving` waits before it tries again."""
    conversations = Conversations(database)
    kept_presets, kept_preferences = Presets(database), Preferences(database)
    saving = Saving(database, lambda: services.announce_status(), again_s, tells_folder=sharing is None)
    activity = Activity()
    generations = Generations(
        engine,
        conversations,
        saving,
        activity,
        conclude=lambda reply_id: services.finished_frames(reply_id),
        announce=lambda conversation_id: services.announce_conversation(conversation_id),
    )
    new_chats = NewChats(engine, kept_presets, kept_preferences)
    prompts = Prompts(engine, conversations, new_chats)
    branches, listing = Branches(database, cut_of), Listing(database)
    rereading = Rereading(conversations, prompts)
    beginnings = Beginnings(engine, conversations, generations, prompts)
    services = Services(
        engine=engine,
        access=Access(database),
        people=People(database),
        conversations=conversations,
        branches=branches,
        listing=listing,
        search=Search(database),
        trash=Trash(engine, conversations, branches, listing, prompts),
        generations=generations,
        saving=saving,
        turns=Turns(beginnings, FurtherReplies(beginnings, prompts, rereading), prompts),
        rereading=rereading,
        scorings=Scorings(engine, conversations, Scores(database), rereading),
        prompts=prompts,
        new_chats=new_chats,
        presets=kept_presets,
        preferences=kept_preferences,
        exports=Exports(database),
        imports=ImportDesk(settings.imports_dir, database.path, lambda: services.announce_imported()),
        hub=Hub(),
        languages=languages,
        presenters={language.code: Presenter(language, languages) for language in languages},
        activity=activity,
        telemetry=Telemetry(engine.snapshot, Usage(database), activity),
        shelf=TokenizerShelf(),
        sharing=sharing,
        limits=limits,
    )
    return services
