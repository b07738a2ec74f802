"""Deaths: each kind, the order of precedence, what is said where the signal is not known, and what is no death."""

from __future__ import annotations

from tests.cases.case import Case, found
from tests.cases.made import compose, joined, journal, log

COMMAND = "llama-server -m model.gguf --port 8080 --sleep-idle-seconds 1"
SEGV = f"| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) {COMMAND}\n"
ABORTED = f"| /opt/run.sh: line 3: 1377 Aborted                 (core dumped) {COMMAND}\n"
KILLED = f"| /opt/run.sh: line 3: 1377 Killed                  {COMMAND}\n"
NO_SLEEP = "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server -m model.gguf --port 8080\n"
BEGIN = "0 start\n1 serve 0\n"
AGAIN = "0 start\n1 serve 0\n"
"""A new process behind a death; its clock begins anew."""


def systemd(time: float, text: str, unit: str = "llama-server") -> str:
    """A line systemd wrote about the unit, for a journal's script."""
    return f"{time} @systemd[1]: {unit}.service: {text}\n"


def kernel(time: float, text: str) -> str:
    """A kernel line, for a journal's script."""
    return f"{time} @kernel: {text}\n"


CASES = [
    # -- sleep-crash ----------------------------------------------------------------------------------------------------
    Case(
        name="sleep-crash-default",
        why="signal 11 after falling asleep; at this verbosity nothing shows the request that was being tokenized",
        log=log(BEGIN + "2.1 sleep\n" + SEGV + AGAIN),
        found=(found("sleep-crash", "probable", "restarted", signal=11, in_flight=None, log_opened_us=2_100_000),),
        lives=({"exit": "signal 11"}, {"exit": None}),
    ),
    Case(
        name="sleep-crash-between-the-twin-lines",
        why="the second sleep line never left the process",
        log=log(BEGIN + "2.1 enter\n" + SEGV + AGAIN),
        found=(found("sleep-crash", "probable", "restarted", signal=11),),
    ),
    Case(
        name="sleep-crash-with-arrival",
        why="an arrival right before the sleep without a launch: a request was in flight",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n" + SEGV + AGAIN),
        found=(found("sleep-crash", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="sleep-crash-with-format-era-a",
        why="a chat format right before it says the same in era A",
        log=log("0 start\n1 format\n1.01 serve 0\n2.05 format\n2.1 sleep\n" + SEGV + AGAIN, era="A"),
        found=(found("sleep-crash", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="sleep-crash-with-stale-arrival",
        why="an arrival four seconds before the sleep was refused, and no request in flight",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n1.1 arrive\n5.1 sleep\n" + SEGV + AGAIN),
        found=(found("sleep-crash", "probable", "restarted", signal=11, in_flight=None),),
    ),
    Case(
        name="sleep-crash-not-restarted",
        why="nothing started it again before the log ends",
        log=log(BEGIN + "2.1 sleep\n" + SEGV),
        found=(found("sleep-crash", "probable", "down", signal=11),),
    ),
    Case(
        name="sleep-crash-lines-lost",
        why="the crash took the sleep lines with it: signal 11, sleep mode on, no slot busy",
        log=log(BEGIN + SEGV + AGAIN),
        found=(
            found(
                "sleep-crash",
                "probable",
                "restarted",
                signal=11,
                in_flight=None,
                in_flight_reason="the last lines never left the process",
            ),
        ),
    ),
    Case(
        name="sleep-crash-of-which-a-later-life-tells",
        why="it dies each time before its sleep lines are out; that it has sleep mode on is seen when it sleeps at last",
        log=joined(
            journal(BEGIN + systemd(2.06, "Main process exited, code=killed, status=11/SEGV")),
            journal("0 start\n1.1 serve 0\n", pid=701, started=5),
            journal(systemd(7.16, "Main process exited, code=killed, status=11/SEGV"), unit=None),
            journal("0 start\n1 serve 0\n2.1 sleep\n", pid=702, started=9),
        ),
        found=(
            found("sleep-crash", "probable", "restarted", signal=11, in_flight=None),
            found("sleep-crash", "probable", "restarted", signal=11, in_flight=None),
        ),
    ),
    Case(
        name="crash-of-which-no-life-tells-more",
        why="nothing tells that this server has sleep mode on",
        log=joined(
            journal(BEGIN + systemd(2.06, "Main process exited, code=killed, status=11/SEGV")),
            journal(AGAIN, pid=701, started=5),
        ),
        found=(found("crash", "confirmed", "restarted", signal=11),),
    ),
    Case(
        name="crash-far-from-the-sleep-a-later-life-shows",
        why="it sleeps after a second, as a later life shows, and died nine seconds after its last request",
        log=joined(
            journal(BEGIN + systemd(10.1, "Main process exited, code=killed, status=11/SEGV")),
            journal("0 start\n1 serve 0\n2.1 sleep\n", pid=701, started=12),
        ),
        found=(found("crash", "confirmed", "restarted", signal=11),),
    ),
    Case(
        name="sleep-crash-owns-its-requests",
        why="a request posted into the sleep and a crash a moment later are one incident, the death's",
        log=log("0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n" + SEGV + AGAIN),
        found=(found("sleep-crash", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="sleep-crash-after-a-known-hang",
        why="a hang known before the death stays an incident and ends as lost",
        log=log("0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n40 internal 2 1\n" + SEGV + AGAIN),
        found=(
            found("hung-request", "confirmed", "lost", task=1),
            found("sleep-crash", "confirmed", "restarted", signal=11),
        ),
    ),
    Case(
        name="no-sleep-mode-idle-crash",
        why="a server without sleep mode that dies idle has another fault",
        log=log(BEGIN + NO_SLEEP + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=11),),
    ),
    # -- wake-failure -----------------------------------------------------------------------------------------------------
    Case(
        name="wake-failure-signal-11",
        why="a token-count route reads the vocabulary before the wake's barrier: it dies right after the reload",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n" + SEGV + AGAIN),
        found=(found("wake-failure", "confirmed", "restarted", signal=11, log_opened_us=20_000_000),),
    ),
    Case(
        name="wake-failure-during-the-reload",
        why="it died before the reload had ended",
        log=log(BEGIN + "2.1 sleep\n20 wake\n" + SEGV + AGAIN),
        found=(found("wake-failure", "confirmed", "restarted", signal=11),),
    ),
    Case(
        name="wake-failure-abort",
        why="out of memory at the wake",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.2 cuda\n| /src/ggml-cuda.cu:103: CUDA error\n" + ABORTED + AGAIN),
        found=(found("wake-failure", "confirmed", "restarted", signal=6),),
    ),
    Case(
        name="wake-failure-failed-to-reload",
        why="the server says so itself and aborts, even where no supervisor's line tells of the death",
        log=log(
            BEGIN + "2.1 sleep\n20 wake\n20.2 reload-failed\n"
            "| /src/tools/server/server-context.cpp:800: failed to reload model after sleeping\n" + AGAIN
        ),
        found=(found("wake-failure", "confirmed", "restarted"),),
    ),
    Case(
        name="wake-failure-killed-in-the-reload",
        why="any signal counts, the out-of-memory killer's too",
        log=log(BEGIN + "2.1 sleep\n20 wake\n" + KILLED + AGAIN),
        found=(found("wake-failure", "confirmed", "restarted", signal=9),),
    ),
    Case(
        name="wake-failure-ends-with-a-launch",
        why="a launch shows that it came awake: what follows is no wake failure",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 launch 2\n" + SEGV + AGAIN),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="wake-failure-second-cycle",
        why="the first wake was well, the second was not",
        log=log(
            BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake\n40.2 ready\n"
            "| /src/fattn-common.cuh:600: GGML_ASSERT(max_blocks_per_sm > 0) failed\n" + ABORTED + AGAIN
        ),
        found=(found("wake-failure", "confirmed", "restarted", signal=6, log_opened_us=40_000_000),),
    ),
    Case(
        name="wake-that-never-became-ready-stopped",
        why="woken, not ready after sixty times the usual reload, then stopped: the stop does not make it well",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake\n65 cleanup\n"),
        found=(found("wake-failure", "probable", "down", log_opened_us=40_000_000),),
    ),
    Case(
        name="wake-that-never-became-ready-restarted",
        why="and a new start behind the stop does not either",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake\n65 cleanup\n" + AGAIN),
        found=(found("wake-failure", "probable", "restarted", log_opened_us=40_000_000),),
    ),
    Case(
        name="wake-interrupted-by-a-stop",
        why="stopped within five times the longest reload: it may just have been slow",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake\n41.9 cleanup\n"),
    ),
    Case(
        name="wake-log-ends",
        why="a log that simply ends during a reload proves nothing",
        log=log(BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake\n"),
    ),
    Case(
        name="failed-load-warning-in-a-wake",
        why="the fitting that gives up says `abort`, and the load goes on",
        log=log(
            BEGIN + "2.1 sleep\n20 wake\n"
            "20.1 | common_fit_params: failed to fit params to free device memory: n_gpu_layers set by user, abort\n"
            "20.4 ready\n20.41 serve 2\n"
        ),
    ),
    # -- crash-in-flight ----------------------------------------------------------------------------------------------------
    Case(
        name="crash-in-flight",
        why="signal 11 with a request launched and not released",
        log=log(BEGIN + "1.2 launch 2\n" + SEGV + AGAIN),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="crash-in-flight-two",
        why="two launched, one of three done",
        log=log(BEGIN + "1.2 launch 2\n1.3 launch 4\n1.4 launch 6\n1.5 release 4\n" + SEGV + AGAIN),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=2),),
    ),
    Case(
        name="crash-in-flight-queued",
        why="queued behind nothing yet counts",
        log=log("0 start lv=5\n1 post 0\n1.01 serve 0\n1.2 post 2\n" + SEGV + AGAIN),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="crash-in-flight-arrived-far-from-any-sleep",
        why="a request that has arrived, while the idle timer had long to go",
        log=log(
            "0 start lv=4\n1 arrive\n1.01 serve 0\n61.06 sleep\n70 wake\n70.4 ready\n70.41 arrive\n70.42 serve 2\n"
            "75 arrive\n" + SEGV + AGAIN
        ),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="refused-long-ago-is-not-in-flight",
        why="an arrival a minute before the last line was refused, which prints nothing",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n1.5 arrive\n60 arrive\n60.1 launch 2\n" + SEGV + AGAIN),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="refused-long-ago-and-idle",
        why="nor does it make an idle server's crash one with a request in flight",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n1.5 arrive\n60 arrive\n60.1 serve 2\n" + NO_SLEEP + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=11, in_flight=0),),
    ),
    # -- crash ------------------------------------------------------------------------------------------------------------
    Case(
        name="crash-abort-awake",
        why="an abort is no signal 11, whatever was in flight",
        log=log(BEGIN + "1.2 launch 2\n| /src/ggml.c:100: GGML_ASSERT(x) failed\n" + ABORTED + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=6, in_flight=1),),
    ),
    Case(
        name="crash-abort-asleep",
        why="an abort while asleep is no sleep-crash",
        log=log(BEGIN + "2.1 sleep\n| /src/ggml.c:100: GGML_ASSERT(x) failed\n" + ABORTED + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=6),),
    ),
    Case(
        name="crash-killed-asleep",
        why="the out-of-memory killer takes sleeping servers too",
        log=log(BEGIN + "2.1 sleep\n" + KILLED + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=9),),
    ),
    Case(
        name="crash-before-listening",
        why="signal 11 during the first load is no sleep-crash and has nothing in flight",
        log=log("0.002 init\n0.008 load\n" + SEGV + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=11),),
    ),
    Case(
        name="crash-no-record-asleep",
        why="no record of the end and a new start: an idle server's last words are always the sleep lines",
        log=log(BEGIN + "2.1 sleep\n" + AGAIN),
        found=(found("crash", "possible", "restarted", signal=None),),
    ),
    Case(
        name="crash-no-record-awake",
        why="nor do the words tell more where it was working",
        log=log(BEGIN + "1.2 launch 2\n" + AGAIN),
        found=(found("crash", "possible", "restarted", signal=None),),
    ),
    Case(
        name="unknown-signal-right-after-the-sleep",
        why="no record of the end, but the clock shows the next start three seconds after it fell asleep",
        log=joined(
            journal(BEGIN + "2.1 sleep\n", pid=700),
            journal(AGAIN, pid=701, started=5),
        ),
        found=(found("sleep-crash", "probable", "restarted", signal=None),),
    ),
    Case(
        name="unknown-signal-long-after-the-sleep",
        why="an hour later anything may have ended it",
        log=joined(
            journal(BEGIN + "2.1 sleep\n", pid=700),
            journal(AGAIN, pid=701, started=3600),
        ),
        found=(found("crash", "possible", "restarted", signal=None),),
    ),
    Case(
        name="status-1",
        why="an exit with status 1 and no reason",
        log=joined(journal(BEGIN + systemd(9, "Main process exited, code=exited, status=1/FAILURE"))),
        found=(found("crash", "probable", "down", signal=None),),
    ),
    Case(
        name="systemd-signal-11-asleep",
        why="systemd tells the signal",
        log=joined(
            journal(
                BEGIN
                + "2.1 sleep\n"
                + systemd(2.2, "Main process exited, code=killed, status=11/SEGV")
                + systemd(2.21, "Failed with result 'signal'.")
            ),
            journal(AGAIN, pid=701, started=5),
        ),
        found=(found("sleep-crash", "probable", "restarted", signal=11),),
    ),
    Case(
        name="systemd-says-it-before-the-last-lines",
        why="the journal delivers a dying process's last lines behind the record of its end",
        log=joined(
            journal(BEGIN + systemd(2.09, "Main process exited, code=killed, status=11/SEGV") + "2.1 sleep\n"),
            journal(AGAIN, pid=701, started=5),
        ),
        found=(found("sleep-crash", "probable", "restarted", signal=11),),
    ),
    Case(
        name="oom-killed",
        why="the out-of-memory killer, told by systemd",
        log=joined(
            journal(
                BEGIN
                + "1.2 launch 2\n"
                + systemd(2.2, "A process of this unit has been killed by the OOM killer.")
                + systemd(2.21, "Main process exited, code=killed, status=9/KILL")
                + systemd(2.22, "Failed with result 'oom-kill'.")
            ),
        ),
        found=(found("crash", "confirmed", "down", signal=9),),
    ),
    Case(
        name="crashes-at-the-same-uptime-at-lv5",
        why="debug records before the death, a printed template behind the start, the old clock passed again: a restart",
        log=log(
            (
                "0 start lv=5\n0.31 | init: chat template, example_format: '<|im_start|>system\n| You are a helpful assistant"
                "<|im_end|>\n| '\n1 post 0\n1.01 launch 0\n1.5 | srv  update_slots: decoding\n"
                "| /src/ggml.c:100: GGML_ASSERT(x) failed\n| [New LWP 41]\n| #0  0x00007f in wait4 () from libc.so.6\n"
                + ABORTED
            )
            * 3
            + AGAIN
        ),
        found=(found("crash", "confirmed", "restarted", signal=6, in_flight=1),) * 3,
    ),
    Case(
        name="k3-abort-as-pid-1",
        why="an abort as process 1 of a container ends in a trap that is reported as 139: no signal 11",
        log=compose(BEGIN + "2.1 sleep\n| /src/ggml.c:100: GGML_ASSERT(x) failed\n@llama-1 exited with code 139\n"),
        found=(found("crash", "confirmed", "down", signal=6, server="llama-1"),),
    ),
    Case(
        name="container-139",
        why="the same code without an abort's words is signal 11",
        log=compose(BEGIN + "2.1 sleep\n@llama-1 exited with code 139\n"),
        found=(found("sleep-crash", "probable", "down", signal=11),),
    ),
    Case(
        name="container-137",
        why="killed from outside, most likely for its memory",
        log=compose(BEGIN + "2.1 sleep\n@llama-1 exited with code 137\n"),
        found=(found("crash", "confirmed", "down", signal=9),),
    ),
    Case(
        name="stack-shows-the-tokenizer",
        why="the coredump names the fault: a thread was reading the vocabulary",
        log=joined(
            journal(
                BEGIN
                + "2.1 sleep\n"
                + kernel(2.15, "llama-server[731]: segfault at 18 ip 00007f sp 00007f error 4 in libllama.so")
                + systemd(2.2, "Main process exited, code=dumped, status=11/SEGV")
                + "2.9 @systemd-coredump[740]: Process 700 (llama-server) of user 998 dumped core.\n"
                + "2.9 @systemd-coredump[740]: #1  0x00007f66 _ZN25llm_tokenizer_spm_session14try_add_bigramEii (libllama.so + 0xca)\n"
            )
        ),
        found=(found("sleep-crash", "confirmed", "down", signal=11),),
    ),
    # -- no deaths --------------------------------------------------------------------------------------------------------
    Case(
        name="writes-on-after-a-printed-segfault",
        why="a life that writes on did not die: somebody pasted a crash into a prompt",
        log=log(BEGIN + "1.2 launch 2\n" + SEGV + "| Segmentation fault (core dumped)\n1.5 release 2\n2.6 sleep\n"),
    ),
    Case(
        name="writes-on-after-a-printed-assert",
        why="an assert's text alone is no end; servers have been seen to go on",
        log=log(BEGIN + "1.2 launch 2\n| /src/ggml.c:100: GGML_ASSERT(x) failed\n1.5 release 2\n2.6 sleep\n"),
    ),
    Case(
        name="an-assert-and-the-log-ends",
        why="nobody says that it died",
        log=log(BEGIN + "1.2 launch 2\n| /src/ggml.c:100: GGML_ASSERT(x) failed\n"),
    ),
    Case(
        name="somebody-elses-segfault",
        why="the shell's line names another program",
        log=log(
            BEGIN
            + "2.1 sleep\n| /opt/run.sh: line 9: 4411 Segmentation fault      (core dumped) ffmpeg -i in.wav out.mp3\n"
        ),
    ),
    Case(
        name="another-units-death",
        why="another unit's record, in the same journal",
        log=joined(
            journal(
                BEGIN + "2.1 sleep\n" + systemd(2.2, "Main process exited, code=dumped, status=11/SEGV", unit="ollama")
            )
        ),
    ),
    Case(
        name="another-units-death-unit-unknown",
        why="nothing tells whose unit this process is, and the name is another program's",
        log=joined(
            journal(
                BEGIN + "2.1 sleep\n" + systemd(2.2, "Main process exited, code=dumped, status=11/SEGV", unit="ollama"),
                unit=None,
            )
        ),
    ),
    Case(
        name="own-units-death-unit-unknown",
        why="an excerpt that begins after the start: the unit's name is a llama-server's",
        log=joined(
            journal(
                BEGIN
                + "2.1 sleep\n"
                + systemd(2.2, "Main process exited, code=dumped, status=11/SEGV", unit="llama-gemma"),
                unit=None,
            )
        ),
        found=(found("sleep-crash", "probable", "down", signal=11),),
    ),
    Case(
        name="own-units-death-told-by-the-next-start",
        why="a unit of any name: the next process of this kind is started as that unit",
        log=joined(
            journal(
                BEGIN + "2.1 sleep\n" + systemd(2.2, "Main process exited, code=dumped, status=11/SEGV", unit="gemma"),
                unit=None,
            ),
            journal(AGAIN, pid=701, started=5, unit="gemma"),
        ),
        found=(found("sleep-crash", "probable", "restarted", signal=11, server="gemma.service"),),
    ),
    # -- crash-loop -------------------------------------------------------------------------------------------------------
    Case(
        name="five-deaths-without-a-record",
        why="five in a row that never came to listen, their signals unknown: one loop, probable",
        log=log("0.002 init\n0.008 load\n" * 5 + "0.002 init\n"),
        found=(found("crash-loop", "probable", "restarted", count=5),),
    ),
    Case(
        name="five-deaths-with-signals",
        why="with the signals known it is confirmed",
        log=log(("0.002 init\n0.008 load\n" + SEGV) * 5),
        found=(found("crash-loop", "confirmed", "down", count=5),),
    ),
    Case(
        name="four-deaths",
        why="four are four crashes",
        log=log(("0.002 init\n0.008 load\n" + SEGV) * 4 + AGAIN),
        found=(found("crash", "confirmed", "restarted", signal=11),) * 4,
    ),
    Case(
        name="a-served-request-ends-the-row",
        why="the server came to serve in between: two rows of three, no loop",
        log=log(
            ("0.002 init\n0.008 load\n" + ABORTED) * 3
            + BEGIN
            + ABORTED
            + ("0.002 init\n0.008 load\n" + ABORTED) * 3
            + AGAIN
        ),
        found=(found("crash", "confirmed", "restarted", signal=6),) * 7,
    ),
    Case(
        name="many-deaths-are-one-incident",
        why="hundreds of restarts are one incident with a count",
        log=log(("0.002 init\n0.008 load\n" + SEGV) * 300),
        found=(found("crash-loop", "confirmed", "down", count=300),),
    ),
    Case(
        name="loop-then-well",
        why="a loop that ends with a server that serves",
        log=log(("0.002 init\n0.008 load\n" + SEGV) * 6 + AGAIN),
        found=(found("crash-loop", "confirmed", "restarted", count=6),),
    ),
    # -- planned stops ----------------------------------------------------------------------------------------------------
    Case(
        name="stop-clean",
        why="a clean shutdown",
        log=log(BEGIN + "2.1 sleep\n30 cleanup\n" + AGAIN),
        lives=({"exit": "planned"}, {"exit": None}),
    ),
    Case(
        name="stop-with-requests-in-flight",
        why="what a stop interrupts is noted in the life, no incident",
        log=log(BEGIN + "1.2 launch 2\n1.3 cleanup\n" + AGAIN),
        lives=({"exit": "planned", "lost_to_stop": 1}, {"exit": None}),
    ),
    Case(
        name="stop-second-interrupt",
        why="a second Ctrl-C ends it at once, with status 1",
        log=joined(
            journal(
                BEGIN
                + "2 | x\n| Received second interrupt, terminating immediately.\n"
                + systemd(9, "Main process exited, code=exited, status=1/FAILURE")
            )
        ),
        lives=({"exit": "planned"},),
    ),
    Case(
        name="stop-sigterm",
        why="systemd stopped it",
        log=joined(
            journal(
                BEGIN
                + "8 @systemd[1]: Stopping llama-server.service - llama.cpp server...\n"
                + systemd(9, "Main process exited, code=killed, status=15/TERM")
            )
        ),
        lives=({"exit": "planned"},),
    ),
    Case(
        name="stop-sigkill-after-the-timeout",
        why="a stop that had to be enforced is still a stop",
        log=joined(
            journal(
                BEGIN
                + "1.2 launch 2\n8 @systemd[1]: Stopping llama-server.service - llama.cpp server...\n"
                + systemd(98, "State 'stop-sigterm' timed out. Killing.")
                + systemd(98.1, "Main process exited, code=killed, status=9/KILL")
                + systemd(98.2, "Failed with result 'timeout'.")
            )
        ),
        lives=({"exit": "planned"},),
    ),
    Case(
        name="stop-143",
        why="128 + SIGTERM, from servers that do not catch it",
        log=joined(journal(BEGIN + systemd(9, "Main process exited, code=exited, status=143/n/a"))),
        lives=({"exit": "planned"},),
    ),
    Case(
        name="stop-killed-by-a-signal-while-cleaning-up",
        why="killed during a clean shutdown",
        log=log(BEGIN + "2.1 sleep\n30 cleanup\n" + KILLED + AGAIN),
        lives=({"exit": "planned"}, {"exit": None}),
    ),
    Case(
        name="segfault-while-cleaning-up",
        why="a crash in the shutdown's last steps takes nothing from anybody",
        log=log(BEGIN + "30 cleanup\n" + SEGV + AGAIN),
        lives=({"exit": "planned"}, {"exit": None}),
    ),
    Case(
        name="stop-exit-0",
        why="status 0 is nobody's crash",
        log=joined(journal(BEGIN + "2.1 sleep\n" + systemd(9, "Deactivated successfully."))),
        lives=({"exit": "planned"},),
    ),
]
