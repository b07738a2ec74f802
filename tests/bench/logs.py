"""Makes big llama-server logs, the same bytes on every machine, to measure reading speed on.

``python tests/bench/logs.py verbose 500`` prints the path of a 500 MB log. The lines are those of llama.cpp b11368 as
recorded in tests/corpus (default verbosity, and ``-lv 5``); blocks of them (blocks.toml) are repeated with a clock that
only grows and task ids that only rise. Sleeps come in between, and in some of them a request hangs: how many is known,
so that whoever measures speed can check that the work was done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MB = 1_000_000
PROMPT_BYTES = 80_000
REQUESTS_PER_SLEEP = 25
SLEEPS_PER_HANG = 20
TOKENS = {"default": 0, "verbose": 4, "tokens": 200}
"""Kinds of log, and how many tokens of each answer they show: ``tokens`` is ``verbose`` with answers, not prompts,
taking most of the space."""

BLOCKS = Path(__file__).with_name("blocks.toml")
TENSOR_NAMES = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_down", "ffn_up")
WORDS = (
    "the of and to in is that for it as was with be by on not he this are or his from at which but have an had they "
    "you were their one all we can her has there been if more when will would who so no out up into than them time "
    "only its about some could these two may then do first any my now such like our over man me even most made after "
    "also did many before must through years where much your way well down should because each just those people how "
    "too little state good very make world still own see men work long get here between both life being under never "
    "day same another know while last might us great old year off come since against go came right used take three "
    'def return self.value = None; import for (int i = 0; i < n; ++i) { } if not else: \\n \\t \\"text\\": [1, 2, 3], '
    "https://example.org/a/b?c=d 2026-03-14 12:30 $4,999.00 ~/projects/main.py request model server task token queue"
)
"""What prompts are made of: prose, some code, and a few of the words that the log itself uses."""


class Log(NamedTuple):
    """A made log and what is in it."""

    path: Path
    size: int
    lines: int
    requests: int
    sleeps: int
    hung: int


class Block:
    """Lines that belong together; the form they are written in is explained in blocks.toml."""

    def __init__(self, text: str) -> None:
        self.steps: list[int] = []
        form = ""
        for line in text.strip("\n").split("\n"):
            step, rest = line.split(" ", 1)
            if step != "-":
                form += f"%(t{len(self.steps)})b "
                self.steps.append(int(step))
            form += rest[:-1] if rest.endswith("\\") else rest + "\n"
        self.stamps = [f"t{n}".encode() for n in range(len(self.steps))]
        self.form = form.encode()


class Shape:
    """The blocks of one kind of log."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        with BLOCKS.open("rb") as file:
            told = tomllib.load(file)
        own = told["default" if kind == "default" else "verbose"]
        self.tokens = TOKENS[kind]
        self.verbosity = 3 if kind == "default" else 5
        self.prompts = [b""] if kind == "default" else [prompt(rng, hostile=n == 0) for n in range(16)]
        every_token = _repeated(own.get("token", ""), ({"(next)": f"(next{n})"} for n in range(self.tokens)))
        every_tensor = _repeated(
            own.get("tensor", ""),
            ({"%(layer)d": str(layer), "%(name)s": name} for layer in range(32) for name in TENSOR_NAMES),
        )
        self.requests = [Block(text.replace("%(every_token)s\n", every_token)) for text in own["requests"]]
        self.wake = Block(own["wake"].replace("%(every_tensor)s\n", every_tensor))
        self.start, self.sleep, self.hang = Block(told["start"]), Block(told["sleep"]), Block(own["hang"])


def _repeated(text: str, changes: Iterable[dict[str, str]]) -> str:
    """The lines once for each set of changes."""
    copies = []
    for change in changes:
        copy = text
        for old, new in change.items():
            copy = copy.replace(old, new)
        copies.append(copy)
    return "".join(copies)


