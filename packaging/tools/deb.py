"""Builds the Debian package: the program with libraries of its own, and all that belongs around it.

    python packaging/tools/deb.py [--python /usr/bin/python3] [--into dist]

The libraries are wheels, compiled by whoever published them, so the package needs no compiler; but a wheel is made for
one minor version of Python, and so the package is for distributions whose python3 has the version of ``--python``.
Needs dpkg-deb, and an index of packages that pip can reach.
"""

from __future__ import annotations

import argparse
import email
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import generate

from sleepwatch import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
HOME = Path("usr/lib/sleepwatch")
SHARE = Path("usr/share/sleepwatch")
DOC = Path("usr/share/doc/sleepwatch")
REVISION = 1
_MAINTAINER = "sleepwatch <sleepwatch@localhost>"
_SCRIPTS = ("postinst", "prerm", "postrm")
_FILES = {
    "systemd/sleepwatch.service": "usr/lib/systemd/system",
    "sysusers/sleepwatch.conf": "usr/lib/sysusers.d",
    "tmpfiles/sleepwatch.conf": "usr/lib/tmpfiles.d",
    "example/sleepwatch.toml": "etc/sleepwatch",
    "systemd/rights/*": f"{SHARE}/rights",
    "prometheus/*": f"{SHARE}/prometheus",
    "grafana/*": f"{SHARE}/grafana",
    "datasette/*": f"{SHARE}/datasette",
}
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/sleepwatch",
    "zsh": "usr/share/zsh/vendor-completions/_sleepwatch",
    "fish": "usr/share/fish/vendor_completions.d/sleepwatch.fish",
}
_LEAVINGS = ("bin", "pip", "pip-*.dist-info", "*.dist-info/direct_url.json", "*.dist-info/RECORD")
"""What nobody calls (sqlite-utils asks for pip, for a command that is not there), and what dpkg knows itself."""


class Target:
    """The Python the package is for."""

    def __init__(self, program: str) -> None:
        ask = "import sys; print(*sys.version_info[:2])"
        self.program = program
        self.major, self.minor = map(int, _output(program, "-c", ask).split())

    @property
    def version(self) -> str:
        """``3.11``."""
        return f"{self.major}.{self.minor}"

    @property
    def depends(self) -> str:
        """This minor version and no other."""
        return f"python3 (>= {self.version}), python3 (<< {self.major}.{self.minor + 1})"


def build(target: Target, into: Path) -> Path:
    """Build it; the file."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _last_change())
    with tempfile.TemporaryDirectory() as room:
        root = Path(room) / "root"
        root.mkdir()
        site = _install_libraries(target, root, Path(room))
        _put_files(root)
        _put_generated(root, Path(room))
        _put_documents(root, site, _version(target))
        architecture = _output("dpkg", "--print-architecture").strip()
        _put_control(root, target, architecture)
        into.mkdir(parents=True, exist_ok=True)
        package = into / f"sleepwatch_{_version(target)}_{architecture}.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(package))
    return package


def _version(target: Target) -> str:
    return f"{__version__}-{REVISION}+py{target.major}{target.minor}"


def _last_change() -> str:
    """Seconds since the epoch: what is built from the same sources is the same to the byte."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or str(int((ROOT / "CHANGELOG.md").stat().st_mtime))


def _install_libraries(target: Target, root: Path, room: Path) -> Path:
    """The environment, as `python3 -m venv` would make it there, with the program's wheel and all it needs."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", str(room), str(ROOT))
    (wheel,) = room.glob("sleepwatch-*.whl")
    home = root / HOME
    site = home / "lib" / f"python{target.version}" / "site-packages"
    _run(
        *pip, "--python", target.program, "install", "--only-binary=:all:", "--no-compile", "--target", str(site),
        str(wheel),
    )  # fmt: skip
    for leaving in _LEAVINGS:
        for path in site.glob(leaving):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = true\nversion = {target.version}\n"
    )
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to("../../../bin/python3")
    return site


def _put_files(root: Path) -> None:
    for pattern, directory in _FILES.items():
        for path in sorted(PACKAGING.glob(pattern)):
            _copy(path, root / directory / path.name)
    _copy(PACKAGING / "debian" / "sleepwatch", root / "usr/bin/sleepwatch")


def _put_generated(root: Path, room: Path) -> None:
    day = _output("date", "--utc", f"--date=@{os.environ['SOURCE_DATE_EPOCH']}", "+%F").strip()
    generate.write(room / "generated", day)
    for page in (room / "generated" / "man").iterdir():
        _compress(page.read_bytes(), root / "usr/share/man/man1" / f"{page.name}.gz")
    for shell, path in _COMPLETIONS.items():
        _copy(room / "generated" / "completions" / f"sleepwatch.{shell}", root / path)


def _put_documents(root: Path, site: Path, version: str) -> None:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.*"))):
        _copy(path, root / DOC / path.relative_to(ROOT))
    _compress((ROOT / "CHANGELOG.md").read_bytes(), root / DOC / "changelog.gz")
    day = _output("date", "--rfc-email", "--utc", f"--date=@{os.environ['SOURCE_DATE_EPOCH']}").strip()
    entry = f"sleepwatch ({version}) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- {_MAINTAINER}  {day}\n"
    _compress(entry.encode(), root / DOC / "changelog.Debian.gz")
    (root / DOC / "copyright").write_text("\n".join(_copyright(site)) + "\n")


def _copyright(site: Path) -> Iterator[str]:
    """The program's licence, and what its libraries say theirs is; the texts lie beside each library."""
    yield (ROOT / "LICENSE").read_text()
    yield f"Beside it, in /{HOME}, each with its own licence (/usr/share/common-licenses/Apache-2.0 is that of Apache):"
    yield ""
    for metadata in sorted(site.glob("*.dist-info/METADATA")):
        said = email.message_from_string(metadata.read_text())
        if said["Name"] != "sleepwatch":
            classified = [one.rpartition(" :: ")[2] for one in said.get_all("Classifier", []) if "License ::" in one]
            licence = said["License-Expression"] or ", ".join(classified) or (said["License"] or "").partition("\n")[0]
            yield f"{said['Name']} {said['Version']}: {licence or 'see its files'}"


def _put_control(root: Path, target: Target, architecture: str) -> None:
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    control = root / "DEBIAN"
    control.mkdir()
    text = (PACKAGING / "debian" / "control").read_text()
    project = "Finds requests that llama-server's sleep mode lost or crashed on"
    depends = ", ".join(
        (target.depends, "libc6, libgcc-s1, libstdc++6, init-system-helpers (>= 1.54), systemd (>= 250)")
    )
    (control / "control").write_text(
        text.format(
            version=_version(target),
            maintainer=_MAINTAINER,
            architecture=architecture,
            size=size // 1024,
            depends=depends,
            description=project,
        )
    )
    (control / "conffiles").write_text("/etc/sleepwatch/sleepwatch.toml\n")
    for name in _SCRIPTS:
        _copy(PACKAGING / "debian" / name, control / name)
    _set_modes(root, {root / "usr/bin/sleepwatch", *(control / name for name in _SCRIPTS)})


def _set_modes(root: Path, programs: set[Path]) -> None:
    """Whatever the umask, and whatever the wheels had."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _compress(data: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(data, 9, mtime=0))


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default="/usr/bin/python3", help="the distribution's Python")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    package = build(Target(given.python), given.into)
    print(f"{package}: {package.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
