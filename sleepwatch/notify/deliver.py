"""Sends messages, in a short-lived process of its own: a service that hangs or a library that leaks ends with it.

``python -m sleepwatch.notify.deliver`` reads one :class:`~sleepwatch.notify.job.Job` as JSON from standard input and
writes one :class:`~sleepwatch.notify.job.Result` a line to standard output, each as soon as it is known. Targets are
told side by side; what goes to one of them, one after the other.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from sleepwatch.clock import SystemClock
from sleepwatch.errors import os_words
from sleepwatch.notify.job import PING, Job, Parcel, Result
from sleepwatch.notify.targets import masked
from sleepwatch.printable import printable

if TYPE_CHECKING:
    from apprise import Apprise, AppriseResult

FAILURES = 2
"""After so many failures in a row the rest for a target is not tried: it does not take anything now."""
WORDS_LENGTH = 300
_MAIL = (
    "mailto", "mailtos", "mailgun", "sendgrid", "ses", "sparkpost", "smtp2go", "resend", "brevo", "postmark", "azure",
    "o365", "sendpulse", "email",
)  # fmt: skip
"""URLs of services that send mail."""


Say = Callable[[Result], None]


def main() -> None:
    """Do the job on standard input."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    running = Running()

    def end(number: int, frame: FrameType | None) -> None:
        running.kill()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    for result in run(job, running):
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()
    os._exit(0)  # a thread may still wait for a service that was given up


def run(job: Job, running: Running) -> Iterator[Result]:
    """Each result, as it is known. Ends when all are, or when the time for all is over."""
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()
    ends = _now_s() + job.total_s
    missing = {parcel.delivery: parcel for parcel in job.parcels}
    if any(parcel.url is not None for parcel in job.parcels):
        with contextlib.suppress(ImportError):  # said for each parcel
            import apprise  # noqa: F401  (once, and not in each thread)
    if job.ping is not None:
        threading.Thread(target=_ping, args=(job.ping, job.timeout_s, results.put), daemon=True).start()
    for target in dict.fromkeys(parcel.target for parcel in job.parcels):
        parcels = [parcel for parcel in job.parcels if parcel.target == target]
        threading.Thread(target=_tell, args=(parcels, job.timeout_s, ends, running, results.put), daemon=True).start()
    waiting = {*missing, *([PING] if job.ping is not None else [])}
    while waiting:
        try:
            result = results.get(timeout=max(0.0, ends + job.timeout_s - _now_s()))
        except queue.Empty:
            break
        waiting.discard(result.delivery)
        yield result


