"""Where a server's lines go, and whether they stay there: what ``run`` would follow and what ``check`` judges."""

from __future__ import annotations

import os
import re

import msgspec

from sleepwatch.hosts.containers import Container
from sleepwatch.hosts.options import ServerOptions
from sleepwatch.hosts.processes import Output, ServerProcess
from sleepwatch.hosts.units import Unit

_ENGINES = re.compile(r"containerd-shim|conmon|dockerd|crun|runc")
_INTO_JOURNAL = {"logger", "systemd-cat", "systemd-journal"}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One place that gets a server's lines."""

    kind: str
    """``journal``, ``file``, ``container``, ``pipe`` (another program), ``router`` (in the router's own output),
    ``nowhere`` or ``unknown``."""
    words: str
    """What it is, for people."""
    unit: str | None = None
    """Of a journal: the unit under which the lines stand."""
    user_journal: bool = False
    namespace: str | None = None
    path: str | None = None
    """Of a file: where it can be read from here."""
    rewritten: bool = False
    """A restart empties it or writes over it."""
    deleted: bool = False


def is_in_journal(target: Target) -> bool:
    """These lines stand in the system's journal, under a unit."""
    return target.kind == "journal" and target.unit is not None and not target.user_journal and not target.namespace


def targets(
    options: ServerOptions | None, process: ServerProcess | None, unit: Unit | None, container: Container | None
) -> tuple[Target, ...]:
    """The places a server's own lines (its standard error) go to, the safest first; none with ``--log-disable``."""
    if options is not None and options.silent:
        return ()
    found = [_stream(process.error if process else None, process, unit, container)]
    if options is not None and options.get("log-file"):
        found.append(_log_file(options, process, unit))
    order = ("journal", "file", "container", "pipe", "router", "unknown", "nowhere")
    return tuple(sorted(found, key=lambda one: (order.index(one.kind), one.rewritten)))


def output_target(process: ServerProcess | None, unit: Unit | None, container: Container | None) -> Target:
    """Where standard output goes: a router prints its children's lines there."""
    if process is not None:
        return _stream(process.output, process, unit, container, standard_output=True)
    return _from_unit(unit, standard_output=True)


def _stream(
    output: Output | None,
    process: ServerProcess | None,
    unit: Unit | None,
    container: Container | None,
    *,
    standard_output: bool = False,
) -> Target:
    if output is None or process is None:
        return _from_unit(unit, standard_output=standard_output)
    if output.kind == "pipe":
        return _pipe(output, process, container)
    if output.kind == "journal":
        return _journal(process, unit)
    if output.kind == "file":
        return _file(output, process)
    if output.kind == "null":
        return Target(kind="nowhere", words="/dev/null")
    if output.kind == "closed":
        return Target(kind="nowhere", words="nowhere: the stream is closed")
    if output.kind == "terminal":
        return Target(kind="nowhere", words=f"the terminal {output.path}, which keeps nothing")
    if container is not None:
        return _container(container)
    if process.router is not None:
        return Target(kind="router", words="the router's own output")
    if unit is not None:
        return _from_unit(unit, standard_output=standard_output)
    if output.kind == "socket":
        return Target(kind="unknown", words="a socket; what is behind it cannot be seen")
    return Target(kind="unknown", words="unknown: its open files cannot be read by this user")


def _journal(process: ServerProcess | None, unit: Unit | None) -> Target:
    place = None if process is None else process.place
    name = unit.name if unit else (place.unit or place.user_unit if place else None)
    user = unit.manager == "user" if unit else bool(place and place.user_unit)
    namespace = unit.log_namespace if unit else None
    words = f"the journal{f', namespace {namespace}' if namespace else ''}{f', unit {name}' if name else ''}"
    return Target(kind="journal", words=words, unit=name, user_journal=user, namespace=namespace)


def _file(output: Output, process: ServerProcess) -> Target:
    path = str(process.locate(output.path or "/")) if process.place.container else output.path
    where = f"{output.path}{' in the container' if process.place.container else ''}"
    gone = ", which has been deleted" if output.deleted else ""
    return Target(
        kind="file",
        words=f"the file {where}{gone}",
        path=path,
        rewritten=output.append is False,
        deleted=output.deleted,
    )


def _pipe(output: Output, process: ServerProcess, container: Container | None) -> Target:
    if any(_ENGINES.search(reader) for reader in output.readers):
        return _container(container)
    if process.router is not None:
        return Target(kind="router", words="the router's own output")
    if output.written_to:
        path = output.written_to[0]
        return Target(kind="file", words=f"the file {path}, written by {output.readers[0]}", path=path)
    if set(output.readers) & _INTO_JOURNAL:
        return Target(kind="journal", words=f"the journal, through {output.readers[0]}")
    if output.readers:
        return Target(kind="pipe", words=f"a pipe to {', '.join(output.readers)}")
    if container is not None:
        return _container(container)
    return Target(kind="pipe", words="a pipe; who reads it cannot be seen")


def _container(container: Container | None) -> Target:
    if container is None:
        return Target(kind="container", words="its container's log")
    name = container.name or container.id[:12]
    if container.log_driver == "none":
        return Target(kind="nowhere", words=f"nowhere: container {name} has the log driver 'none'")
    if container.log_driver == "journald":
        return Target(kind="journal", words=f"the journal, container {name}")
    driver = f" ({container.log_driver})" if container.log_driver else ""
    return Target(kind="container", words=f"the log of container {name}{driver}", path=container.log_path)


def _log_file(options: ServerOptions, process: ServerProcess | None, unit: Unit | None) -> Target:
    """``--log-file``: opened with mode "w", so each start empties it (llama.cpp ``common/log.cpp``)."""
    name = options.get("log-file") or ""
    open_now = process.log_file if process else None
    if process is not None:
        path = str(process.locate(name)) if process.place.container else (open_now.path if open_now else name)
    else:
        path = os.path.normpath(os.path.join((unit.working_directory if unit else None) or "/", name))
    deleted = bool(open_now and open_now.deleted)
    gone = ", which has been deleted" if deleted else ""
    return Target(kind="file", words=f"--log-file {name}{gone}", path=path, rewritten=True, deleted=deleted)


def _from_unit(unit: Unit | None, *, standard_output: bool = False) -> Target:
    """What a unit says; for one that does not run, or whose process cannot be looked into."""
    if unit is None:
        return Target(kind="unknown", words="unknown")
    invocation = unit.invocation
    if invocation is not None and invocation.error_output and not standard_output:
        if invocation.error_output == "/dev/null":
            return Target(kind="nowhere", words="/dev/null, by its shell")
        words = f"the file {invocation.error_output}, by its shell"
        return Target(kind="file", words=words, path=invocation.error_output)
    if invocation is not None and invocation.engine:
        return Target(kind="container", words=f"its container's log, and what {invocation.engine} prints")
    kind, _, rest = (unit.standard_output if standard_output else unit.error_target).partition(":")
    if kind in ("journal", "inherit", "journal+console", "syslog", "kmsg", "syslog+console"):
        return _journal(None, unit)
    if kind == "null":
        key = "StandardOutput" if standard_output or unit.standard_error == "inherit" else "StandardError"
        return Target(kind="nowhere", words=f"{key}=null")
    if kind in ("file", "append", "truncate"):
        where = rest or "whose path systemctl does not tell"
        return Target(kind="file", words=f"the file {where}", path=rest or None, rewritten=kind != "append")
    if kind == "tty":
        return Target(kind="nowhere", words="a terminal, which keeps nothing")
    return Target(kind="unknown", words=f"{kind}{f':{rest}' if rest else ''}")
