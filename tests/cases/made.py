"""Logs made by hand, written down as a script of moments and words.

A script has one line per log line (or per small group of them)::

    0      start             a server starts, loads and listens (six lines)
    1.3    sleep             `que … entering sleeping state` and its twin, 0.2 ms apart
    4.9    cancel 2
    [48859] 2.1 launch 7     a router's child
    | any text               as it is
    6.0    | any text        any text behind the log's own stamp and level

Times are seconds on the process's log clock. Era A prints no stamps, so there they are only for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Era = Literal["A", "B", "C"]

_MODEL = "/srv/models/wide.gguf"
_WORDS: dict[str, tuple[str, str]] = {
    # word: level, text. Texts of era C where eras differ; _ERA_B and _ERA_A hold what differs there.
    "init": ("I", "srv  llama_server: initializing ..."),
    "verbosity": (
        "I",
        "cmn  common_param: common_params_print_info: verbosity = {0} (adjust with the `-lv N` CLI arg)",
    ),
    "load": ("I", f"srv    load_model: loading model '{_MODEL}'"),
    "ready": ("I", "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 98304, kv_unified = 'false'"),
    "loaded": ("I", "srv  llama_server: model loaded"),
    "listen": ("I", "srv  llama_server: listening on http://127.0.0.1:{0}"),
    "enter": ("I", "que    start_loop: entering sleeping state"),
    "entered": ("I", "srv  handle_sleep: server is entering sleeping state"),
    "exit": ("I", "que    start_loop: exiting sleeping state"),
    "exited": ("I", "srv  handle_sleep: server is exiting sleeping state"),
    "ask": ("D", "que  wait_until_n: requesting to stop sleeping"),
    "idle": ("I", "srv  update_slots: all slots are idle"),
    "arrive": ("I", "srv  server_strea: conv_id= (empty=1)"),
    "format": ("I", "srv    operator(): chat format: Content-only"),
    "post": ("D", "que          post: new task, id = {0}/1, front = 0"),
    "post-cancel": ("D", "que          post: new task, id = {0}/1, front = 1"),
    "internal": ("D", "que          post: new task, id = {0}, front = {1}"),
    "defer": ("D", "que         defer: defer task, id = {0}"),
    "launch": ("I", "slot launch_slot_: id  0 | task {0} | processing task, is_child = 0"),
    "child": ("I", "slot launch_slot_: id  1 | task {0} | processing task, is_child = 1"),
    "release": ("I", "slot      release: id  0 | task {0} | stop processing: n_tokens = 23, truncated = 0"),
    "cancel": ("W", "srv          stop: cancel task, id_task = {0}"),
    "fail": (
        "E",
        "srv    send_error: task id = {0}, error: request (108502 tokens) exceeds the available context size",
    ),
    "refuse": (
        "W",
        'srv    operator(): got exception: {{"error":{{"code":400,"message":"bad","type":"invalid_request_error"}}}}',
    ),
    "cleanup": ("I", "srv    operator(): operator(): cleaning up before exit..."),
    "reload-failed": ("E", f"srv    load_model: failed to load model, '{_MODEL}'"),
    "cuda": ("E", "CUDA error: out of memory"),
    "router": ("I", "srv  llama_server: starting server in router mode. models will be automatically loaded on-demand"),
    "spawn": ("I", "srv          load: spawning server instance with name={0} on port {1}"),
    "argument": ("I", "srv          load:   --sleep-idle-seconds"),
    "proxy": ("I", "srv  proxy_reques: proxying request to model {0} on port {1}"),
    "stop-model": ("I", "srv        unload: stopping model instance name={0}"),
    "evict": ("I", "srv    unload_lru: models_max limit reached, removing LRU name={0}"),
    "force-kill": ("W", "srv    operator(): force-killing model instance name={0} after 10 seconds timeout"),
    "gone": ("I", "srv    operator(): instance name={0} exited with status {1}"),
    "client-error": ("E", "srv    operator(): http client error: Failed to read connection"),
}
_ERA_B = {
    "init": ("I", "common_params_print_info: build 9600 (1a2b3c4d) with GNU 13.3.0 for Linux x86_64"),
    "verbosity": ("I", "log_info: verbosity = {0} (adjust with the `-lv N` CLI arg)"),
    "ready": ("I", "srv    load_model: initializing slots, n_slots = 1"),
    "loaded": ("I", "srv          main: model loaded"),
    "listen": ("I", "srv          main: server is listening on http://127.0.0.1:{0}"),
    "format": ("I", "srv    operator(): Chat format: Content-only"),
}
_ERA_A = {
    **_ERA_B,
    "init": ("I", "build_info: b8700-1a2b3c4d"),
    "verbosity": ("I", "init: using 5 threads for HTTP server"),
    "loaded": ("I", "main: model loaded"),
    "listen": ("I", "main: server is listening on http://127.0.0.1:{0}"),
    "format": ("I", "srv  params_from_: Chat format: Content-only"),
}
_MACROS: dict[str, tuple[tuple[float, str], ...]] = {
    "start": ((0.002, "init"), (0.005, "verbosity {lv}"), (0.008, "load"), (0.3, "ready"), (0.302, "loaded"),
              (0.3022, "listen {port}")),
    "sleep": ((0, "enter"), (0.0002, "entered")),
    "wake": ((0, "exit"), (0.00002, "exited"), (0.00005, "load")),
    "serve": ((0, "launch {0}"), (0.05, "release {0}")),
}  # fmt: skip
_DEFAULTS = {"lv": "3", "port": "8080"}
_LATER = 0.000037
_LINE = re.compile(r"(?P<ports>(?:\[[ \d]+\] )*)(?:(?P<time>\d+(?:\.\d+)?) +)?(?:\| ?(?P<raw>.*)|(?P<words>[a-z].*))")


def stamp(seconds: float) -> str:
    """``M.SS.mmm.uuu``."""
    us = round(seconds * 1_000_000)
    return f"{us // 60_000_000}.{us // 1_000_000 % 60:02}.{us // 1000 % 1000:03}.{us % 1000:03}"


def timed(script: str, era: Era = "C") -> Iterator[tuple[float | None, str]]:
    """The script's log lines, each with its moment.

    No two processes write their first lines at the same microseconds: each one's clock is a little later than the
    last one's.
    """
    later = -_LATER
    for written in script.strip("\n").splitlines():
        written = written.strip()
        if not written or written.startswith("#"):
            continue
        match = _LINE.fullmatch(written)
        assert match is not None, f"not a script's line: {written!r}"
        time = float(match["time"]) if match["time"] else None
        if time is not None and match["words"] and match["words"].split()[0] in ("start", "init"):
            later += _LATER
        if time is not None:
            time += max(later, 0)
        if match["raw"] is not None:
            prefix = f"{stamp(time)} D " if time is not None and era != "A" else ""
            yield time, f"{match['ports']}{prefix}{match['raw']}"
        else:
            for moment, level, text in _expand(time or 0.0, match["words"], era):
                prefix = "" if era == "A" else f"{stamp(moment)} {level} "
                yield moment, f"{match['ports']}{prefix}{text}"


def _expand(time: float, words: str, era: Era) -> Iterator[tuple[float, str, str]]:
    word, *given = words.split()
    arguments = [one for one in given if "=" not in one]
    options = _DEFAULTS | dict(one.split("=") for one in given if "=" in one)
    if word in _MACROS:
        for after, line in _MACROS[word]:
            yield from _expand(time + after, line.format(*arguments, **options), era)
        return
    table = _WORDS | {"A": _ERA_A, "B": _ERA_B, "C": {}}[era]
    level, text = table[word]
    yield time, level, text.format(*arguments)


def log(script: str, *, era: Era = "C", end: str = "\n") -> bytes:
    """The log a script describes, as a bare file."""
    return "".join(line + end for _, line in timed(script, era)).encode()


_COLOURS = {"I": "\x1b[32m", "W": "\x1b[35m", "E": "\x1b[31m", "D": "\x1b[33m"}
_STAMPED = re.compile(r"^((?:\[[ \d]+\] )*)(\d+\.\d\d\.\d\d\d\.\d\d\d) ([IWED]) (.*)$")


def coloured(plain: bytes) -> bytes:
    """The same log with ``--log-colors on`` (llama.cpp common/log.cpp): a W, E or D line's reset follows its line feed."""
    out = []
    reset = ""
    for line in plain.decode().splitlines():
        match = _STAMPED.match(line)
        if match is None:
            out.append(reset + line)
            reset = ""
            continue
        ports, when, level, text = match.groups()
        colour = _COLOURS[level]
        letter = f"{colour}{level} \x1b[0m" if level == "I" else f"{colour}{level} "
        out.append(f"{reset}{ports}\x1b[34m{when}\x1b[0m {letter}{text}")
        reset = "" if level == "I" else "\x1b[0m"
    return ("\n".join(out) + "\n" + reset).encode()


