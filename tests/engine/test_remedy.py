"""What to do names the server it is about, as far as its log tells; the rest stays a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.engine.lives import LifeState, Server
from sleepwatch.engine.remedy import filled
from sleepwatch.engine.verdicts import Exit
from sleepwatch.model import Event, Origin
from sleepwatch.scan import scan

TEXT = "systemctl status UNIT; docker logs CONTAINER; coredumpctl info PID; curl http://HOST:PORT/props; nc HOST:PORT"


def _life(url: str | None = None, *, exit_pid: int | None = None, **known: object) -> LifeState:
    origin = Origin(source="server.log", **known)  # type: ignore[arg-type]
    event = Event(type="server.listening", origin=origin, offset=0, text=b"", fields={"url": url} if url else {})
    life = LifeState(origin, Server("server"), event, 1, None)
    life.ledger.apply(event)
    if exit_pid is not None:
        exit_ = Event(type="process.exit", origin=origin, offset=9, text=b"", fields={"pid": exit_pid})
        life.exit = Exit(event=exit_, by="shell", signal=11)
    return life


@pytest.mark.parametrize(
    ("life", "text"),
    [
        (_life(), TEXT),
        (
            _life("http://127.0.0.1:8080", unit="llama.service", pid=70),
            TEXT.replace("UNIT", "llama.service").replace("PID", "70").replace("HOST:PORT", "127.0.0.1:8080"),
        ),
        (_life("https://[::]:8443/"), TEXT.replace("http:", "https:").replace("HOST:PORT", "[::1]:8443")),
        (_life("http://0.0.0.0:80"), TEXT.replace("HOST:PORT", "127.0.0.1:80")),
        (_life("http://0.0.0.0:80", container="llama-1"), TEXT.replace("CONTAINER", "llama-1")),
        (_life("unix:///run/llama.sock"), TEXT),
        (_life("http://$(reboot):80"), TEXT),
        (_life(container="a; reboot"), TEXT.replace("CONTAINER", "'a; reboot'")),
        (_life(pid=70, port="52525"), TEXT),
        (_life(exit_pid=71), TEXT.replace("PID", "71")),
        (_life(pid=70, exit_pid=71), TEXT.replace("PID", "71")),
    ],
    ids=[
        "nothing-known", "unit-pid-address", "https-any-v6", "any-address", "a-containers-port-is-another-outside",
        "unix-socket", "no-address-but-a-command", "a-name-with-a-command", "a-routers-pid-is-not-its-childs",
        "the-shells-pid", "the-record-of-the-end-knows-better",
    ],
)  # fmt: skip
def test_made(life: LifeState, text: str) -> None:
    assert filled(TEXT, life) == text


def test_recorded_journal(corpus: Path) -> None:
    result = scan([corpus / "journal-two-units-short" / "journal.short"])
    for incident in result.incidents:
        assert not any(word in incident.remedy for word in ("UNIT", "PID", "HOST:PORT"))
    hang = next(incident for incident in result.incidents if incident.kind == "hung-request")
    assert "curl -s http://127.0.0.1:18201/props" in hang.remedy
    crash = next(incident for incident in result.incidents if incident.kind == "sleep-crash")
    assert "systemctl status llama-tiny.service " in crash.remedy
    pids = {life.life: life.pid for life in result.lives}
    assert f"coredumpctl info {pids[crash.life]}\n" in crash.remedy
