"""The command line. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from inference.config import DEFAULT_SYSTEM_PROMPT, BackendChoice, ComputeDtype
from inference.errors import BenchFailed
from inference.models.catalogue import DEFAULT_MODEL
from inference.sampling_params import SamplingParams
from inference.speculation import Speculation
from web import backup_cli
from web.command_line import DataDir, one_sentence
from web.settings import DEFAULT_PORT, Settings, default_data_dir, default_models_dir

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="One warm language model at home, and a chat page that every device in the house opens.",
)

Model = Annotated[
    str,
    typer.Option(
        "--model",
        envvar="ONDOL_MODEL",
        help="A catalogue name, a folder of safetensors, a .gguf file, or owner/name on the Hub.",
    ),
]
SystemPrompt = Annotated[
    str,
    typer.Option(
        "--system-prompt",
        envvar="ONDOL_SYSTEM_PROMPT",
        show_default=False,
        help="What the model reads before every conversation.",
    ),
]
BackendName = Annotated[
    BackendChoice,
    typer.Option(
        "--backend",
        envvar="ONDOL_BACKEND",
        help="What computes: Ondol's own CPU kernels or transformers; auto takes the former where they fit.",
    ),
]
Dtype = Annotated[
    ComputeDtype,
    typer.Option(
        "--compute-dtype",
        envvar="ONDOL_COMPUTE_DTYPE",
        help="What the 4-bit weights are computed in; auto takes bfloat16 where the hardware has it.",
    ),
]
Thinking = Annotated[
    bool,
    typer.Option(
        "--thinking/--no-thinking",
        envvar="ONDOL_THINKING",
        help="Whether a model that can reason before it answers does so.",
    ),
]
Drafts = Annotated[
    Speculation,
    typer.Option(
        "--speculation",
        envvar="ONDOL_SPECULATION",
        help="Guess coming tokens from earlier text; auto does so where it measures faster.",
    ),
]
ModelsDir = Annotated[
    Path | None,
    typer.Option("--models-dir", envvar="ONDOL_MODELS_DIR", help="Where model files are kept."),
]
Port = Annotated[
    int,
    typer.Option("--port", envvar="ONDOL_PORT", min=0, max=65_535, help="0 takes any free port."),
]
Lan = Annotated[
    bool,
    typer.Option(
        "--lan", envvar="ONDOL_LAN", help="Share on the home network; every device needs a pairing code."
    ),
]
OwnTls = Annotated[
    bool, typer.Option("--tls", envvar="ONDOL_TLS", help="Encrypt, with a certificate that Ondol makes.")
]
TlsCert = Annotated[
    Path | None,
    typer.Option("--tls-cert", envvar="ONDOL_TLS_CERT", help="Encrypt, with this certificate (PEM)."),
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", envvar="ONDOL_TLS_KEY", help="The certificate's private key.")
]


@app.command()
def serve(
    model: Model = DEFAULT_MODEL,
    system_prompt: SystemPrompt = DEFAULT_SYSTEM_PROMPT,
    port: Port = DEFAULT_PORT,
    lan: Lan = False,
    tls: OwnTls = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    backend: BackendName = "auto",
    compute_dtype: Dtype = "auto",
    thinking: Thinking = True,
    speculation: Drafts = "auto",
    data_dir: DataDir = None,
    models_dir: ModelsDir = None,
) -> None:
    """Start the chat page on this machine. (What `ondol` does without a command.)"""
    settings = Settings(
        model=model,
        system_prompt=system_prompt,
        port=port,
        lan=lan,
        tls=tls,
        tls_cert=tls_cert,
        tls_key=tls_key,
        backend=backend,
        compute_dtype=compute_dtype,
        thinking=thinking,
        speculation=speculation,
        data_dir=data_dir or default_data_dir(),
        models_dir=models_dir or default_models_dir(),
    )
    from web.server import run_server

    with one_sentence():
        run_server(settings)


@app.command()
def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What to ask.")],
    model: Model = DEFAULT_MODEL,
    system_prompt: SystemPrompt = DEFAULT_SYSTEM_PROMPT,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_p: Annotated[float | None, typer.Option(help="1 is off.")] = None,
    top_k: Annotated[int | None, typer.Option(help="0 is off.")] = None,
    min_p: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="1 is off.")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    frequency_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same reply.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The most tokens of the reply.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be repeated.")] = None,
    logprobs: Annotated[
        int | None, typer.Option(help="Report every token's probability and N alternatives; with --json.")
    ] = None,
    backend: BackendName = "auto",
    compute_dtype: Dtype = "auto",
    thinking: Thinking = True,
    speculation: Drafts = "auto",
    models_dir: ModelsDir = None,
) -> None:
    """Answer one question in the terminal. Nothing is stored."""
    settings = Settings(
        model=model,
        system_prompt=system_prompt,
        backend=backend,
        compute_dtype=compute_dtype,
        thinking=thinking,
        speculation=speculation,
        models_dir=models_dir or default_models_dir(),
    )
    from web.ask import run_ask

    with one_sentence():
        run_ask(settings, question, _wishes(context), as_json=as_json)


def _wishes(context: typer.Context) -> dict[str, Any]:
    """The sampling params that were given: their options have their names."""
    names = {field.name for field in fields(SamplingParams)}
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    return {**given, "stop": tuple(given["stop"])} if "stop" in given else given


@app.command()
def bench(
    model: Model = DEFAULT_MODEL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    rounds: Annotated[int, typer.Option(min=1, max=99, help="Every figure is the median of this many.")] = 3,
    peer: Annotated[
        Literal["llama.cpp"] | None,
        typer.Option(help="Measure this engine too, on the same work, in alternating rounds."),
    ] = None,
    peer_python: Annotated[
        str | None, typer.Option(metavar="PATH", help="A Python that has the peer (xllamacpp) installed.")
    ] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Measure the web layer instead, without a model's weights.")
    ] = False,
    backend: BackendName = "auto",
    compute_dtype: Dtype = "auto",
    models_dir: ModelsDir = None,
) -> None:
    """Measure speed and memory on this machine."""
    settings = Settings(
        model=model,
        backend=backend,
        compute_dtype=compute_dtype,
        models_dir=models_dir or default_models_dir(),
    )
    from inference.bench.peer import Peer
    from web.bench import run_bench
    from web.bench_web import run_bench_web

    with one_sentence():
        if web:
            return run_bench_web(settings, as_json=as_json)
        if (peer is None) != (peer_python is None):
            raise BenchFailed("--peer and --peer-python go together: the peer runs in a Python of its own.")
        other = Peer(peer_python, peer) if peer is not None and peer_python is not None else None
        run_bench(settings, rounds=rounds, peer=other, as_json=as_json)


@app.command(name="export")
def export(
    form: Annotated[
        Literal["json", "markdown"],
        typer.Option("--format", help="JSON holds everything and can be imported; Markdown is for reading."),
    ] = "json",
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this one: its id stands in its address.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only theirs. Without it, everybody's.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; - is the standard output.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Write conversations to a file. A server may run meanwhile."""
    from web.transfer_cli import run_export

    if conversation is not None and person is not None:
        raise typer.BadParameter("Not together with --conversation, which is one.", param_hint="--person")

    with one_sentence():
        run_export(data_dir or default_data_dir(), form, conversation, person, output)


@app.command(name="import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Of Ondol, ChatGPT (.json or .zip), Open WebUI or llama.cpp."),
    ],
    person: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose they become. Without it, the owner's.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Take in conversations from files. A server may run meanwhile."""
    from web.transfer_cli import run_import

    with one_sentence():
        if not run_import(data_dir or default_data_dir(), files, person):
            raise typer.Exit(1)


app.add_typer(backup_cli.app)


def main() -> None:
    """The `ondol` command; without a command of its own it serves."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "--help"):
        arguments = ["serve", *arguments]
    app(arguments)