class Running:
    """The commands that are running now, each in a process group of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()

    @contextlib.contextmanager
    def group(self, leader: int) -> Iterator[None]:
        """This one runs; what is left of it at the end is killed."""
        with self._lock:
            self._groups.add(leader)
        try:
            yield
        finally:
            _kill(leader)
            with self._lock:
                self._groups.discard(leader)

    def kill(self) -> None:
        """End them all."""
        for leader in tuple(self._groups):
            _kill(leader)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _tell(parcels: list[Parcel], timeout_s: float, ends: float, running: Running, say: Say) -> None:
    """Tell one target all that is for it, until it fails too often or the time is over."""
    failures = 0
    for parcel in parcels:
        if failures >= FAILURES or _now_s() >= ends:
            words = "not tried: the target took nothing before it" if failures else "not tried: the time was over"
            say(Result(delivery=parcel.delivery, outcome="not tried", words=words, service=""))
            continue
        begun = _now_s()
        if parcel.command is not None:
            result = _run(parcel, parcel.command, timeout_s, running)
        else:
            result = _send(parcel, timeout_s)
        say(msgspec.structs.replace(result, took_s=round(_now_s() - begun, 3)))
        failures = 0 if result.outcome == "sent" else failures + 1


# -- a URL ------------------------------------------------------------------------------------------------------------


def _send(parcel: Parcel, timeout_s: float) -> Result:
    """Send it with apprise."""

    def came(outcome: str, words: str, service: str = "") -> Result:
        return Result(
            delivery=parcel.delivery, outcome=outcome, words=_words(words, [parcel.url or ""]), service=service
        )

    if parcel.url is None:
        return came("failed", "no URL of this name can be read (notify.urls_file, else the credential notify-urls)")
    try:
        from apprise import Apprise, NotifyFormat, NotifyType
        from apprise.exception import AppriseException
    except ImportError:
        return came("failed", "apprise is not installed")
    services = Apprise()
    if not services.add(parcel.url):
        return came("failed", "the URL is none that apprise knows (docs/notify.md)")
    name = _service_name(services)
    long = parcel.form == "long" or (parcel.form is None and parcel.url.partition(":")[0].lower() in _MAIL)
    try:
        result = services.notify(
            title=parcel.title,
            body=parcel.long if long else parcel.short,
            notify_type=NotifyType(parcel.type),
            body_format=NotifyFormat.TEXT,
            timeout=timeout_s,
        )
    except (AppriseException, TypeError, ValueError, OSError) as error:
        return came("failed", f"{type(error).__name__}: {error}", name)
    return came(*outcome_of(result), name)


def outcome_of(result: AppriseResult) -> tuple[str, str]:
    """The outcome and what was said about it.

    A service counts by its last attempt: its own status says "success" also of a failure where its URL says that it is
    optional (apprise 2.x, ``NotifyResult.status``).
    """
    attempts = [list(service) for service in result]
    if not attempts or not all(attempts):
        return "failed", _said(result) or f"nothing was sent ({result.status.name.lower()})"
    last = [ones[-1].status.name for ones in attempts]
    if all(status == "SUCCESS" for status in last):
        return "sent", "accepted"
    if "FAILURE" in last:
        return "failed", _said(result) or "refused, without a word"
    return "timeout", "no answer in time"


def _said(result: AppriseResult) -> str:
    return "; ".join(dict.fromkeys(entry.message for entry in result.logs()))


def _service_name(services: Apprise) -> str:
    return ", ".join(str(service.service_name) for service in services)


# -- a command --------------------------------------------------------------------------------------------------------


def _run(parcel: Parcel, command: tuple[str, ...], timeout_s: float, running: Running) -> Result:
    """Run it with the incident on its standard input; exit code 0 is delivered."""
    name = os.path.basename(command[0])

    def came(outcome: str, words: str) -> Result:
        return Result(delivery=parcel.delivery, outcome=outcome, words=_words(words, []), service=name)

    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
        )
    except OSError as error:
        return came("failed", f"it cannot be run: {os_words(error)}")
    with running.group(process.pid), process:
        try:
            _, said = process.communicate(parcel.document.encode() + b"\n", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            return came("timeout", f"it was killed after {timeout_s:g} s")
    if process.returncode == 0:
        return came("sent", "exit code 0")
    lines = said.decode(errors="replace").strip().splitlines()
    end = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
    return came("failed", end + (f": {lines[-1]}" if lines else ""))


# -- the dead man's URL -----------------------------------------------------------------------------------------------


def _ping(url: str, timeout_s: float, say: Say) -> None:
    import urllib.request

    begun = _now_s()
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            outcome, words = "sent", f"HTTP {answer.status}"
    except (OSError, ValueError) as error:
        outcome, words = "failed", str(error)
    took_s = round(_now_s() - begun, 3)
    say(Result(delivery=PING, outcome=outcome, words=_words(words, [url]), service="ping", took_s=took_s))


def _now_s() -> float:
    return SystemClock.now().monotonic_us / 1e6


def _words(words: str, urls: list[str]) -> str:
    text = printable(masked(words.replace("\r\n", " ").replace("\n", " "), [url for url in urls if url]))
    return text if len(text) <= WORDS_LENGTH else f"{text[: WORDS_LENGTH - 1]}…"


if __name__ == "__main__":
    main()
