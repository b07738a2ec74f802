"""llama-server's options: every way to give one, and which wins. Made after llama.cpp ``common/arg.cpp``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.hosts.options import (
    DEFAULT_VERBOSITY,
    LOUDEST,
    leading_number,
    options,
    parse_arguments,
    parse_environment,
    parse_keys,
)


def keys(text: str, kind: str = "preset") -> list[tuple[str, str, str]]:
    return [
        (key.strip(), value.strip(), "made") for key, _, value in (line.partition("=") for line in text.split("\n"))
    ]


@pytest.mark.parametrize(
    ("arguments", "state", "seconds"),
    [
        ("", "off", None),
        ("--sleep-idle-seconds 300", "on", 300),
        ("--sleep_idle_seconds 300", "on", 300),
        ("--sleep-idle-seconds -1", "off", -1),
        ("--sleep-idle-seconds 0", "refused", 0),
        ("--sleep-idle-seconds -2", "refused", -2),
        ("--sleep-idle-seconds 300s", "on", 300),
        ("--sleep-idle-seconds abc", "refused", None),
        ("--sleep-idle-seconds 99999999999", "refused", None),
        ("--sleep-idle-seconds 300 -m x --sleep-idle-seconds -1", "off", -1),
        ("--sleep-idle-seconds -1 --sleep_idle_seconds 60", "on", 60),
        ("-m x -np 1 --sleep-idle-seconds 5 --port 8080", "on", 5),
        ("--alias --sleep-idle-seconds -m 300", "off", None),
        ("--sleep-idle-seconds ${IDLE}", "unknown", None),
        ("--control-vector-layer-range 1 --sleep-idle-seconds 300", "off", None),
    ],
)
def test_sleep_on_the_command_line(arguments: str, state: str, seconds: int | None) -> None:
    sleep = parse_arguments(arguments.split()).sleep
    assert (sleep.state, sleep.seconds) == (state, seconds)


def test_the_equals_sign_is_read_and_called_refused() -> None:
    read = parse_arguments(["--sleep-idle-seconds=300", "-m", "x"])
    assert read.sleep.seconds == 300
    (problem,) = read.problems
    assert (problem.code, problem.fatal) == ("equals-sign", True)
    assert "write '--sleep-idle-seconds 300'" in problem.what


def test_an_option_without_its_value_is_refused() -> None:
    read = parse_arguments(["-m", "x", "--sleep-idle-seconds"])
    assert [(one.code, one.fatal) for one in read.problems] == [("no-value", True)]
    assert read.sleep.state == "off"


def test_unknown_options_are_named_with_the_nearest_known_one_and_do_not_hide_what_follows() -> None:
    read = parse_arguments(["--sleep-idle-second", "5", "--brand-new-thing", "--sleep-idle-seconds", "7"])
    assert read.sleep.seconds == 7
    assert [one.code for one in read.problems] == ["unknown-option", "unknown-option"]
    assert "--sleep-idle-seconds is" in read.problems[0].what
    assert not any(one.fatal for one in read.problems)


def test_the_variable_people_set_is_ignored_and_pointed_out() -> None:
    read = parse_environment({"LLAMA_ARG_SLEEP_IDLE_SECONDS": "120", "LLAMA_ARG_TIMEOUT": "60", "PATH": "/bin"})
    assert read.sleep.state == "off"
    assert read.number("timeout") == 60
    (problem,) = read.problems
    assert problem.code == "ignored-environment"
    assert problem.setting is not None
    assert problem.setting.value == "120"


@pytest.mark.parametrize(
    ("arguments", "environment", "verbosity"),
    [
        ("", {}, DEFAULT_VERBOSITY),
        ("-lv 4", {}, 4),
        ("--verbosity 5", {}, 5),
        ("-v", {}, LOUDEST),
        ("-v -lv 3", {}, 3),
        ("-lv 3 -v", {}, LOUDEST),
        ("", {"LLAMA_ARG_LOG_VERBOSITY": "1"}, 1),
        ("", {"LLAMA_LOG_VERBOSITY": "2"}, 2),
        ("-lv 4", {"LLAMA_ARG_LOG_VERBOSITY": "1"}, 4),
        ("-lv loud", {}, DEFAULT_VERBOSITY),
    ],
)
def test_verbosity(arguments: str, environment: dict[str, str], verbosity: int) -> None:
    assert parse_arguments(arguments.split()).over(parse_environment(environment)).verbosity == verbosity


@pytest.mark.parametrize(
    ("arguments", "router"),
    [
        ("", True), ("--models-preset x.ini", True), ("--models-dir /m --models-max 1", True), ("-m x", False),
        ("-hf a/b", False), ("--model-url http://x/y.gguf", False), ("--gpt-oss-20b-default", False),
        ("--spec-default", True),
    ],
)  # fmt: skip
def test_a_server_without_a_model_is_a_router(arguments: str, router: bool) -> None:
    assert parse_arguments(arguments.split()).is_router is router


def test_what_makes_the_window_wider() -> None:
    assert parse_arguments(["-m", "x", "--mmproj", "p.gguf"]).images is not None
    assert parse_arguments(["-m", "x", "-md", "d.gguf"]).drafting is not None
    assert parse_arguments(["-m", "x", "--spec-type", "draft-mtp"]).drafting is not None
    assert parse_arguments(["-m", "x", "--spec-type", "none"]).drafting is None
    assert parse_arguments(["-m", "x"]).images is None


def test_slots_model_and_flags() -> None:
    read = parse_arguments(
        ["-m", "/models/gemma.gguf", "-np", "2", "--no-models-autoload", "--no-log-prefix", "--log-disable"]
    )
    assert (read.slots, read.model, read.silent) == (2, "gemma.gguf", True)
    assert read.flag("models-autoload", True) is False
    assert read.flag("log-prefix", True) is False
    assert parse_arguments(["-np", "-1", "-hf", "org/repo:Q4_K_M"]).slots is None
    assert parse_arguments(["-np", "-1", "-hf", "org/repo:Q4_K_M"]).model == "org/repo:Q4_K_M"
    assert parse_arguments(["-m", "x", "--alias", "friendly"]).model == "friendly"


def test_keys_of_a_preset_in_every_spelling() -> None:
    read = parse_keys(
        keys("c = 4096\nnp = 2\nLLAMA_ARG_TIMEOUT = 9\nno-mmap = 1\nsleep-idle-seconds = 60"), kind="preset", fatal="x"
    )
    assert (read.number("ctx-size"), read.slots, read.number("timeout"), read.sleep.seconds) == (4096, 2, 9, 60)
    assert read.flag("mmap", True) is False
    assert read.problems == ()


@pytest.mark.parametrize("key", ["sleep_idle_seconds", "LLAMA_ARG_SLEEP_IDLE_SECONDS", "SLEEP-IDLE-SECONDS"])
def test_keys_that_look_like_sleep_mode_are_fatal(key: str) -> None:
    read = parse_keys([(key, "300", "made")], kind="preset", fatal="the router does not start")
    assert read.sleep.state == "off"
    (problem,) = read.problems
    assert problem.fatal
    assert "write sleep-idle-seconds; the router does not start" in problem.what


def test_an_unknown_key_may_be_of_a_newer_build() -> None:
    read = parse_keys([("brand-new", "1", "made"), ("paralel", "1", "made")], kind="preset", fatal="it does not start")
    assert [one.fatal for one in read.problems] == [False, False]
    assert "(parallel is)" in read.problems[1].what


def test_preset_only_keys_and_the_version_are_known() -> None:
    text = "version = 1\nload-on-startup = true\nstop-timeout = 5\ndedup-cache-models = 1"
    assert parse_keys(keys(text), kind="preset", fatal="x").problems == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), (" 5", 5), ("+5", 5), ("5.9", 5), ("", None), ("x", None), ("2147483648", None), ("0x1F", 0)],
)
def test_numbers_as_cpp_reads_them(text: str, value: int | None) -> None:
    assert leading_number(text) == value


def test_the_table_has_no_spelling_twice() -> None:
    spellings = [spelling for option in options() for spelling in (*option.spellings, *option.negations)]
    names = [name for option in options() for name in option.environment]
    assert len(spellings) == len(set(spellings))
    assert len(names) == len(set(names))
    assert {option.values for option in options()} == {0, 1, 2}


@given(st.lists(st.text(max_size=12)), st.dictionaries(st.text(max_size=12), st.text(max_size=12)))
def test_any_command_line_and_environment_are_read(arguments: list[str], environment: dict[str, str]) -> None:
    read = parse_arguments(arguments).over(parse_environment(environment))
    assert read.sleep.state in ("on", "off", "refused", "unknown")
    assert isinstance(read.verbosity, int)