def journal(
    script: str,
    *,
    era: Era = "C",
    unit: str | None = "llama-server",
    pid: int = 700,
    started: float = 0,
    ident: str = "llama-server",
) -> list[tuple[float, str]]:
    """A process's lines as ``journalctl -o short-iso-precise`` shows them, with their wall moments (seconds).

    It begins with systemd's word that ``unit`` was started (not where that is None), at ``started``. A line
    ``12.5 @systemd[1]: text`` is another writer's, at its wall second.
    """
    lines: list[tuple[float, str]] = []
    if unit is not None:
        lines.append((started, f"{_iso(started)} host systemd[1]: Started {unit}.service - llama.cpp server."))
    for written in script.strip("\n").splitlines():
        other = re.fullmatch(r"\s*(\d+(?:\.\d+)?) +@(.*)", written)
        if other:
            moment = float(other[1])
            lines.append((moment, f"{_iso(moment)} host {other[2]}"))
            continue
        for time, line in timed(written, era):
            moment = started + time if time is not None else lines[-1][0]
            lines.append((moment, f"{_iso(moment)} host {ident}[{pid}]: {line}"))
    return lines


def compose(script: str, *, era: Era = "C", name: str = "llama-1") -> bytes:
    """A script's lines as ``docker compose logs`` shows them; a line ``@text`` is compose's own."""
    lines = []
    for written in script.strip("\n").splitlines():
        if written.strip().startswith("@"):
            lines.append(written.strip()[1:])
        else:
            lines += [f"{name}  | {line}" for _, line in timed(written, era)]
    return "".join(line + "\n" for line in lines).encode()


def joined(*streams: list[tuple[float, str]]) -> bytes:
    """Several writers' lines as one journal: in the order of their moments."""
    lines = sorted((line for stream in streams for line in stream), key=lambda line: line[0])
    return "".join(text + "\n" for _, text in lines).encode()


def _iso(seconds: float) -> str:
    us = round(seconds * 1_000_000)
    minutes, us = divmod(us, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    return f"2026-11-30T{8 + hours:02}:{minutes:02}:{us // 1_000_000:02}.{us % 1_000_000:06}+0000"
