"""Manual pages and completions: every command and option is in them, and the programs that read them do."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

ROOT = Path(__file__).parents[2]
_PROGRAM = '#!/bin/sh\nexec env PYTHONPATH={root} {python} -m sleepwatch "$@"\n'


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "packaging" / "tools" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _load()
PAGES = list(generate.pages())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("generated")
    generate.write(directory, "2026-11-30")
    program = directory / "bin" / "sleepwatch"
    program.parent.mkdir()
    program.write_text(_PROGRAM.format(root=ROOT, python=sys.executable))
    program.chmod(0o755)
    return directory


def _run(made: Path, *command: str | Path) -> str:
    environment = {**os.environ, "PATH": f"{made / 'bin'}:{os.environ['PATH']}", "HOME": str(made), "LC_ALL": "C.UTF-8"}
    words = [str(one) for one in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_every_command_has_a_page(made: Path) -> None:
    names = {name for name, _ in PAGES}
    assert {"sleepwatch", "sleepwatch-scan", "sleepwatch-incidents-show"} <= names
    assert {path.stem for path in (made / "man").iterdir()} == names


@pytest.mark.parametrize(("name", "context"), PAGES, ids=[name for name, _ in PAGES])
def test_a_page_has_all_that_the_help_has(made: Path, name: str, context: click.Context) -> None:
    page = (made / "man" / f"{name}.1").read_text()
    plain = re.sub(r"\\f[BR]|\\&", "", page).replace(r"\-", "-").replace(r"\e", "\\")
    words = set(re.findall(r"[\w/=.*$'<>-]+", (context.command.help or "").replace("\b", "").replace("`", "")))
    sections = re.findall(r"^\.SH (.*)$", plain, re.MULTILINE)
    assert sections[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]
    lost = {word for word in words if word not in plain and word.upper() not in plain}
    assert not lost
    for parameter in context.command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert all(option in plain for option in parameter.opts)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_finds_nothing_wrong_with_the_pages(made: Path) -> None:
    _run(made, "mandoc", "-T", "lint", "-W", "warning", *sorted((made / "man").iterdir()))


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("sc", ["scan"]), ("incidents ", ["list", "show"]), ("incidents list --kind hung", ["hung-request"])],
)
def test_bash_completes(made: Path, typed: str, offered: list[str]) -> None:
    words = ["sleepwatch", *typed.split(" ")]
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f". {made}/completions/sleepwatch.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        '_sleepwatch_completion sleepwatch; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert _run(made, "bash", "--norc", "-c", script).split() == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(made: Path) -> None:
    script = f"source {made}/completions/sleepwatch.fish; complete -C 'sleepwatch incidents '"
    assert [line.split("\t")[0] for line in _run(made, "fish", "--no-config", "-c", script).splitlines()] == [
        "list",
        "show",
    ]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_its_completion(made: Path) -> None:
    script = made / "completions" / "sleepwatch.zsh"
    assert script.read_text().startswith("#compdef sleepwatch\n")
    _run(made, "zsh", "--no-rcs", "-n", script)
    (made / "functions").mkdir()
    shutil.copy(script, made / "functions" / "_sleepwatch")
    found = _run(
        made, "zsh", "--no-rcs", "-c",
        f"fpath=({made}/functions $fpath); autoload -U compinit && compinit -u -D && print ${{_comps[sleepwatch]}}",
    )  # fmt: skip
    assert found.strip() == "_sleepwatch"