class Maker:
    """One log in the making: its clock, its task ids and what was put in so far."""

    def __init__(self, kind: str) -> None:
        self.rng = random.Random(20260101)
        self.shape = Shape(kind, self.rng)
        self.clock_us = self.task = 0
        self.size = self.lines = self.requests = self.sleeps = self.hung = 0

    def blocks(self, size: int) -> Iterator[bytes]:
        """The log, until it has at least ``size`` bytes; its last request is whole."""
        yield self._render(self.shape.start, verbosity=self.shape.verbosity)
        while self.size < size:
            if self.requests and self.requests % REQUESTS_PER_SLEEP == 0:
                yield self._sleep()
            yield self._request()

    def _render(self, block: Block, **fields: Any) -> bytes:
        clock = self.clock_us
        values: dict[bytes, Any] = {name.encode(): value for name, value in fields.items()}
        for name, step in zip(block.stamps, block.steps, strict=True):
            clock += step
            seconds, micros = divmod(clock, 1_000_000)
            values[name] = b"%d.%02d.%03d.%03d" % (*divmod(seconds, 60), *divmod(micros, 1000))
        self.clock_us = clock
        text = block.form % values
        self.size += len(text)
        self.lines += text.count(b"\n")
        return text

    def _sleep(self) -> bytes:
        """A sleep and the wake after it; in every twentieth one a request hangs until its client gives up."""
        self.sleeps += 1
        text = self._render(self.shape.sleep)
        if self.sleeps % SLEEPS_PER_HANG == 0:
            self.hung += 1
            text += self._render(self.shape.hang, id=self.task, after=self.task + 1)
            self.task += 2
        return text + self._render(self.shape.wake)

    def _request(self) -> bytes:
        """One request from its arrival to its answer."""
        self.requests += 1
        rng = self.rng
        task = self.task
        self.task += 2 + self.shape.tokens
        prompt_tokens, answer_tokens = rng.randrange(40, 2000), rng.randrange(4, 200)
        rate = rng.uniform(0.1, 2.0)
        return self._render(
            rng.choice(self.shape.requests),
            id=task,
            keep=rng.random(),
            prompt=prompt_tokens,
            before=prompt_tokens - 1,
            answer=answer_tokens,
            all=prompt_tokens + answer_tokens,
            prompt_ms=rate * prompt_tokens / 10,
            eval_ms=rate * answer_tokens,
            total_ms=rate * (answer_tokens + prompt_tokens / 10),
            rate=rate,
            speed=1000 / rate,
            reused=self.requests * 4,
            text=rng.choice(self.shape.prompts),
            **{f"next{n}": task + 1 + n for n in range(self.shape.tokens)},
        )


def prompt(rng: random.Random, *, hostile: bool) -> bytes:
    """80 KB of words as the log escapes them; a hostile one quotes the very lines that mean something."""
    quoted = (
        "\\n0.17.131.692 I que    start_loop: entering sleeping state\\n0.17.131.984 I srv  handle_sleep: server is "
        "entering sleeping state\\n0.19.002.120 W srv          stop: cancel task, id_task = 41\\n"
    )
    words = WORDS.split()
    pieces: list[str] = []
    size = 0
    while size < PROMPT_BYTES:
        pieces.append(" ".join(rng.choices(words, k=16)) + (quoted if hostile and len(pieces) % 50 == 25 else ".\\n"))
        size += len(pieces[-1])
    return "".join(pieces)[:PROMPT_BYTES].rstrip("\\").encode()


def cache_directory() -> Path:
    """Where made logs are kept: ``SLEEPWATCH_BENCH_CACHE``, else the user's cache directory."""
    chosen = os.environ.get("SLEEPWATCH_BENCH_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sleepwatch-bench"


def make(kind: str, megabytes: int, directory: Path | None = None) -> Log:
    """The log of that kind and size, made now unless this very generator made it before."""
    directory = directory or cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    generator = hashlib.sha256(Path(__file__).read_bytes() + BLOCKS.read_bytes()).hexdigest()[:10]
    path = directory / f"{kind}-{megabytes}mb-{generator}.log"
    about = path.with_suffix(".json")
    if path.exists() and about.exists():
        return Log(path, **json.loads(about.read_text()))
    for old in directory.glob(f"{kind}-{megabytes}mb-*"):
        old.unlink()
    maker = Maker(kind)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb", buffering=1 << 20) as out:
        for block in maker.blocks(megabytes * MB):
            out.write(block)
    told = {name: getattr(maker, name) for name in Log._fields if name != "path"}
    about.write_text(json.dumps(told))
    unfinished.rename(path)
    return Log(path, **told)


def main() -> None:
    """Make one log; print its path, and on standard error what is in it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=TOKENS)
    parser.add_argument("megabytes", type=int)
    wanted = parser.parse_args()
    log = make(wanted.kind, wanted.megabytes)
    print(
        f"{log.size:,} bytes, {log.lines:,} lines, {log.requests:,} requests, {log.sleeps:,} sleeps, {log.hung:,} hung",
        file=sys.stderr,
    )
    print(log.path)


if __name__ == "__main__":
    main()
