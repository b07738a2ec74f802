"""Preset files as llama.cpp reads them. Made after its grammar (``common/preset.cpp``) and the shapes people use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.hosts import presets
from sleepwatch.hosts.options import ServerOptions, parse_arguments
from sleepwatch.hosts.presets import PresetError, parse


def sleeps(text: str, router: str = "") -> dict[str, int | None]:
    """The idle seconds of every model of a file; None where sleep mode is off."""
    file = parse(text, "models.ini")
    found = {}
    for model in presets.models(file, parse_arguments(router.split())):
        sleep = model.options.sleep
        found[model.name] = sleep.seconds if sleep.state == "on" else None
    return found


# The published shapes: for all models, per model, for some files, numbers as people write them.
SHAPES = {
    "for all models": (
        "[*]\nsleep-idle-seconds = 300\n\n[a]\nmodel = /a.gguf\n[b]\nmodel = /b.gguf\n",
        {"a": 300, "b": 300},
    ),
    "per model": ("[a]\nsleep-idle-seconds = 900\nm = /a.gguf\n[b]\nm = /b.gguf\n", {"a": 900, "b": None}),
    "a section against the rest": (
        "[*]\nsleep-idle-seconds=1800\n[a]\nsleep-idle-seconds=-1\n[b]\nc=1\n",
        {"a": None, "b": 1800},
    ),
    "with the version line": ("version = 1\n\n[*]\nsleep-idle-seconds = 60 ; unload\n[a]\nm = x\n", {"a": 60}),
    "comments everywhere": ("; top\n# too\n[*] ; all\nsleep-idle-seconds = 77#seconds\n  ; indented\n[a]\n", {"a": 77}),
    "Windows line ends": ("[*]\r\nsleep-idle-seconds = 10\r\n[a]\r\nm = x\r\n", {"a": 10}),
    "old Mac line ends": ("[*]\rsleep-idle-seconds = 10\r[a]\rm = x\r", {"a": 10}),
    "no blanks, no last line end": ("[*]\nsleep-idle-seconds=5\n[a]\nm=x", {"a": 5}),
    "tabs": ("[*]\nsleep-idle-seconds\t=\t5\t\n[a]\nm=x", {"a": 5}),
    "a repository with its tag": (
        "[*]\nsleep-idle-seconds = 600\n[org/Repo-GGUF:Q4_K_M]\nngl = 99\n",
        {"org/Repo-GGUF:Q4_K_M": 600},
    ),
    "global section last": ("[a]\nm = x\n[*]\nsleep-idle-seconds = 3\n", {"a": 3}),
    "the last of equal keys": ("[a]\nsleep-idle-seconds = 1\nsleep-idle-seconds = 2\n", {"a": 2}),
    "a section that comes again": ("[a]\nsleep-idle-seconds = 1\n[a]\nm = x\n", {"a": None}),
    "above all sections": ("sleep-idle-seconds = 5\n[a]\nm = x\n", {"default": 5, "a": None}),
    "a default section": ("[default]\nsleep-idle-seconds = 5\n[a]\nm = x\n", {"default": 5, "a": None}),
    "zero is refused, not off": ("[a]\nsleep-idle-seconds = 0\n", {"a": None}),
    "quotes are part of the value": ('[a]\nsleep-idle-seconds = "600"\n', {"a": None}),
    "empty": ("", {}),
    "only comments": ("; nothing\n\n   \n# here", {}),
    "an empty value": ("[a]\nalias =\nsleep-idle-seconds = 9\n", {"a": 9}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(shape: str) -> None:
    text, expected = SHAPES[shape]
    assert sleeps(text) == expected


def test_the_states_behind_those_that_are_not_on() -> None:
    file = parse('[a]\nsleep-idle-seconds = 0\n[b]\nsleep-idle-seconds = "600"\n[c]\nsleep-idle-seconds = -1\n[d]\n')
    states = {model.name: model.options.sleep.state for model in presets.models(file, ServerOptions())}
    assert states == {"a": "refused", "b": "refused", "c": "off", "d": "off"}


def test_the_routers_command_line_wins_over_the_file() -> None:
    text = "[*]\nsleep-idle-seconds = 300\n[a]\nsleep-idle-seconds = 60\n[b]\n"
    assert sleeps(text, "--models-preset models.ini --sleep-idle-seconds -1") == {"a": None, "b": None}
    assert sleeps(text, "--models-preset models.ini --sleep-idle-seconds 900") == {"a": 900, "b": 900}


def test_what_the_router_keeps_for_itself_is_not_handed_down() -> None:
    router = parse_arguments(
        [
            "--models-preset",
            "x",
            "--port",
            "8080",
            "--host",
            "0.0.0.0",
            "--api-key",
            "k",
            "-lv",
            "4",
            "--models-max",
            "2",
        ]
    )
    (model,) = presets.models(parse("[a]\nmodel = x.gguf\n"), router)
    assert model.options.verbosity == 4
    assert not {"port", "host", "api-key", "models-preset", "models-max"} & set(model.options.settings)
    assert model.options.settings["verbosity"].place == "the router's command line"


def test_places_name_file_section_and_line() -> None:
    (model,) = presets.models(
        parse("[*]\n\nsleep-idle-seconds = 5\n[a]\nload-on-startup = true\n", "/etc/m.ini"), ServerOptions()
    )
    assert model.options.sleep.setting is not None
    assert model.options.sleep.setting.place == "/etc/m.ini line 3, [*]"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[a]\n  sleep-idle-seconds = 5\n", 2, "is indented"),
        ("[a]\n--sleep-idle-seconds = 5\n", 2, "no dashes"),
        ("[a]\nsleep-idle-seconds 5\n", 2, "has no '='"),
        ("[a]\nsleep-idle-seconds: 5\n", 2, "has no '='"),
        ("[a\nm = x\n", 1, "no section header"),
        ("[a] model\n", 1, "no section header"),
        ("[]\n", 1, "no section header"),
        ("\ufeff[a]\n", 1, "byte order mark"),
        ("[a]\n9lives = 1\n", 2, "begins with a letter"),
        ("a = 1\n\nwhat is this\n", 3, "has no '='"),
        ('{"a": {"sleep": 5}}', 1, "has no '='"),
        ("[a]\nm = x\n<<<<<<< HEAD\n", 3, "has no '='"),
    ],
)
def test_malformed_files_name_the_line_that_stops_the_server(text: str, line: int, why: str) -> None:
    with pytest.raises(PresetError) as caught:
        parse(text, "m.ini")
    assert f"m.ini line {line}: " in caught.value.message
    assert why in caught.value.message
    assert caught.value.hint is not None


def test_what_does_not_do_what_it_looks_like_is_said() -> None:
    file = parse(
        "sleep-idle-seconds = 5\n[a ]\nLLAMA_ARG_SLEEP_IDLE_SECONDS = 5\n[b]\nsleep-idle-seconds = 1\n[b]\nc = 1\n",
        "m.ini",
    )
    found = {problem.code: problem for problem in presets.problems(file)}
    assert set(found) == {"top-level-sleep", "blank-in-name", "unknown-key", "replaced-section"}
    assert "below [*]" in found["top-level-sleep"].what
    assert "line 4: [b] comes again" in found["replaced-section"].what


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="no such file"):
        presets.read(tmp_path / "none.ini")
    with pytest.raises(PresetError, match="is a directory"):
        presets.read(tmp_path)
    (tmp_path / "large.ini").write_bytes(b";" * (1 << 21))
    with pytest.raises(PresetError, match="1 MiB"):
        presets.read(tmp_path / "large.ini")
    (tmp_path / "bytes.ini").write_bytes(b"[a]\nalias = \xff\xfe\nsleep-idle-seconds = 3\n")
    assert presets.models(presets.read(tmp_path / "bytes.ini"), ServerOptions())[0].options.sleep.seconds == 3


def test_configuration_files_stand_below_everything(tmp_path: Path) -> None:
    system, user = tmp_path / "etc/llama.cpp/config.ini", tmp_path / "home/.config/llama.cpp/config.ini"
    for path in (system, user):
        path.parent.mkdir(parents=True)
    system.write_text("sleep-idle-seconds = 100\n[*]\nparallel = 2\n[other]\nsleep-idle-seconds = 1\n")
    user.write_text("[default]\nsleep-idle-seconds = 200\n")
    paths = presets.config_paths({"HOME": "/home"})
    assert [str(path) for path in paths] == ["/etc/llama.cpp/config.ini", "/home/.config/llama.cpp/config.ini"]
    found, unread = presets.config_options(paths, lambda path: tmp_path / str(path).lstrip("/"))
    assert (found.sleep.seconds, found.slots, unread) == (200, 2, ())
    assert found.sleep.setting is not None
    assert found.sleep.setting.kind == "config"
    assert parse_arguments(["--sleep-idle-seconds", "-1"]).over(found).sleep.state == "off"
    user.write_text("nonsense\n")
    found, unread = presets.config_options(paths, lambda path: tmp_path / str(path).lstrip("/"))
    assert found.sleep.seconds == 100
    assert unread == ("/home/.config/llama.cpp/config.ini line 1: has no '='",)
    assert presets.config_paths({"XDG_CONFIG_HOME": "/x", "HOME": "/h"})[1] == Path("/x/llama.cpp/config.ini")
    assert len(presets.config_paths({})) == 1


@given(st.text(alphabet=st.sampled_from("[]*=;#ab -\n\r\tsleep-idle-seconds0123456789"), max_size=200))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        file = parse(text, "m.ini")
    except PresetError as error:
        named = "m.ini line " in error.message
        assert named
        return
    presets.problems(file)
    for model in presets.models(file, ServerOptions()):
        assert model.options.sleep.state in ("on", "off", "refused", "unknown")


def test_a_named_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ini")
    with pytest.raises(PresetError, match="not a regular file"):
        presets.read(tmp_path / "pipe.ini")
