"""A configuration read again: a good one is taken over with all open lives, a wrong one changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.config import Settings, load_settings
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now
from sleepwatch.store import open_store

SECOND = 1_000_000

# Recorded: a server that falls asleep with a request in its queue, whose client gives up three seconds later.
_RECORDED = (
    (Path(__file__).parents[1] / "corpus" / "b11368-default-gaveup" / "server.log").read_bytes().splitlines(True)
)
ASLEEP = b"".join(_RECORDED[:24])
GAVE_UP = _RECORDED[24]
assert b"cancel task" in GAVE_UP


class Daemon:
    """A service with a configuration file, looked at step by step."""

    def __init__(self, directory: Path) -> None:
        self.us = 100_000 * SECOND
        self.log = directory / "a.log"
        self.log.write_bytes(ASLEEP)
        self.config = directory / "sleepwatch.toml"
        self.database = directory / "a.db"
        self.said: list[str] = []
        self.complained: list[str] = []
        self.configure("")
        self.service = Service(
            load_settings(self.config),
            self.database,
            self,
            say=self.said.append,
            complain=self.complained.append,
            reload=lambda: load_settings(self.config),
        )

    def now(self) -> Now:
        return Now(self.us, 1_800_000_000 * SECOND + self.us)

    def configure(self, text: str) -> None:
        self.config.write_text(f"[[file]]\npath = '{self.log}'\n{text}")

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.service.step()
            self.us += SECOND

    def reload(self) -> None:
        """What the loop does when a SIGHUP set the flag."""
        self.service._take_over_settings()

    def states(self) -> dict[str, str]:
        with open_store(self.database, read_only=True) as store:
            return {incident.id: incident.state for incident in store.incidents()}


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    made = Daemon(tmp_path)
    made.service.start()
    made.run(3)
    return made


def test_a_wrong_one_is_refused_with_the_reason_and_the_old_one_stays(daemon: Daemon) -> None:
    before = daemon.service.settings
    daemon.configure("[following]\npoll_seconds = -1\nspeed = 3")
    daemon.reload()
    assert daemon.service.settings == before
    (sentence,) = daemon.complained
    assert sentence.startswith("the new configuration is refused, the old one stays: ")
    assert "following.poll_seconds = -1: must be a number from 0.05 up to 86400 (and 1 more)" in sentence
    daemon.write(GAVE_UP)
    daemon.run(3)
    assert list(daemon.states().values()) == ["abandoned"]


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"\xff"), lambda path: path.write_text("[")]
)
def test_one_that_cannot_be_read_is_refused(daemon: Daemon, damage: Callable[[Path], object]) -> None:
    before = daemon.service.settings
    damage(daemon.config)
    daemon.reload()
    assert daemon.service.settings == before
    assert daemon.complained


def test_a_good_one_keeps_open_lives(daemon: Daemon) -> None:
    daemon.configure("[following]\npoll_seconds = 2")
    daemon.reload()
    assert daemon.service.settings.following.poll_seconds == 2
    assert daemon.said[-1] == "configuration read again"
    daemon.write(GAVE_UP)  # says nothing to who has not seen the sleep before it
    daemon.run(3)
    assert list(daemon.states().values()) == ["abandoned"]


def test_a_log_that_is_taken_out_and_in_again_is_gone_on_with(daemon: Daemon, tmp_path: Path) -> None:
    own = daemon.config.read_text()
    (tmp_path / "b.log").write_text("")
    daemon.config.write_text(f"[[file]]\npath = '{tmp_path / 'b.log'}'\n")
    daemon.reload()
    daemon.run(3)
    daemon.config.write_text(own)
    daemon.reload()
    daemon.run(3)
    daemon.write(GAVE_UP)
    daemon.run(3)
    assert list(daemon.states().values()) == ["abandoned"]
    with open_store(daemon.database, read_only=True) as store:
        assert store.connection.execute("SELECT count(*) FROM gap").fetchone() == (0,)


def test_where_there_is_none_that_is_said(tmp_path: Path) -> None:
    sentences: list[str] = []
    clock = Daemon(tmp_path)
    service = Service(Settings(), tmp_path / "b.db", clock, say=sentences.append, complain=sentences.append)
    service.start()
    service._take_over_settings()
    service.stop()
    assert sentences == ["there is no configuration file to read again"]


def test_a_secret_that_is_not_there_is_said_before_it_is_wanted(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "urls").write_text("mail = 'mailto://x'\n")
    (tmp_path / "urls").chmod(0o600)
    (tmp_path / "key").write_text("key\n")
    targets = "[[target]]\nname = 'chat'\n[[target]]\nname = 'mail'\n[[target]]\nname = 'page'\ncommand = ['true']\n"
    daemon.configure(
        f"{targets}[notify]\nurls_file = 'urls'\n[wake]\nmode = 'act'\napi_key_file = 'none'\n"
        "[[wake.server]]\nname = 'a'\napi_key_file = 'key'\n[witness]\nprops = true\napi_key_file = 'none too'\n"
    )
    daemon.reload()
    missing = "the API key file {} cannot be read: no such file or directory (check its path, mode and owner)"
    assert daemon.complained == [
        f"target chat has neither a command nor a URL in {tmp_path / 'urls'}",
        missing.format(tmp_path / "none"),
        missing.format(tmp_path / "none too"),
    ]


def test_the_credential_that_is_not_there_is_said(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/nowhere")
    daemon.configure("[[target]]\nname = 'chat'\n")
    daemon.reload()
    (sentence,) = daemon.complained
    assert sentence == "target chat has neither a command nor a URL in the credential notify-urls, which is not there"
