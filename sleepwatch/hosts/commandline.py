"""Finds the llama-server in a command: behind wrappers, in a shell's string or script, in ``docker run``."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

# What builds append to the name: nixpkgs' wrapper, versions, back ends. Scripts and data files are not the server.
_SERVER = re.compile(
    r"\.?llama-server(?:[-_.](?:b?\d[\w+]*|cuda\w*|vulkan|rocm\w*|hip|cpu|gpu|metal|sycl|openvino|avx\w*|native|main|master"
    r"|dev|git|static|real|bin|orig|wrapped|ik))*(?:\.exe)?"
)
_UNIFIED = {"llama", "llama.exe"}
"""llama.cpp's one binary for everything: ``llama serve``."""
_INTERPRETER = re.compile(
    r"(?:python|pypy)[\d.]*|perl|ruby|node|(?:ba|da|z|k|a)?sh|ld-[\w.-]+\.so[\d.]*|qemu-\w+|box(?:64|86)|FEXInterpreter"
    r"|wine(?:64)?(?:-preloader)?"
)
_SHELL = re.compile(r"(?:ba|da|z|k|a)?sh|busybox")
_ENGINE = {"docker", "podman", "nerdctl", "docker.io"}
_IMAGE = re.compile(r"(?:[\w.:-]+/)*[\w.-]*llama[\w.-]*(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?$")
_WRAPPERS = {
    "env", "nice", "ionice", "taskset", "numactl", "stdbuf", "setpriv", "sudo", "runuser", "chrt", "tini", "nohup",
    "time", "systemd-cat", "systemd-run", "strace", "gdb", "timeout", "script", "unbuffer", "dumb-init",
}  # fmt: skip
# Commands that have the server's name among their words and do not start it.
_SPEAKS_OF_IT = {
    "pgrep", "pkill", "pidof", "killall", "kill", "ps", "grep", "systemctl", "journalctl", "service", "logger", "echo",
    "printf", "which", "command", "type", "hash", "test", "[", "[[", "ls", "cat", "tail", "head", "stat", "file", "ldd",
    "cp", "mv", "ln", "rm", "mkdir", "chmod", "chown", "install", "find", "cd", "curl", "wget", "git", "cmake", "make",
    "apt", "apt-get", "dnf", "pip", "source", ".", "alias", "setcap", "usermod", "useradd",
}  # fmt: skip
_BOUNDARIES = {"|", "|&", "||", "&&", ";", "&", ")", ";;", "done", "fi"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:\[[@*]\])?(?:(:?[-=])([^}]*))?\}|([A-Za-z_]\w*))")


class Invocation(msgspec.Struct, frozen=True):
    """One llama-server that a command would start."""

    arguments: tuple[str, ...]
    """What stands behind the server's name."""
    program: str
    """The server as it is named there, or the image that holds it."""
    wrappers: tuple[str, ...] = ()
    """What stands before it and starts it: ``sh``, ``nice``, ``docker`` …"""
    environment: dict[str, str] = {}
    """Assignments before it (``env``, a shell's, ``docker run -e``)."""
    replaces_shell: bool = False
    """``exec``: the server takes the shell's place, so its death is the shell's."""
    piped_to: str | None = None
    """The program its output is piped to; its exit status then hides the server's."""
    pipefail: bool = False
    looped: bool = False
    """A shell loop starts it again."""
    status_lost: bool = False
    """Something follows it in the shell (``;``, ``|| true``, ``&``), so its exit status is lost."""
    error_output: str | None = None
    """The file the shell sends its standard error to."""
    engine: str | None = None
    """``docker``, ``podman`` …: the container engine asked to start it."""
    container_name: str | None = None
    """``--name`` given to the engine."""
    container_restart: str | None = None
    """``--restart`` given to the engine."""


def is_server_name(path: str) -> bool:
    """Whether a program of this path or name is llama-server."""
    return _SERVER.fullmatch(posixpath.basename(path.replace("\\", "/"))) is not None


