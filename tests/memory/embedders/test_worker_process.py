"""The worker process: its walls, its frames, its end (memory.md 8.2, D82)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import EmbeddingError
from app.memory.embedders.worker_process import PROGRAM, WorkerProcess, environment
from tests.memory.embedders.workers import ARGV, HERE, exists, scripted, until
from tests.server import run


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
