"""Printed text: prompts, templates and bodies that hold copies of log lines, perfect ones too. They prove nothing."""

from __future__ import annotations

from tests.cases.case import Case, found
from tests.cases.made import log

SERVED = "0 start lv=5\n1 post 0\n1.01 serve 0\n"
PROMPT = "100.001 | srv  update_slots: prompt of task 2:\n"
"""A debug record whose text goes on over the next lines as its client wrote it."""
AFTER = "100.002 launch 2\n100.5 release 2\n101.6 sleep\n300 wake\n300.4 ready\n300.41 post 5\n300.42 serve 5\n"
AWAKE = SERVED + "100 post 2\n" + PROMPT
"""A server at -lv 5, a hundred seconds old, that prints a prompt."""

HANG = "{0}.0 enter\n{0}.0002 entered\n{0}.1 post 77\n{0}.9 cancel 77\n"
"""The lines of a hang, from second ``{0}`` on."""
SERVES = "".join(f"{8 + n} serve {8 + 2 * n}\n" for n in range(40))
"""So much that the log does not end soon: then what stands before it could be the beginning of a text it ends in."""


def hang(at: int) -> str:
    """Copied lines of a hang."""
    return HANG.format(at)


CASES = [
    # -- in stamped streams ---------------------------------------------------------------------------------------------
    Case(
        name="copied-sleep-line",
        why="one old line among the new: its clock does not fit between its neighbours'",
        log=log(AWAKE + "50 enter\n| what does this line mean?\n100.0015 post 3\n" + AFTER),
    ),
    Case(
        name="copied-hang-block",
        why="a block of them from the same log",
        log=log(AWAKE + "| here is my log\n" + hang(50) + "| what happened?\n" + AFTER),
    ),
    Case(
        name="copied-hang-block-without-text-around",
        why="the same without a word before or behind it",
        log=log(AWAKE + hang(50) + AFTER),
    ),
    Case(
        name="copied-hang-with-its-pauses",
        why="a paste of half a minute: the clock jumps inside it, too, and comes back behind it",
        log=log(
            AWAKE + "| here is my log\n20 enter\n20.0002 entered\n20.1 post 77\n29 cancel 77\n50 wake\n50.4 ready\n"
            "50.41 serve 79\n| what happened?\n" + AFTER
        ),
    ),
    Case(
        name="copied-three-hundred-lines",
        why="a long paste",
        log=log(
            AWAKE
            + "| here is my log\n"
            + "".join(f"{20 + n / 10} serve {n}\n" for n in range(150))
            + "36 enter\n36.0002 entered\n36.1 post 777\n45 cancel 777\n"
            + AFTER
        ),
    ),
    Case(
        name="copied-a-moment-later",
        why="a tool that pastes the log's tail as it grows: the copy is half a second old",
        log=log(
            SERVED + "99.0 sleep\n99.3 wake\n99.4 ready\n99.45 post 2\n99.6 | srv  update_slots: prompt of task 2:\n"
            "99.0 sleep\n| what is this?\n99.61 launch 2\n99.7 post 3\n99.8 cancel 3\n103 release 2\n104.1 sleep\n"
        ),
    ),
    Case(
        name="copied-from-an-older-server",
        why="a block from a log whose clock is ahead of this one's",
        log=log(AWAKE + "| here is my log\n" + hang(5000) + "| what happened?\n" + AFTER),
    ),
    Case(
        name="copied-from-an-older-server-one-line",
        why="a single line from the future",
        log=log(AWAKE + "5000 enter\n" + AFTER),
    ),
    Case(
        name="copied-with-a-start-marker",
        why="a whole life, from its start on: between debug records and loose text it is a paste, no restart",
        log=log(AWAKE + "| here is my log\n0.0021 | x\n0 start\n1 serve 0\n" + hang(2) + "| what happened?\n" + AFTER),
    ),
    Case(
        name="copied-two-lives-and-a-crash",
        why="a paste with a crash and a restart in it",
        log=log(
            AWAKE + "| here is my log\n0 start\n1 serve 0\n2 sleep\n"
            "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
            "0 start\n1 serve 0\n2 sleep\n| why?\n" + AFTER
        ),
    ),
    Case(
        name="unstamped-copies-in-a-stamped-log",
        why="lines of an old server, pasted into a new one's prompt: another prefix than the stream's own",
        log=log(
            AWAKE + "| here is my log\n| que    start_loop: entering sleeping state\n"
            "| srv  handle_sleep: server is entering sleeping state\n| srv          stop: cancel task, id_task = 77\n"
            "| build_info: b8700-1a2b3c4d\n| main: loading model\n| why?\n" + AFTER
        ),
    ),
    Case(
        name="inside-a-json-body",
        why="a record begins at its line's start; what a body holds is no record",
        log=log(
            AWAKE + '100.0015 | srv  log_server_r: request:  {"prompt":"0.50.000.000 I que    start_loop: entering '
            'sleeping state\\n0.50.900.000 W srv          stop: cancel task, id_task = 77"}\n' + AFTER
        ),
    ),
    Case(
        name="inside-a-record-of-its-own-prefix",
        why="a line that only quotes the words",
        log=log(
            AWAKE + "100.0015 | he said: que    start_loop: entering sleeping state\n"
            "100.0016 | que said: entering sleeping state?\n" + AFTER
        ),
    ),
    Case(
        name="port-line-in-a-single-servers-prompt",
        why="a router's child line, pasted into the prompt of a server that is no router",
        log=log(
            AWAKE
            + "| my router says:\n[48859] 100.0 enter\n[48859] 100.1 post 77\n[48859] 109 cancel 77\n| why?\n"
            + AFTER
        ),
    ),
    Case(
        name="look-alikes",
        why="other programs' words about their own sleep",
        log=log(
            AWAKE + "100.0015 | worker: exiting sleeping state, reloading model\n| entering sleeping state\n"
            "| server is entering sleeping state\n| Idle window expired, entering sleeping state\n" + AFTER
        ),
    ),
    Case(
        name="a-real-hang-behind-copies",
        why="text does not blind: the real hang behind it is found",
        log=log(
            AWAKE + "| here is my log\n" + hang(50) + "| what happened?\n100.002 launch 2\n100.5 release 2\n"
            "101.6 sleep\n101.7 post 6\n300 wake\n300.4 ready\n300.41 serve 6\n"
        ),
        found=(found("hung-request", "confirmed", "recovered", task=6),),
    ),
    Case(
        name="a-real-crash-behind-a-copied-stop",
        why="a pasted `cleaning up` does not make the crash behind it a planned stop",
        log=log(
            AWAKE + "50 cleanup\n100.002 launch 2\n"
            "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
            "0 start\n1 serve 0\n"
        ),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11),),
    ),
    # -- in unstamped streams -------------------------------------------------------------------------------------------
    Case(
        name="unstamped-copied-sleep-line",
        why="without stamps a copy is perfect; the lines behind it are an awake server's",
        log=log(
            "0 start\n1 serve 0\n| here is my log:\n2 enter\n| what does it mean?\n3 launch 2\n4 release 2\n5 sleep\n"
            "6 wake\n7 ready\n8 serve 4\n",
            era="A",
        ),
    ),
    Case(
        name="unstamped-copied-hang-beside-text",
        why="beside text that no log line looks like: at most possible",
        log=log(
            "0 start\n1 serve 0\n2 launch 2\n| here is my log:\n3 sleep\n4 cancel 77\n| what happened?\n5 release 2\n6 sleep\n"
            "7 wake\n8 ready\n9 serve 4\n",
            era="A",
        ),
        found=(found("hung-request", "possible", "abandoned", task=77),),
    ),
    Case(
        name="unstamped-copied-hang-deep-in-a-block",
        why="the same lines inside a longer block, where no text stands beside them",
        log=log(
            "0 start\n1 serve 0\n2 launch 2\n| here is my log:\n1 serve 70\n1 serve 72\n3 sleep\n4 cancel 77\n5 wake\n"
            "6 ready\n7 serve 79\n| what happened?\n8 release 2\n9 sleep\n10 wake\n11 ready\n12 serve 4\n",
            era="A",
        ),
        found=(found("hung-request", "possible", "abandoned", task=77),),
    ),
    Case(
        name="unstamped-copied-stop",
        why="a pasted `cleaning up` does not hide a crash of a server that went on",
        log=log(
            "0 start\n1 serve 0\n2 launch 2\n| my log ends so:\n3 cleanup\n| why?\n4 release 2\n5 sleep\n6 format\n"
            "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
            "7 start\n8 serve 0\n" + SERVES,
            era="A",
        ),
        found=(found("sleep-crash", "confirmed", "restarted", signal=11, in_flight=1),),
    ),
    Case(
        name="stamped-copies-in-an-unstamped-log",
        why="lines of a new server in an old one's prompt, with a start marker: the stream keeps its own prefix",
        log=log(
            "0 start\n1 serve 0\n2 launch 2\n| here is my log:\n"
            "| 0.00.002.210 I srv  llama_server: initializing ...\n"
            "| 0.01.447.049 I que    start_loop: entering sleeping state\n"
            "| 0.01.447.397 I srv  handle_sleep: server is entering sleeping state\n"
            "| 0.09.363.688 W srv          stop: cancel task, id_task = 77\n"
            "| why?\n3 release 2\n4 sleep\n5 cancel 6\n6 wake\n7 ready\n" + SERVES,
            era="A",
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=6),),
    ),
    # -- other generations ----------------------------------------------------------------------------------------------
    Case(
        name="generation-1",
        why="JSON logs are older than sleep mode",
        log=b'{"timestamp":1706720633,"level":"INFO","function":"main","line":2427,"message":"build info","build":2036}\n'
        b'{"timestamp":1706720634,"level":"INFO","function":"update_slots","line":1648,"message":"all slots are idle"}\n'
        b'{"timestamp":1706720700,"level":"INFO","function":"log","message":"entering sleeping state"}\n'
        b"slot 0 is processing [task id: 0]\n",
    ),
    Case(
        name="generation-2",
        why="so are these",
        log=b'INFO [                    main] build info | tid="1397" timestamp=1762478090 build=2036 commit="1a2b3c4"\n'
        b'INFO [      launch_slot_with_task] slot is processing task | tid="1397" timestamp=1762478091 id_slot=0 id_task=0\n'
        b'INFO [            update_slots] kv cache rm [p0, end) | tid="1397" timestamp=1762478092 id_slot=0 id_task=0 p0=0\n'
        b'INFO [              start_loop] entering sleeping state | tid="1397" timestamp=1762478093\n'
        b'WARN [                    stop] cancel task, id_task = 77 | tid="1397" timestamp=1762478094\n',
    ),
    Case(
        name="unsleeping-generation-3",
        why="an early server of the third generation never sleeps; nothing is made of its silences",
        log=log(
            "| build: 7000 (1a2b3c4d) with GNU 13.3.0 for Linux x86_64\n0 load\n1 ready\n2 listen 8080\n3 format\n"
            "4 launch 0\n| srv          stop: cancel task, id_task = 2\n5 release 0\n6 idle\n7 format\n8 format\n",
            era="A",
        ),
    ),
]
