"""Evidence read again at its place: in every carrier, compressed, renamed by rotation, changed, and gone.

The logs are recordings; put into carriers, they are made.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sleepwatch.model import Evidence, Incident
from sleepwatch.report.verify import Check, verify
from sleepwatch.rules import load
from sleepwatch.scan import scan
from tests.envelopes import carriers

RULES = load()


def _checked(path: Path) -> list[Check]:
    incidents = scan([path], rules=RULES).incidents
    assert incidents
    return [check for incident in incidents for check in verify(incident)]


def _recordings() -> Iterator[str]:
    for meta in sorted((Path(__file__).parent.parent / "corpus").glob("*/meta.json")):
        yield f"{meta.parent.name}/{json.loads(meta.read_text())['logs'][0]}"


@pytest.mark.parametrize("recording", list(_recordings()))
def test_every_recording_stands(corpus: Path, recording: str) -> None:
    for incident in scan([corpus / recording], rules=RULES).incidents:
        assert {check.state for check in verify(incident)} == {"stands"}


@pytest.mark.parametrize("carrier", sorted(carriers.WRITERS))
@pytest.mark.parametrize("recording", ["b11368-colors", "x11549-crash-default"])
def test_in_every_carrier(corpus: Path, tmp_path: Path, recording: str, carrier: str) -> None:
    lines = (corpus / recording / "server.log").read_bytes().removesuffix(b"\n").split(b"\n")
    path = tmp_path / "carried.log"
    path.write_bytes(carriers.write(carrier, lines))
    assert {check.state for check in _checked(path)} == {"stands"}


@pytest.mark.parametrize("carrier", ["bare", "docker-json", "journal-export"])
def test_another_digit_of_a_task_or_another_rest_is_a_change(corpus: Path, tmp_path: Path, carrier: str) -> None:
    log = (corpus / "b11368-lv4-abandon" / "server.log").read_bytes()
    data = log if carrier == "bare" else carriers.write(carrier, log.removesuffix(b"\n").split(b"\n"))
    path = tmp_path / "server.log"
    path.write_bytes(data)
    incident = next(i for i in scan([path], rules=RULES).incidents if any(e.role == "cancel" for e in i.evidence))
    cancel = next(e for e in incident.evidence if e.role == "cancel")
    assert cancel.text.endswith(str(incident.task))
    end = cancel.offset + len(cancel.text)
    path.write_bytes(data[: end - 1] + b"%d" % ((int(data[end - 1 : end]) + 1) % 10) + data[end:])
    states = {check.evidence.role: check for check in verify(incident)}
    assert states.pop("cancel").state == "changed"
    assert {check.state for check in states.values()} == {"stands"}
    path.write_bytes(data[:end] + b"9" + data[end:])
    assert [c.evidence.role for c in verify(incident) if c.state != "stands"][:1] == ["cancel"]


def test_the_rest_is_held_against_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"loose\n0.01.000.000 I srv  x: hello world\n")
    digest = hashlib.sha256(b" world").hexdigest()
    hello = Evidence(
        role="x", source=str(path), offset=6, text="0.01.000.000 I srv  x: hello", rest_bytes=6, rest_sha256=digest
    )
    assert _one(hello).state == "stands"
    path.write_bytes(b"loose\n0.01.000.000 I srv  x: hello there\n")
    assert _one(hello).state == "changed"
    path.write_bytes(b"loose\n0.01.000.000 I srv  x: hello\n")
    assert _one(hello).state == "changed"


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("server.log.1", lambda data: data),
        ("server.log.2.gz", gzip.compress),
        ("server.log-20261130.xz", lzma.compress),
    ],
)
def test_rotation_moves_no_byte(corpus: Path, tmp_path: Path, name: str, packed: Callable[[bytes], bytes]) -> None:
    data = (corpus / "b11368-default-abandon" / "server.log").read_bytes()
    path = tmp_path / "server.log"
    path.write_bytes(data)
    incident = scan([path], rules=RULES).incidents[0]
    (tmp_path / name).write_bytes(packed(data))
    path.write_bytes(b"a new log\n")
    checks = verify(incident)
    assert {check.state for check in checks} == {"stands"}
    assert {check.found_in for check in checks} == {str(tmp_path / name)}
    (tmp_path / name).unlink()
    assert {check.state for check in verify(incident)} == {"changed"}


def test_what_cannot_be_read_says_why(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    whole = gzip.compress((corpus / "b11368-default-abandon" / "server.log").read_bytes())
    path.write_bytes(whole)
    incident = scan([path], rules=RULES).incidents[0]
    path.write_bytes(whole[:2000])
    (check, *_) = verify(incident)
    assert (check.state, "damaged or ends too early" in (check.why or "")) == ("unreadable", True)
    path.unlink()
    (check, *_) = verify(incident)
    assert (check.state, "no such file" in (check.why or "")) == ("unreadable", True)


def test_standard_input_cannot_be_read_again() -> None:
    check = _one(Evidence(role="sleep", source="-", offset=0, text="x"))
    assert (check.state, check.why) == ("unreadable", "it was read from standard input, which cannot be read again")


def _one(evidence: Evidence) -> Check:
    incident = Incident(
        id="0" * 20, kind="hung-request", confidence="confirmed", state="open", severity="critical", server="server",
        life="0" * 20, summary="", remedy="", reason="", evidence=(evidence,),
    )  # fmt: skip
    (check,) = verify(incident)
    return check
