"""How much of a file is taken. Everything here is checked before anything is built of it."""

from __future__ import annotations

MIB = 2**20

MAX_FILE_BYTES = 1_024 * MIB
"""Of a file, and of what a .zip says that it holds."""

MAX_CONVERSATION_BYTES = 32 * MIB
"""Of one conversation as JSON."""

MAX_CONVERSATIONS = 100_000
"""Of one file."""

MAX_DEPTH = 64
"""Of lists and objects in each other; real exports have about ten."""

MAX_CONTAINERS = 250_000
"""Lists and objects of one conversation: each costs memory, however short it is written."""

MAX_VALUES = 1_500_000
"""Values of one conversation, token ids included."""

MAX_ARCHIVE_LIST_BYTES = 4 * MIB
"""Of a .zip's list of what is in it: about 40,000 files."""

MAX_RATIO = 200
"""How many times longer than its packed form a file of a .zip may be; JSON reaches about 30."""

SMALL = 4 * MIB
"""Up to this, the ratio says nothing."""
