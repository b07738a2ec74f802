"""The real llama-server engine for tests: from its wheel, under its own name, with models of a few MB.

The PyPI package ``xllamacpp`` carries llama.cpp's server as a library. :func:`write_llama_server` writes a small script
named ``llama-server`` that takes the binary's own options and hands them to that library, so a test (or a person) uses
it exactly as the binary: same log lines, same HTTP routes, same death by signal 11.

:func:`write_model` writes llama-architecture models with random weights. Two shapes are worth having:

* ``tiny``: loads and unloads within milliseconds, so a sleep that falls into the tokenizing of a long prompt frees the
  vocabulary under it: the server crashes.
* ``wide``: its KV cache takes about 150 ms to free, so the tokenizing ends before the vocabulary is gone: the request
  is queued into a sleeping server and hangs.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
import string
import sys
from pathlib import Path
from typing import IO, Literal

import msgspec

from sleepwatch.race.server import Launch, Server
from tests.support.supervised import ShellServer


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a test model and the context it is served with."""

    name: str
    width: int
    layers: int
    context: int
    vocabulary: int = 2000
    seed: int = 20260101


TINY = ModelShape(name="tiny", width=64, layers=1, context=512)
WIDE = ModelShape(name="wide", width=256, layers=4, context=98304)

CRASH_PROMPT_TOKENS = 100_000
"""A prompt that ``tiny`` tokenizes long enough for a sleep to fall into it."""

HANG_PROMPT_TOKENS = 110_000
"""A prompt longer than the context of ``wide``: refused at once where it reaches a slot."""


def model(shape: ModelShape, directory: Path) -> Path:
    """The model of this shape in ``directory``, written there unless it is already."""
    recipe = msgspec.json.encode(shape) + Path(__file__).read_bytes()
    path = directory / f"{shape.name}-{hashlib.sha256(recipe).hexdigest()[:12]}.gguf"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        write_model(shape, unfinished)
        unfinished.replace(path)
    return path


def write_model(shape: ModelShape, path: Path) -> None:
    """Write a GGUF of the ``llama`` architecture with random weights and an SPM vocabulary."""
    import gguf
    import numpy as np

    rng = np.random.default_rng(shape.seed)
    head = 32
    feed_forward = shape.width * 2
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(shape.width // head)
    writer.add_head_count_kv(shape.width // head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)

    tokens, scores, types = _vocabulary(shape)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def tensor(name: str, *dimensions: int) -> None:
        writer.add_tensor(name, rng.normal(0, 0.02, dimensions).astype(np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(shape.width, dtype=np.float32))

    tensor("token_embd.weight", len(tokens), shape.width)
    for layer in range(shape.layers):
        norm(f"blk.{layer}.attn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{part}.weight", shape.width, shape.width)
        norm(f"blk.{layer}.ffn_norm.weight")
        tensor(f"blk.{layer}.ffn_gate.weight", feed_forward, shape.width)
        tensor(f"blk.{layer}.ffn_up.weight", feed_forward, shape.width)
        tensor(f"blk.{layer}.ffn_down.weight", shape.width, feed_forward)
    norm("output_norm.weight")
    tensor("output.weight", len(tokens), shape.width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _vocabulary(shape: ModelShape) -> tuple[list[str], list[float], list[int]]:
    """Control tokens, the 256 bytes, letters, then short strings with falling scores (which SPM merges by)."""
    import gguf

    normal, unknown = int(gguf.TokenType.NORMAL), int(gguf.TokenType.UNKNOWN)
    control, byte = int(gguf.TokenType.CONTROL), int(gguf.TokenType.BYTE)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    types = [unknown, control, control, *[byte] * 256]
    pieces = ["▁", *string.ascii_letters, *string.digits, *" .,:;!?'\"()-_/\n"]
    choose = random.Random(shape.seed)
    known = set(pieces)
    while len(tokens) + len(pieces) < shape.vocabulary:
        piece = "".join(choose.choice(string.ascii_lowercase) for _ in range(choose.choice((2, 2, 3, 4))))
        piece = choose.choice(("", "", "▁")) + piece
        if piece not in known:
            known.add(piece)
            pieces.append(piece)
    scores = [0.0] * len(tokens) + [-float(rank) for rank in range(len(pieces))]
    return tokens + pieces, scores, types + [normal] * len(pieces)


_LLAMA_SERVER = '''\
"""llama.cpp's server, from the wheel that carries it, with the options of the binary."""

import argparse
import signal
import sys

import xllamacpp

parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
parser.add_argument("--version", action="store_true")
parser.add_argument("-m", "--model", default="")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8080)
parser.add_argument("-c", "--ctx-size", type=int, default=0)
parser.add_argument("-np", "--parallel", type=int, default=1)
parser.add_argument("--sleep-idle-seconds", type=int, default=-1)
parser.add_argument("-lv", "--verbosity", type=int, default=3)
parser.add_argument("--no-warmup", action="store_true")
parser.add_argument("--no-webui", action="store_true")
parser.add_argument("--log-file", default="")
parser.add_argument("--api-key-file", default="")
parser.add_argument("--embedding", action="store_true")
options = parser.parse_args()

if options.version:
    print(f"version: {xllamacpp.__version__.rpartition('.')[2]} (xllamacpp {xllamacpp.__version__})", file=sys.stderr)
    sys.exit(0)

params = xllamacpp.CommonParams()
params.model.path = options.model
if hasattr(params, "hostnames"):
    params.hostnames = [options.host]
else:  # wheels before September 2026
    params.hostname = options.host
params.port = options.port
params.n_ctx = options.ctx_size
params.n_parallel = options.parallel
params.sleep_idle_seconds = options.sleep_idle_seconds
params.verbosity = options.verbosity
params.warmup = not options.no_warmup
params.embedding = options.embedding
if options.api_key_file:
    with open(options.api_key_file) as keys:
        params.api_keys = keys.read().split()

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
try:
    server = xllamacpp.Server(params)
except (RuntimeError, ValueError) as problem:
    print(f"llama-server: {problem}", file=sys.stderr)
    sys.exit(1)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
del server
'''


def write_llama_server(directory: Path) -> Path:
    """Write the executable ``llama-server`` into ``directory``; it runs with this very Python and its packages."""
    path = directory / "llama-server"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{_LLAMA_SERVER}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def start_real_server(
    directory: Path,
    shape: ModelShape = TINY,
    *,
    supervisor: Literal["shell"] | None = None,
    sleep_seconds: int = 1,
    verbosity: int | None = None,
    arguments: tuple[str, ...] = (),
    keep: IO[bytes] | None = None,
) -> Server:
    """A real server with a test model, as a context manager that starts and stops it; files go into ``directory``.

    ``supervisor="shell"`` runs it behind a bash script that restarts it whenever it dies. ``keep`` gets its log.
    """
    server_class = ShellServer if supervisor == "shell" else Server
    return server_class(
        Launch(
            program=write_llama_server(directory),
            model=model(shape, directory),
            context=shape.context,
            sleep_seconds=sleep_seconds,
            verbosity=verbosity,
            arguments=arguments,
        ),
        keep=keep,
    )


def main(directory: str) -> None:
    """Write ``llama-server``, ``tiny.gguf`` and ``wide.gguf`` into a directory, to try things by hand."""
    place = Path(directory)
    print(write_llama_server(place))
    for shape in (TINY, WIDE):
        write_model(shape, place / f"{shape.name}.gguf")
        print(place / f"{shape.name}.gguf")


if __name__ == "__main__":
    main(sys.argv[1])
