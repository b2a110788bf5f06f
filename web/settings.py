"""What the owner chose on the command line or in the environment: read once, frozen, passed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from inference.config import DEFAULT_SYSTEM_PROMPT, BackendChoice, ComputeDtype, EngineConfig
from inference.models.catalogue import DEFAULT_MODEL
from inference.speculation import Speculation

DEFAULT_PORT = 8420


def default_data_dir() -> Path:
    """Where conversations live unless the owner says otherwise."""
    return platformdirs.user_data_path("ondol", appauthor=False)


def default_models_dir() -> Path:
    """Where model files live unless the owner says otherwise."""
    return platformdirs.user_cache_path("ondol", appauthor=False) / "models"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be configured. Every field has a flag and an `ONDOL_*` variable of the same
    name.
    """

    model: str = DEFAULT_MODEL
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    port: int = DEFAULT_PORT
    lan: bool = False
    tls: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    backend: BackendChoice = "auto"
    compute_dtype: ComputeDtype = "auto"
    thinking: bool = True
    speculation: Speculation = "auto"
    data_dir: Path = field(default_factory=default_data_dir)
    models_dir: Path = field(default_factory=default_models_dir)

    @property
    def host(self) -> str:
        """What to listen on. Shared, it is every address: those of the network may change meanwhile."""
        return "0.0.0.0" if self.lan else "127.0.0.1"

    @property
    def prefix_cache_dir(self) -> Path:
        """Where a server keeps its prefix cache: beside the conversations, since it holds their content."""
        return self.data_dir / "prefix-cache"

    @property
    def imports_dir(self) -> Path:
        """Where uploaded files lie while they are imported."""
        return self.data_dir / "imports"

    @property
    def engine(self) -> EngineConfig:
        """The engine's part of the settings."""
        return EngineConfig(
            model=self.model,
            models_dir=self.models_dir,
            system_prompt=self.system_prompt,
            backend=self.backend,
            compute_dtype=self.compute_dtype,
            thinking=self.thinking,
            speculation=self.speculation,
        )
