"""The soak judges answers as a client would, and sees what a process leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.conversations import WrongAnswerError, text_of_completion, text_of_stream
from bench.processes import offspring, snapshot

FIRST = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def test_a_whole_stream_is_taken_with_its_heartbeats() -> None:
    assert text_of_stream(b": beat\n\n" + FIRST + LAST + DONE) == "a"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        FIRST + LAST,
        FIRST + LAST + DONE + DONE,
        FIRST + DONE,
        FIRST + LAST + LAST + DONE,
        FIRST + FIRST + LAST + DONE,
        FIRST[:40] + b"\n\n" + LAST + DONE,
    ],
)
def test_a_stream_that_a_client_could_stumble_over_is_refused(raw: bytes) -> None:
    with pytest.raises(WrongAnswerError):
        text_of_stream(raw)


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"message": {"content": None}}]}, None])
def test_what_is_no_completion_is_refused(answer: object) -> None:
    with pytest.raises(WrongAnswerError):
        text_of_completion(answer)


@pytest.mark.skipif(sys.platform != "linux", reason="the soak reads /proc and runs on Linux only")
def test_offspring_is_found_by_parent_and_by_mark_after_its_parent_is_gone() -> None:
    mark = f"VCP_TEST_MARK={os.getpid()}x"
    name, _, value = mark.partition("=")
    orphan = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'], stdout=2).pid)"
    with subprocess.Popen(
        [sys.executable, "-c", orphan],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, name: value},
    ) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        left = int(parent.stdout.readline())
        parent.wait()
        assert offspring(parent.pid, mark) == [left]
        assert left in offspring(os.getpid(), mark)
        parent.stdin.close()  # ends it
    assert snapshot(os.getpid(), mark).memory > 1
