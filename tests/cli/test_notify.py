"""`sleepwatch notify` and `sleepwatch silence`; what `status` and `config` tell of messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleepwatch.cli import main
from sleepwatch.config import Target
from sleepwatch.store import open_store
from tests.notify.office import HOUR, MINUTE, Office, incident
from tests.support.receivers import Answer, HttpReceiver


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def _configured(place: Path, urls: str, targets: str) -> Path:
    file = place / "urls.toml"
    file.write_text(urls)
    file.chmod(0o600)
    config = place / "sleepwatch.toml"
    config.write_text(f'[notify]\nurls_file = "urls.toml"\ntimeout_seconds = 60\n{targets}')
    return config


def test_test_sends_a_real_message_and_prints_what_each_service_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with HttpReceiver() as good, HttpReceiver(lambda document: Answer(500)) as bad:
        config = _configured(
            tmp_path,
            f'good = "{good.url}"\nbad = "{bad.url}"\nodd = "nosuch://x"\n',
            '[[target]]\nname = "good"\ntags = ["night", "day"]\n[[target]]\nname = "bad"\n[[target]]\nname = "odd"\n'
            '[[target]]\nname = "none"\n[[target]]\nname = "program"\ntags = ["night"]\n'
            f'command = ["sh", "-c", "cat > {out}"]\n',
        )
        result = run("notify", "test", "-c", config)
        lines = dict(line.split(": ", 1) for line in result.output.splitlines())
        assert result.exit_code == 1
        assert lines["good (JSON)"].startswith("sent: accepted, ")
        assert lines["bad (JSON)"].startswith("failed: Failed to send JSON")
        assert "500" in lines["bad (JSON)"]
        assert lines["odd"].startswith("failed: the URL is none that apprise knows")
        assert lines["none"].startswith("failed: no URL of this name can be read")
        assert lines["program (sh)"].startswith("sent: exit code 0")
        assert "very-secret" not in result.output
        assert json.loads(out.read_text())["what"] == "test"
        [message] = good.received
        assert message["title"].endswith(": sleepwatch can reach you")
        tagged = run("notify", "test", "-c", config, "--tag", "night")
        assert tagged.exit_code == 0
        assert [line.split()[0] for line in tagged.output.splitlines()] == ["good", "program"]
        named = run("notify", "test", "-c", config, "--target", "program")
        assert (named.exit_code, len(good.received)) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "nobody"), "there is no target nobody"),
        (("--tag", "nobody"), "there is no target that fits"),
    ],
)
def test_test_of_a_target_that_there_is_not(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    config = _configured(tmp_path, "", '[[target]]\nname = "program"\ncommand = ["true"]\n')
    result = run("notify", "test", "-c", config, *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "configured in" in result.output and "program" in result.output


def test_list_shows_what_has_not_arrived_with_every_attempt(tmp_path: Path) -> None:
    office = Office(tmp_path, Target(name="chat", command=("x",)), outcome=lambda parcel: "failed", give_up_hours=0.1)
    office.happens(incident("crash", 1))
    office.pass_time(MINUTE)
    with open_store(office.database) as store:
        assert store.connection.execute("SELECT target, last_attempt FROM undelivered").fetchall() == [
            ("chat", "failed")
        ]
    waiting = run("notify", "list", "--db", office.database)
    assert waiting.exit_code == 0
    assert waiting.output.startswith("waiting: opened to chat, queued ")
    office.pass_time(HOUR)
    # As of the clock of these incidents it was given up long ago.
    with office.store.transaction() as transaction:
        transaction.execute("UPDATE delivery SET done_us = ?", (10**17,))
    listed = run("notify", "list", "--db", office.database)
    assert listed.exit_code == 1
    assert listed.output.startswith("undeliverable: opened to chat")
    assert listed.output.count("failed: failed") == 5
    document = json.loads(run("notify", "list", "--db", office.database, "--json").output)
    assert [len(one["attempts"]) for one in document["messages"]] == [5]
    status = json.loads(run("status", "--db", office.database, "--json").output)
    assert status["messages"][0]["state"] == "undeliverable"
    assert {"status": "WARNING", "words": "1 message undeliverable (chat)"} in status["reasons"]
    plain = run("status", "--db", office.database).output
    assert "undeliverable=1;0" in plain.splitlines()[0]
    assert "undeliverable: opened to chat" in plain


def test_nothing_waits(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.happens(incident("crash", 1))
    office.pass_time(MINUTE)
    result = run("notify", "list", "--db", office.database)
    assert (result.exit_code, result.stdout) == (0, "")
    assert run("status", "--db", office.database, "--json").output.count("undeliverable") == 0


def test_silences_are_added_listed_and_removed(tmp_path: Path) -> None:
    database = Office(tmp_path).database
    reason = "new\tdriver"
    added = run("silence", "add", "--db", database, "--server", "llama*", "--until", "+2h", "--reason", reason)
    assert added.exit_code == 0
    assert added.output.startswith("silence 1 until 2")
    run("silence", "add", "--db", database, "--kind", "blind", "--until", "+1h", "--reason", "disk")
    listed = run("silence", "list", "--db", database).output.splitlines()
    assert listed[0].startswith("1: of llama*, until ") and listed[0].endswith(", nothing kept back: new\\x09driver")
    assert listed[1].startswith("2: blind, until ")
    document = json.loads(run("silence", "list", "--db", database, "--json").output)
    assert [(one["server"], one["kind"]) for one in document["silences"]] == [("llama*", None), (None, "blind")]
    assert run("silence", "remove", "--db", database, "1").output == "silence 1 has ended\n"
    assert len(run("silence", "list", "--db", database).output.splitlines()) == 1
    gone = run("silence", "remove", "--db", database, "1")
    assert gone.exit_code == 2
    assert "no silence 1 is in force" in gone.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--until", "+1h", "--reason", "x"), "a silence of everything"),
        (("--kind", "crash", "--until", "-1h", "--reason", "x"), "is in the past"),
        (("--kind", "crash", "--until", "soon", "--reason", "x"), "'soon' is not a time"),
        (("--kind", "crash", "--until", "+1h"), "--reason"),
        (("--kind", "crush", "--until", "+1h", "--reason", "x"), "crush"),
    ],
)
def test_a_wrong_silence_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    database = Office(tmp_path).database
    result = run("silence", "add", "--db", database, *arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_config_check_says_which_targets_have_no_url(tmp_path: Path) -> None:
    targets = '[[target]]\nname = "chat"\n[[target]]\nname = "mail"\n[[target]]\nname = "p"\ncommand = ["true"]\n'
    config = _configured(tmp_path, 'mail = "mailto://very-secret@x"\n', targets)
    result = run("config", "check", "-c", config)
    assert result.exit_code == 0
    assert result.stderr.count("target chat has neither a command nor a URL in") == 1
    assert "mail" not in result.stderr.replace(str(tmp_path), "")
    (tmp_path / "urls.toml").chmod(0o644)
    assert "chmod 600" in run("config", "check", "-c", config).stderr
    assert "very-secret" not in run("config", "show", "-c", config).output
    (tmp_path / "urls.toml").unlink()
    assert "cannot be read" in run("config", "check", "-c", config).stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[target]]\nname = ""', 'target[0].name = ""'),
        ('[[target]]\nname = "ping"', "and not 'ping'"),
        ('[[target]]\nname = "a"\n[[target]]\nname = "a"', "target[1].name"),
        ('[[target]]\nname = "a"\ncommand = []', "target[0].command = []"),
        ('[[target]]\nname = "a"\ncommand = "true"', "target[0].command"),
        ('[[target]]\nname = "a"\nkinds = ["crush"]', 'target[0].kinds = "crush": must be some of blind'),
        ('[[target]]\nname = "a"\nseverity = "bad"', 'must be one of "critical", "info", "warning"'),
        ('[[target]]\nname = "a"\nconfidence = "possible"', 'must be one of "confirmed", "probable"'),
        ("[[target]]\n", "target[0].name: is missing"),
        ("[notify]\nping_seconds = 1", "notify.ping_seconds = 1"),
    ],
)
def test_wrong_targets_are_refused(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "sleepwatch.toml"
    config.write_text(text)
    result = run("config", "check", "-c", config)
    assert result.exit_code == 2
    assert words in result.output
