"""A path this user may not even look at: each command says so in one sentence, and none takes it for missing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sleepwatch import config
from sleepwatch.cli import main
from sleepwatch.daemon import status
from tests.support.nobody import as_nobody, only_root

pytestmark = only_root


@pytest.fixture
def closed() -> Iterator[Path]:
    """A directory of root's in one that everybody may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        directory = Path(name) / "closed"
        (directory / "inside").mkdir(parents=True)
        (directory / "server.log").write_text("")
        (directory / "sleepwatch.toml").write_text("")
        directory.chmod(0o700)
        yield directory


def _told(*words: str, **environ: str) -> str:
    """What nobody is told, behind the exit code."""

    def run() -> str:
        result = CliRunner().invoke(main, words, env=environ)
        bug = "" if isinstance(result.exception, SystemExit | None) else repr(result.exception)
        return f"{result.exit_code} {result.output}{bug}"

    run()  # what a command imports late may lie where nobody else can read it
    return as_nobody(run)


@pytest.mark.parametrize(
    "command",
    [
        "scan {0}/server.log",
        "scan {0}/inside",
        "scan {0}",
        "scan -D {0}/inside",
        "scan -D {0}",
        "scan --journal-file {0}/system.journal",
        "explain {0}/server.log:3",
        "incidents list --db {0}/inside/s.db",
        "config show -c {0}/inside/sleepwatch.toml",
    ],
)
def test_what_cannot_be_looked_at_is_denied(closed: Path, command: str) -> None:
    told = _told(*command.format(closed).split())
    assert told.startswith("2 "), told
    assert "permission denied" in told
    assert "Error(" not in told


@pytest.mark.parametrize(
    "command",
    [
        "rules list --rules {0}/inside",
        "sweep --server {0}/llama-server --model /etc/passwd",
        "sweep --server /bin/true --model {0}/server.log",
        "sweep --server /bin/true --model /etc/passwd --bug-report {0}/inside/report.md",
    ],
)
def test_what_cannot_be_looked_at_cannot_be_used(closed: Path, command: str) -> None:
    told = _told(*command.format(closed).split())
    assert told.startswith("2 sleepwatch: "), told
    assert "Error(" not in told


@pytest.mark.parametrize("command", ["run", "config show", "config check"])
def test_a_configuration_that_cannot_be_looked_at_is_not_taken_for_none(
    closed: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "DEFAULT_PATH", closed / "sleepwatch.toml")
    CliRunner().invoke(main, [*command.split(), "-c", "/nowhere"])  # for what it imports
    told = as_nobody(lambda: CliRunner().invoke(main, command.split()).output)
    assert "sleepwatch.toml: permission denied" in told


def test_where_ones_own_database_cannot_be_looked_at_the_services_is_meant(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = closed.parent / "lib" / "sleepwatch.db"
    service.parent.mkdir()
    monkeypatch.setattr(status, "SERVICE_PATH", service)
    for command in ("status", "incidents list", "notify list", "silence list", "explain --incident abc"):
        told = _told(*command.split(), XDG_STATE_HOME=str(closed / "state"))
        assert f"there is no database at {service}" in told, command
