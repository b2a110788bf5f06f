"""Fetching a repository from the Hugging Face Hub, or from the server that HF_ENDPOINT names.

Only safetensors weights and the JSON and Jinja files beside them, of one commit. A second start reads the
local copy and asks nobody. The library downloads in a child process, so that it can be stopped.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from inference.errors import ModelError, ModelNotFound, ModelUnavailable, ModelUnusable
from inference.models.cancellation import raise_if_cancelled
from inference.models.child import run_child
from inference.models.folders import folder_bytes, private_folder
from inference.models.json_files import JsonObject, read_object
from inference.models.prepared import Progress
from inference.types import ModelPhase, ModelStatus

# Folders below the top hold other formats of the same weights, as do the `consolidated` files of some.
_WANTED = ["*.safetensors", "*.json", "*.jinja"]
_UNWANTED = ["*/*", "consolidated*.safetensors"]
_TIMEOUT_S = 10.0

# Otherwise the library asks huggingface.co which programs may run it, whatever HF_ENDPOINT is, and tells it
# of this machine's software.
_NO_TELEMETRY = {"HF_HUB_DISABLE_TELEMETRY": "1"}

# Run by a child process, which leaves one JSON object in the file "result".
_DOWNLOAD = """
import json, sys
options = json.loads(sys.argv[1])
try:
    from huggingface_hub import snapshot_download
    answer = {"folder": snapshot_download(
        options["repo"], cache_dir=options["cache"], endpoint=options["endpoint"], max_workers=4,
        allow_patterns=options["wanted"], ignore_patterns=options["unwanted"])}
except Exception as error:
    answer = {"kinds": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}
with open(options["result"], "w") as file:
    json.dump(answer, file)
"""


def cached_snapshot(repo: str, *, models_dir: Path) -> Path | None:
    """The folder of an earlier complete download, found without the network."""
    if not (models_dir / "hub").is_dir():
        return None
    _disable_telemetry()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            repo,
            cache_dir=models_dir / "hub",
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
            local_files_only=True,
        )
    except (HFValidationError, LocalEntryNotFoundError):
        return None
    return Path(folder)


def snapshot(
    repo: str,
    *,
    models_dir: Path,
    progress: Progress,
    cancelled: threading.Event,
    endpoint: str | None = None,
) -> Path:
    """The folder with the newest commit of `repo` ("owner/name"), downloaded now; what is there is kept.

    Raises ModelNotFound (no such repository, or it wants a login), ModelUnusable (no safetensors in it),
    ModelUnavailable (network, disk, or `cancelled`). `endpoint` None follows HF_ENDPOINT.
    """
    total = _total_bytes(repo, endpoint)
    raise_if_cancelled(cancelled)
    blobs = models_dir / "hub" / f"models--{repo.replace('/', '--')}" / "blobs"

    def report() -> None:
        done = min(folder_bytes(blobs), total)
        progress(ModelStatus(ModelPhase.DOWNLOADING, f"Downloading {repo} from the Hub", done, total))

    return _download(repo, models_dir, endpoint, report, cancelled)


def _download(
    repo: str, models_dir: Path, endpoint: str | None, report: Callable[[], None], cancelled: threading.Event
) -> Path:
    """The snapshot's folder, after the child process has filled it."""
    cache = str(models_dir / "hub")
    options: JsonObject = {"repo": repo, "cache": cache, "endpoint": endpoint}
    options |= {"wanted": _WANTED, "unwanted": _UNWANTED}
    with private_folder(models_dir) as private:
        result = private / "result.json"
        run_child(
            [sys.executable, "-c", _DOWNLOAD, json.dumps({**options, "result": str(result)})],
            scratch=private,
            log=private / "log.txt",
            report=report,
            cancelled=cancelled,
            environment={"HF_HUB_DISABLE_PROGRESS_BARS": "1", **_NO_TELEMETRY},
        )
        answer = read_object(result)
    if "folder" not in answer:
        kinds = answer.get("kinds", ["the download ended without a word"])
        raise _explain(kinds, answer.get("message", ""), repo)
    return Path(answer["folder"])


def _disable_telemetry() -> None:
    from huggingface_hub import constants

    # The variable is read once, and transformers may have come first.
    constants.HF_HUB_DISABLE_TELEMETRY = True


def _total_bytes(repo: str, endpoint: str | None) -> int:
    """Bytes of the wanted files; refuses a repository without safetensors before anything is downloaded."""
    _disable_telemetry()
    from huggingface_hub import HfApi
    from huggingface_hub.utils._paths import filter_repo_objects

    try:
        info = HfApi(endpoint=endpoint).model_info(repo, files_metadata=True, timeout=_TIMEOUT_S)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        raise _explain(kinds, str(error), repo) from error
    siblings = info.siblings or []
    wanted = filter_repo_objects(
        siblings, allow_patterns=_WANTED, ignore_patterns=_UNWANTED, key=lambda file: file.rfilename
    )
    sizes = {file.rfilename: file.size or 0 for file in wanted}
    if not any(name.endswith(".safetensors") for name in sizes):
        raise _without_safetensors(repo, [file.rfilename for file in siblings])
    return sum(sizes.values())


def _without_safetensors(repo: str, names: list[str]) -> ModelUnusable:
    if any(name.endswith(".gguf") for name in names):
        return ModelUnusable(
            f"{repo} has only .gguf files. Download one of them and give its path with --model, or name the "
            "repository with the model's safetensors files."
        )
    if any(name.endswith((".bin", ".pt", ".pth", ".pkl", ".ckpt")) for name in names):
        return ModelUnusable(
            f"{repo} has only .bin/pickle weights, which can run code when they are read. Choose a "
            "repository with *.safetensors files."
        )
    return ModelUnusable(
        f"{repo} has no *.safetensors files. Choose a repository that holds a language model."
    )


def _explain(kinds: list[str], message: str, repo: str) -> ModelError:
    """The library's error, given as the names of its class and bases, as one of ours."""
    if "GatedRepoError" in kinds:
        return ModelNotFound(
            f"{repo} asks for its terms to be accepted: do so on its page on the Hub, then `hf auth login`."
        )
    if not {"RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"}.isdisjoint(kinds):
        return ModelNotFound(
            f"The Hub has no model {repo}, or it is private. Check the spelling; for a private one, "
            "`hf auth login`."
        )
    detail = f"{kinds[0]}: {message.strip().partition(chr(10))[0]}"[:200]
    return ModelUnavailable(
        f"{repo} cannot be fetched from the Hub ({detail}). Check the network connection and try again; what "
        "was downloaded is kept."
    )