def server_arguments(argv: Sequence[str], comm: str) -> tuple[str, ...] | None:
    """The server's arguments, where a process with this command line and name is a llama-server itself; else None.

    A wrapper (a shell, ``strace``, ``tini``) has the server on its command line too, but under another name.
    """
    if not argv:
        return None
    first = posixpath.basename(argv[0].replace("\\", "/"))
    if is_server_name(first):
        return tuple(argv[1:])
    if first in _UNIFIED and len(argv) > 1 and argv[1] in ("serve", "server"):
        return tuple(argv[2:])
    if _INTERPRETER.fullmatch(first):
        for at, word in enumerate(argv[1:6], 1):
            if is_server_name(word):
                return tuple(argv[at + 1 :])
            if word == "-c" and _SHELL.fullmatch(first):
                return None
            if not word.startswith("-") and not first.startswith("ld-"):
                break
    if is_server_name(comm) and not _SHELL.fullmatch(first):
        return tuple(argv[1:])
    return None


def find(words: Sequence[str], variables: Mapping[str, str] | None = None) -> Invocation | None:
    """The llama-server that this command would start; None where it starts none that can be seen."""
    variables = dict(variables or {})
    for at, word in enumerate(words):
        name = posixpath.basename(word)
        if name in _SPEAKS_OF_IT:
            return None
        if is_server_name(word):
            return _found(words, at, at + 1, variables)
        if name in _UNIFIED and at + 1 < len(words) and words[at + 1] in ("serve", "server"):
            return _found(words, at, at + 2, variables)
        if name in _ENGINE and at + 1 < len(words):
            return _in_container(words, at)
        if _SHELL.fullmatch(name):
            for behind in range(at + 1, len(words) - 1):
                option = words[behind]
                if re.fullmatch(r"-[a-z]*c", option):
                    inner = find_in_script(words[behind + 1], variables)
                    if inner is None:
                        return None
                    return msgspec.structs.replace(inner, wrappers=(*_names(words[:at]), name, *inner.wrappers))
                if not option.startswith(("-", "+")):
                    break
    return None


def _found(words: Sequence[str], at: int, behind: int, variables: Mapping[str, str]) -> Invocation:
    before = list(words[:at])
    environment = {}
    for word in before:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            environment[name] = value
    return Invocation(tuple(words[behind:]), words[at], wrappers=_names(before), environment=environment)


def _names(before: Sequence[str]) -> tuple[str, ...]:
    """The programs among the words before the server: known wrappers, and whatever stands there with its full path."""
    return tuple(
        posixpath.basename(word) for word in before if word.startswith("/") or posixpath.basename(word) in _WRAPPERS
    )


def _in_container(words: Sequence[str], at: int) -> Invocation | None:
    """``docker run [options] image [arguments]``: the image's entry point is the server, or the command names it."""
    engine = posixpath.basename(words[at])
    rest = list(words[at + 1 :])
    restart, given_name, environment = None, None, {}
    for here, word in enumerate(rest):
        name, equals, value = word.partition("=")
        following = rest[here + 1] if here + 1 < len(rest) else ""
        if name == "--restart":
            restart = value if equals else following
        elif name == "--name":
            given_name = value if equals else following
        elif name in ("-e", "--env"):
            key, _, content = (value if equals else following).partition("=")
            environment[key] = content
        elif is_server_name(word) and not word.startswith("-") and rest[here - 1] not in ("--entrypoint", "--name"):
            arguments = rest[here + 1 :]
            break
        elif (
            _IMAGE.fullmatch(word)
            and (":" in word or "/" in word)
            and not word.startswith(("-", "/"))
            and "=" not in word
        ):
            arguments = rest[here + 1 :]
            if arguments and is_server_name(arguments[0]):
                arguments = arguments[1:]
            break
    else:
        return None
    if "run" not in rest and "create" not in rest:
        return None
    return Invocation(
        tuple(arguments),
        word,
        wrappers=(engine,),
        environment=environment,
        engine=engine,
        container_name=given_name,
        container_restart=restart,
    )


def find_in_script(script: str, variables: Mapping[str, str] | None = None) -> Invocation | None:
    """The first llama-server in shell text. Plain variables and arrays are followed; anything else stays as
    ``$NAME``."""
    values: dict[str, list[str]] = {name: [value] for name, value in (variables or {}).items()}
    tokens = _tokens(script)
    at = 0
    start = 0
    loops = 0
    while at < len(tokens):
        word = tokens[at]
        if word in ("while", "until", "for"):
            loops += 1
        elif word == "done":
            loops = max(0, loops - 1)
        if word in _BOUNDARIES or word in ("\n", "then", "do", "else", "{", "(", "!"):
            start = at + 1
        elif at == start and _ASSIGNMENT.match(word) and (at + 1 >= len(tokens) or not _starts_command(tokens, at + 1)):
            at = _assign(tokens, at, values)
            start = at
            continue
        elif at == start and word in ("export", "declare", "local", "readonly", "typeset"):
            start = at + 1
        elif _names_server(word, values):
            found = _in_shell(tokens, start, at, values, looped=loops > 0, script=script)
            if found is not None:
                return found
        at += 1
    return None


