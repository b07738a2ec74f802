"""What apprise makes of our messages, and what of a URL is shown."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.config import Notify
from sleepwatch.errors import SleepwatchError
from sleepwatch.notify.message import About, Place, message, title_of
from sleepwatch.notify.policy import What
from sleepwatch.notify.targets import is_open_to_all, masked, read_urls, urls_place
from sleepwatch.rules import load_incidents
from tests.notify.test_message import incident

WORDS = load_incidents()
PLACE = Place(host="gpu-host-1", now_us=1_796_044_801_500_000)


@pytest.fixture
def takes_anything() -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A real HTTP server in the place of PagerDuty's and Opsgenie's: its URL, and what came in (path, JSON)."""
    came: list[tuple[str, dict[str, Any]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            came.append((self.path, json.loads(body or b"{}")))
            self.send_response(202)
            self.end_headers()
            self.wfile.write(b'{"status": "success", "requestId": "r", "data": {"alertId": "a"}}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", came
    server.shutdown()
    server.server_close()
    thread.join()


def _pair() -> list[Any]:
    """The messages of an incident's beginning and end."""
    opened, over = incident("crash"), incident("crash", state="restarted")
    title = title_of(opened, WORDS["crash"], PLACE.host)
    return [
        message(what, About(incident=one, words=WORDS["crash"]), PLACE, title)
        for what, one in ((What.OPENED, opened), (What.RECOVERED, over))
    ]


def test_pagerduty_closes_what_it_opened(
    takes_anything: tuple[str, list[tuple[str, dict[str, Any]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    apprise = pytest.importorskip("apprise")
    pagerduty = pytest.importorskip("apprise.plugins.pagerduty")
    url, came = takes_anything
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", dict.fromkeys(pagerduty.PAGERDUTY_API_LOOKUP, url))
    service = apprise.Apprise()
    assert service.add("pagerduty://integration-key@api-key/?action=map")
    for told in _pair():
        assert service.notify(
            title=told.title, body=told.short, notify_type=apprise.NotifyType(told.type), body_format="text"
        )
    (_, opened), (_, over) = came
    assert (opened["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == over["dedup_key"]
    assert opened["payload"]["severity"] == "warning"


def test_markup_in_a_name_reaches_no_service(takes_anything: tuple[str, Any]) -> None:
    """HTML and Markdown services escape what is plain text; what they do not know is broken before."""
    apprise = pytest.importorskip("apprise")
    conversion = pytest.importorskip("apprise.conversion.format")
    text = "<b>x</b> *y* @everyone"
    assert "<b>" not in conversion.convert_between(apprise.NotifyFormat.TEXT, apprise.NotifyFormat.HTML, text)
    assert r"\*y" in conversion.convert_between(apprise.NotifyFormat.TEXT, apprise.NotifyFormat.MARKDOWN, text)


URLS = [
    ("json://user:very-secret@127.0.0.1:8000/hook", ("very-secret",)),
    ("tgram://123456789:AAbbCCddEE/987654321", ("AAbbCCddEE", "123456789", "987654321")),
    ("slack://TokenAAAA/TokenBBBB/TokenCCCC/#alerts", ("TokenAAAA", "TokenBBBB", "TokenCCCC")),
    ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", ("4174216298", "JHMHI8qBe7bk2ZwO5U711o3dV_js")),
    ("mailto://me:pass%20word@mail.example.org?to=you@example.org", ("pass%20word", "pass word")),
    ("https://hc-ping.com/0d0c6d4e-5f7e-4c7f-b5d1-6ad7d7e0e3a1", ("0d0c6d4e-5f7e-4c7f-b5d1-6ad7d7e0e3a1",)),
]


@pytest.mark.parametrize(("url", "secrets"), URLS)
def test_no_part_of_a_secret_is_shown(url: str, secrets: tuple[str, ...]) -> None:
    words = f"could not send to {url}: {' and '.join(secrets)} refused by mail.example.org"
    text = masked(words, [url])
    for secret in secrets:
        assert secret not in text
    assert text.startswith("could not send to (secret)")
    assert text.endswith("refused by mail.example.org")


def _file(tmp_path: Path, text: str) -> Notify:
    path = tmp_path / "urls.toml"
    path.write_bytes(text.encode("latin-1"))
    return Notify(urls_file=str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('chat = "very-secret', "not valid TOML (at end of document)"),
        ("chat = very-secret", "not valid TOML (at line 1"),
        ('chat = ["very-secret"]', "chat is not a text"),
        ('chat = ""', "chat is not a text"),
        ('chat = "\xff-secret"', "not UTF-8"),
    ],
)
def test_a_wrong_file_is_explained_without_what_is_in_it(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SleepwatchError) as caught:
        read_urls(_file(tmp_path, text), {})
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SleepwatchError, match="cannot be read: no such file"):
        read_urls(Notify(urls_file=str(tmp_path / "none")), {})


def test_urls_come_from_the_file_or_else_from_the_credential(tmp_path: Path) -> None:
    credential = tmp_path / "secret_notify-urls"
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert urls_place(Notify(), environment) is None
    assert read_urls(Notify(), environment) == {}
    credential.write_text('chat = " json://localhost "\n')
    assert read_urls(Notify(), environment) == {"chat": "json://localhost"}
    assert read_urls(_file(tmp_path, 'mail = "mailto://x"'), environment) == {"mail": "mailto://x"}


def test_a_file_that_all_may_read_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "urls"
    path.touch()
    path.chmod(0o644)
    assert is_open_to_all(path)
    path.chmod(0o640)
    assert not is_open_to_all(path)
    assert not is_open_to_all(tmp_path / "none")
