"""Unit files on disk. Made; the expected values are those of systemd.unit(5) and systemd.syntax(7)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.hosts.unitfiles import (
    SYSTEM_PATHS,
    Tree,
    expand,
    parse,
    parse_environment,
    parse_environment_file,
    read_config,
    resolve,
    specifiers,
    split_words,
    template_of,
    unescape,
    user_paths,
)


def write(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
    return Tree(SYSTEM_PATHS, root)


def test_comments_continued_lines_and_sections() -> None:
    text = (
        "[Unit]\n# a comment\nDescription = two\n[Service]\n"
        "ExecStart=/bin/a \\\n  # left out\n  ; this too\n   --b \\\n  c\n"
        "Restart=no\n\n;Restart=always\nnot an assignment\n[X-Own]\nKey=1\n"
    )
    found = [(one.section, one.key, one.value, one.line) for one in parse(text, "u")]
    assert found == [
        ("Unit", "Description", "two", 3),
        ("Service", "ExecStart", "/bin/a  --b  c", 5),
        ("Service", "Restart", "no", 10),
        ("X-Own", "Key", "1", 15),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/a b  c", ["/a", "b", "c"]),
        ("/a \"two words\" 'three more words'", ["/a", "two words", "three more words"]),
        (r"/a two\x20words \t", ["/a", "two words", "\t"]),
        ('/a --flag="with blank" ""', ["/a", "--flag=with blank", ""]),
        (r'/a "quoted \"inside\""', ["/a", 'quoted "inside"']),
        (r"/a \101 \u00e4 \q", ["/a", "A", "ä", r"\q"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_drop_ins_are_sorted_by_name_and_the_strongest_directory_counts(tmp_path: Path) -> None:
    tree = write(
        tmp_path,
        {
            "usr/lib/systemd/system/llm-a@.service": "[Service]\nExecStart=/x\nRestart=no\n",
            "usr/lib/systemd/system/llm-a@.service.d/10-vendor.conf": "[Service]\nRestart=always\n",
            "etc/systemd/system/llm-a@one.service.d/20-own.conf": "[Service]\nRestart=on-abort\n",
            "etc/systemd/system/llm-.service.d/15-prefix.conf": "[Service]\nRestart=on-failure\nRestartSec=9\n",
            "etc/systemd/system/service.d/05-all.conf": "[Service]\nRestartSec=1\n",
            "run/systemd/system/llm-a@one.service.d/20-own.conf": "[Service]\nRestart=on-watchdog\n",
            "etc/systemd/system/llm-a@.service.d/10-vendor.conf": "-> /dev/null",
            "etc/systemd/system/llm-a@one.service.d/README": "[Service]\nRestart=never-read\n",
        },
    )
    loaded = tree.load("llm-a@one.service")
    assert loaded is not None
    assert loaded.fragment == "/usr/lib/systemd/system/llm-a@.service"
    assert [Path(one).name for one in loaded.drop_ins] == ["05-all.conf", "15-prefix.conf", "20-own.conf"]
    restart, seconds = loaded.scalar("Service", "Restart"), loaded.scalar("Service", "RestartSec")
    assert restart is not None
    assert seconds is not None
    assert (restart.value, restart.path) == ("on-abort", "/etc/systemd/system/llm-a@one.service.d/20-own.conf")
    assert seconds.value == "9"


def test_an_empty_assignment_resets(tmp_path: Path) -> None:
    tree = write(
        tmp_path,
        {
            "etc/systemd/system/a.service": "[Service]\nExecStart=/one\nRestart=always\n",
            "etc/systemd/system/a.service.d/override.conf": "[Service]\nExecStart=\nExecStart=/two\nRestart=\n",
        },
    )
    loaded = tree.load("a.service")
    assert loaded is not None
    assert [one.value for one in loaded.values("Service", "ExecStart")] == ["/two"]
    assert loaded.scalar("Service", "Restart") is None


def test_masked_missing_and_aliased_units(tmp_path: Path) -> None:
    tree = write(
        tmp_path,
        {
            "etc/systemd/system/masked.service": "-> /dev/null",
            "etc/systemd/system/empty.service": "",
            "usr/lib/systemd/system/real.service": "[Service]\nExecStart=/x\n",
            "etc/systemd/system/alias.service": f"-> {tmp_path}/usr/lib/systemd/system/real.service",
            "usr/lib/systemd/system/real.service.d/a.conf": "[Service]\nRestart=always\n",
            "etc/systemd/system/broken.service": "-> /nowhere/at/all.service",
        },
    )
    masked, empty = tree.load("masked.service"), tree.load("empty.service")
    assert masked is not None
    assert masked.masked
    assert empty is not None
    assert empty.masked
    alias = tree.load("alias.service")
    assert alias is not None
    assert alias.scalar("Service", "Restart") is not None
    broken = tree.load("broken.service")
    assert broken is not None
    assert broken.unreadable == ("/etc/systemd/system/broken.service: a link that leads nowhere",)
    assert tree.load("absent.service") is None
    assert {"alias.service", "real.service"} <= set(tree.names())


def test_enabled_is_a_link_or_a_timer_that_is_linked(tmp_path: Path) -> None:
    tree = write(
        tmp_path,
        {
            "etc/systemd/system/a.service": "[Service]\n",
            "etc/systemd/system/b.service": "[Service]\n",
            "etc/systemd/system/c.service": "[Service]\n",
            "etc/systemd/system/multi-user.target.wants/a.service": "-> ../a.service",
            "etc/systemd/system/timers.target.wants/b.timer": "-> ../b.timer",
        },
    )
    assert [tree.enabled(name) for name in ("a.service", "b.service", "c.service")] == [True, True, False]


def test_environment_in_both_forms() -> None:
    assert parse_environment('"A=two words" B=c C=') == {"A": "two words", "B": "c", "C": ""}
    text = '# c\nA=1\nB="two words"\nC=\'x"y\'\n export D=e\nE=long \\\nline\n; no\nnonsense\nF="a\\"b"\n'
    assert parse_environment_file(text) == {
        "A": "1", "B": "two words", "C": 'x"y', "D": "e", "E": "long line", "F": 'a"b',
    }  # fmt: skip


def test_variables_as_systemd_puts_them_in() -> None:
    environment = {"EXTRA": "--a 'b c'", "MODEL": "x y"}
    words = ["/bin/x", "-m", "${MODEL}", "$EXTRA", "pre${MODEL}", "$$HOME", "$NOT_KNOWN", "a$MODEL"]
    assert expand(words, environment) == [
        "/bin/x", "-m", "x y", "--a", "b c", "prex y", "$HOME", "$NOT_KNOWN", "a$MODEL",
    ]  # fmt: skip


def test_specifiers() -> None:
    letters = specifiers("llm-a@big\\x2dmodel-x.service", home="/root", uid=0, user="root", runtime="/run")
    assert resolve("%i|%I|%p|%n|%N|%h|%u|%U|%t|%S|%%|%q", letters) == (
        "big\\x2dmodel-x|big-model/x|llm-a|llm-a@big\\x2dmodel-x.service|llm-a@big\\x2dmodel-x|/root|root|0|/run|/var/lib|%|%q"
    )
    assert unescape("a-b\\x2dc") == "a/b-c"
    assert template_of("llm@x.service") == "llm@.service"
    assert template_of("llm@.service") is None
    assert template_of("llm.service") is None


def test_configuration_with_drop_ins(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/systemd/journald.conf": "[Journal]\nStorage=volatile\n#RateLimitBurst=5\n",
            "usr/lib/systemd/journald.conf.d/10-a.conf": "[Journal]\nRateLimitBurst=1\n",
            "etc/systemd/journald.conf.d/20-b.conf": "[Journal]\nStorage=persistent\n",
        },
    )
    config = read_config("journald.conf", tmp_path)
    storage, burst = config.scalar("Journal", "Storage"), config.scalar("Journal", "RateLimitBurst")
    assert storage is not None
    assert burst is not None
    assert (storage.value, storage.path) == ("persistent", "/etc/systemd/journald.conf.d/20-b.conf")
    assert burst.value == "1"


def test_a_users_paths_come_from_home_and_environment() -> None:
    assert user_paths("/home/a", 1000)[4] == "/home/a/.config/systemd/user"
    assert "/run/user/1000/systemd/transient" in user_paths("/home/a", 1000)
    assert user_paths("/home/a", 1000, {"XDG_CONFIG_HOME": "/x"})[4] == "/x/systemd/user"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its rights")
def test_files_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    from tests.hosts.unprivileged import as_nobody

    tmp_path.chmod(0o755)
    tree = write(
        tmp_path,
        {
            "etc/systemd/system/a.service": "[Service]\nExecStart=/x\nRestart=no\n",
            "etc/systemd/system/a.service.d/secret.conf": "[Service]\nRestart=always\n",
        },
    )
    (tmp_path / "etc/systemd/system/a.service.d/secret.conf").chmod(0o600)

    def look() -> object:
        loaded = tree.load("a.service")
        assert loaded is not None
        restart = loaded.scalar("Service", "Restart")
        assert restart is not None
        return [restart.value, *loaded.unreadable]

    assert as_nobody(look, reachable=tmp_path) == [
        "no",
        "/etc/systemd/system/a.service.d/secret.conf: permission denied",
    ]


@given(st.text(max_size=300))
def test_any_text_is_parsed(text: str) -> None:
    for one in parse(text, "u"):
        assert one.section
        expand(split_words(one.value), {})
    parse_environment_file(text)
    parse_environment(text)