def _starts_command(tokens: Sequence[str], at: int) -> bool:
    """``NAME=value command``: the assignment belongs to the command that follows on its line."""
    return tokens[at] not in _BOUNDARIES and tokens[at] not in ("\n", "(")


def _names_server(word: str, values: Mapping[str, list[str]]) -> bool:
    expanded = _expand(word, values)
    return len(expanded) == 1 and (is_server_name(expanded[0]) or posixpath.basename(expanded[0]) in _ENGINE)


def _tokens(script: str) -> list[str]:
    """Words and operators of shell text, line ends kept as tokens; a text that is no shell gives what can be read
    of it."""
    found: list[str] = []
    for line in re.sub(r"\\\r?\n", " ", script).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            found.extend(lexer)
        except ValueError:  # a quote that another line closes
            found.extend(line.split())
        found.append("\n")
    return found


def _assign(tokens: Sequence[str], at: int, values: dict[str, list[str]]) -> int:
    """Note ``NAME=value`` or ``NAME=( … )``; returns where reading goes on."""
    name, _, value = tokens[at].partition("=")
    added = name.endswith("+")
    name = name.rstrip("+")
    if not value and at + 1 < len(tokens) and tokens[at + 1] == "(":
        words: list[str] = []
        at += 2
        while at < len(tokens) and tokens[at] != ")":
            if tokens[at] != "\n":
                words += _expand(tokens[at], values)
            at += 1
    else:
        words = _expand(value, values)
    values[name] = (values.get(name, []) if added else []) + words
    return at + 1


def _expand(word: str, values: Mapping[str, list[str]]) -> list[str]:
    """The words a word becomes. A variable that is not known stays as it is written."""
    whole = _VARIABLE.fullmatch(word)
    if whole:
        name = whole.group(1) or whole.group(4)
        if name in values:
            known = values[name]
            return known if "[" in word else [part for value in known for part in value.split()]
    return [_VARIABLE.sub(lambda found: _value_of(found, values), word)]


def _value_of(found: re.Match[str], values: Mapping[str, list[str]]) -> str:
    name = found.group(1) or found.group(4)
    if name in values and (values[name] or not found.group(2)):
        return " ".join(values[name])
    return found.group(3) if found.group(2) else found.group(0)


def _in_shell(
    tokens: Sequence[str], start: int, at: int, values: Mapping[str, list[str]], *, looped: bool, script: str
) -> Invocation | None:
    end = next((i for i in range(at, len(tokens)) if tokens[i] in _BOUNDARIES or tokens[i] == "\n"), len(tokens))
    words, error_output = _redirected(tokens[start:end], values)
    invocation = find(words, {name: " ".join(value) for name, value in values.items()})
    if invocation is None:
        return None
    following = tokens[end] if end < len(tokens) else "\n"
    piped = tokens[end + 1] if following in ("|", "|&") and end + 1 < len(tokens) else None
    rest = [token for token in tokens[end + 1 :] if token != "\n"]
    last = following == "\n" and not rest
    return msgspec.structs.replace(
        invocation,
        replaces_shell="exec" in words[: len(words) - len(invocation.arguments)],
        piped_to=None if piped is None else posixpath.basename(piped),
        pipefail="pipefail" in script,
        looped=looped,
        status_lost=piped is None and not last and "exec" not in words,
        error_output=error_output,
    )


def _redirected(tokens: Sequence[str], values: Mapping[str, list[str]]) -> tuple[list[str], str | None]:
    """A command's words without its redirections, and the file its standard error goes to."""
    words: list[str] = []
    streams: dict[str, str] = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if not re.fullmatch(r"[<>&|]+", token):
            words += _expand(token, values)
            at += 1
            continue
        stream = words.pop() if words and words[-1] in ("0", "1", "2") else "1"
        target = _expand(tokens[at + 1], values)[0] if at + 1 < len(tokens) else ""
        if token == ">&" and target in ("1", "2"):
            streams.pop(stream, None)
            if target in streams:
                streams[stream] = streams[target]
        elif token in ("&>", "&>>", ">&"):
            streams.update({"1": target, "2": target})
        elif token.startswith(">"):
            streams[stream] = target
        at += 2
    return words, streams.get("2")
