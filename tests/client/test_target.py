from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.client.target import TargetError, parse_target


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("localhost:8080", "http://localhost:8080"),
        ("http://localhost", "http://localhost:80"),
        ("https://llama.example", "https://llama.example:443"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/llama/v1/", "http://127.0.0.1:8080/llama"),
        ("unix:///run/llama.sock", "unix:///run/llama.sock"),
        ("unix:/run/llama.sock", "unix:///run/llama.sock"),
    ],
)
def test_an_address_is_taken_as_people_write_it(written: str, url: str) -> None:
    assert parse_target(written).url == url


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("ftp://host", "ftp:// is not spoken here"),
        ("http://", "it names no host"),
        ("http://host:port", "Port could not be cast"),
        ("http://host:99999", "Port out of range"),
        ("http://host/?x=1", "a query"),
        ("unix://run/llama.sock", "begins with a slash"),
        ("http://me:secret@host", "a user or a password"),
        ("http://ho\x1bst:port", r"\x1b"),
    ],
)
def test_another_one_is_refused_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(TargetError) as refused:
        parse_target(written)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://127.8.8.8:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost:8080", True),
        ("unix:///run/llama.sock", True),
        ("http://192.168.1.5:8080", False),
        ("http://llama.example:8080", False),
        ("http://localhost.example:8080", False),
    ],
)
def test_what_is_on_this_machine(url: str, here: bool) -> None:
    assert parse_target(url).is_here is here


def test_the_key_is_the_first_line_that_is_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\n  first \nsecond\n")
    assert parse_target("http://host", key_file=file).api_key() == "first"
    assert parse_target("http://host").api_key() is None


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "is empty"), (b"\n\n", "is empty"), (b"a b", "printable"), (b"\xff", "printable")]
)
def test_a_key_that_is_none_is_refused_and_not_shown(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(TargetError, match=why) as refused:
        parse_target("http://host", key_file=file).api_key()
    assert "a b" not in str(refused.value)


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be read: no such file"):
        parse_target("http://host", key_file=tmp_path / "none").api_key()


def test_a_certificate_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be used"):
        parse_target("https://host", ca_file=tmp_path / "none").tls_context()
    (tmp_path / "no.pem").write_text("no certificate")
    with pytest.raises(TargetError, match="cannot be used"):
        parse_target("https://host", ca_file=tmp_path / "no.pem").tls_context()
