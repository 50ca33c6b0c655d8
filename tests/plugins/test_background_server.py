"""Background plugins through the whole server: call, answer, callback, placeholder; and what kill -9 does to it.

O15, P51 - P53, D14, D19, D27, B34 with real processes and a real network.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.demo.script import Hold, Reply, say
from app.demo.scripted import ScriptedUpstream
from app.extend import BackgroundResult
from tests.plugins.watching import appears, lives, vanishes
from tests.program import LONGEST, started
from tests.server import Running, call_text, run, running, write_plugin
from tests.waiting import until

NOWHERE = "http://127.0.0.1:9"
SHOWN = "{{VCP_ASYNC_RESULT::Worker::w-1}}"

WORKER = """
import json, os, sys, time, urllib.request

def tell(body, **headers):
    address = "/".join((os.environ["CALLBACK_BASE_URL"], os.environ["PLUGIN_NAME_FOR_CALLBACK"], "w-1"))
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        try:
            with opener.open(request, timeout=10) as answer:
                return answer.status
        except OSError as error:
            if getattr(error, "code", 500) < 500:
                raise
            time.sleep(0.05)

def answer():
    open("pid", "w").write(str(os.getpid()))
    result = {"task_id": "w-1", "say": "{{VCP_ASYNC_RESULT::Worker::w-1}}"}
    print(json.dumps({"status": "success", "result": result}), flush=True)

def wait(name):
    while not os.path.exists(name):
        time.sleep(0.005)

"""


def worker(home: Path, script: str, **manifest: Any) -> Path:
    return write_plugin(home, "Worker", WORKER + script, pluginType="asynchronous", **manifest)


async def prompt(server: Running, up: ScriptedUpstream, *messages: Any) -> list[Any]:
    await server.chat(*messages)
    return [message["content"] for message in up.bodies[-1]["messages"]]


def test_a_turn_goes_on_at_the_first_answer_and_later_prompts_show_how_far_the_work_is(tmp_path: Path) -> None:
    folder = worker(
        tmp_path,
        'answer(); wait("half"); tell({"message": "50 %"})\n'
        'wait("go"); tell({"status": "Succeed", "data": {"url": "u"}})\n',
        webSocketPush={"enabled": True, "messageType": "worker"},
    )

    async def main() -> None:
        call = call_text("Worker", maid="Nova")
        async with (
            ScriptedUpstream([say(call), say(f"look: {SHOWN}"), *[say("ok")] * 3]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            streamed = await server.stream("work")
            assert streamed.text.endswith(f"look: {SHOWN}")  # what clients get stays as it is: later prompts show it
            assert streamed.done == 1
            fed_back = up.bodies[1]["messages"][-1]["content"][0]["text"]
            assert SHOWN in fed_back and "w-1" in fed_back  # results of this turn are data (D9)
            system, user, assistant = await prompt(
                server, up, {"role": "system", "content": SHOWN}, SHOWN, {"role": "assistant", "content": SHOWN}
            )
            assert system == user == assistant == "[任务 Worker (ID: w-1) 结果待更新...]"

            (folder / "half").touch()
            await until(lambda: any(isinstance(event, BackgroundResult) for event in server.events))
            assert await prompt(server, up, f"{{{SHOWN}}}") == ["50 %"]

            (folder / "go").touch()
            await until(lambda: sum(isinstance(event, BackgroundResult) for event in server.events) == 2)
            assert await prompt(server, up, SHOWN) == ['任务 Worker (ID: w-1) 已成功完成。详情: {"url":"u"}']
            told = [event for event in server.events if isinstance(event, BackgroundResult)]
            assert [event.body for event in told] == [{"message": "50 %"}, {"status": "Succeed", "data": {"url": "u"}}]
            assert told[0].push is not None and told[0].push.message_type == "worker"
            await until(lambda: not server.services.plugins.background.living())

    run(main())


def test_a_plugin_is_told_the_port_that_the_server_really_has(tmp_path: Path) -> None:
    show = '{name: os.environ.get(name) for name in ("CALLBACK_BASE_URL", "SERVER_PORT", "PORT")}'
    script = f'import json, os\nprint(json.dumps({{"status": "success", "result": {show}}}), flush=True)\n'
    write_plugin(tmp_path, "Shows", script, pluginType="asynchronous")

    async def main() -> None:
        for config, base in (("PORT=0", ""), ("CALLBACK_BASE_URL=https://far.example/x/", "https://far.example/x")):
            async with running(tmp_path, NOWHERE, config=[config]) as server:
                body = call_text("Shows")
                answer = await server.client.post(
                    "/v1/human/tool", content=body, headers={"Content-Type": "text/plain"}
                )
                told = answer.json()
                assert told["CALLBACK_BASE_URL"].rpartition("/")[0] == (base or f"{server.url}/plugin-callback")
                assert told["SERVER_PORT"] == told["PORT"] == server.url.rpartition(":")[2]

    run(main())


def test_a_callback_before_the_first_answer_is_taken(tmp_path: Path) -> None:
    worker(tmp_path, 'tell({"message": "quicker than the answer"}, Origin="https://not-local"); answer()\n')

    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            body = call_text("Worker")
            answer = await server.client.post("/v1/human/tool", content=body, headers={"Content-Type": "text/plain"})
            assert answer.status_code == 200, answer.text
            assert await prompt(server, up, SHOWN) == ["quicker than the answer"]

    run(main())


def test_an_interrupt_after_the_first_answer_leaves_the_work_alone_and_pushes_nothing(tmp_path: Path) -> None:  # D27
    folder = worker(
        tmp_path, 'answer(); wait("go"); tell({"message": "done all the same"})\n', webSocketPush={"enabled": True}
    )

    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("Worker")), Reply((Hold(),))]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            turn = asyncio.ensure_future(server.stream("work", requestId="r-1"))
            await up.held()
            await server.client.post("/v1/interrupt", json={"requestId": "r-1"})
            await turn
            (process,) = server.services.plugins.background.living()
            assert lives(process.pid)
            (folder / "go").touch()
            await until(lambda: any(isinstance(event, BackgroundResult) for event in server.events))
            (told,) = [event for event in server.events if isinstance(event, BackgroundResult)]
            assert (told.body, told.push) == ({"message": "done all the same"}, None)

    run(main())


def test_folder_digest_works_from_the_call_to_the_prompt(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            (tmp_path / "dailynote" / "x.txt").write_text("日记", encoding="utf-8")
            answer = await server.client.post(
                "/v1/human/tool",
                content=call_text("FolderDigest", folder="dailynote"),
                headers={"Content-Type": "text/plain"},
            )
            shown = answer.json()["placeholder"]
            await until(lambda: any(isinstance(event, BackgroundResult) for event in server.events))
            (text,) = await prompt(server, up, shown)
            assert text.startswith("目录摘要 / Folder digest: dailynote\n")
            assert "x.txt" in text

    run(main())


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if ".vcp" not in path.parts}


@pytest.mark.parametrize(
    "target",
    [
        "/plugin-callback/Worker/..%2F..%2Fconfig",
        "/plugin-callback/Worker/%2e%2e",
        "/plugin-callback/Worker/..%5C..%5Cconfig",
        "/plugin-callback/x/Worker%2F..%2Fy",
        "/plugin-callback/x%2fWorker/7",
        "/plugin-callback/Worker/a%00b",
        "/plugin-callback/Worker/%ff%fe%2F7",
        "/plugin-callback/%2e%2e/%2e%2e/%2e%2e",
    ],
)
def test_encoded_separators_reach_no_file(tmp_path: Path, target: str) -> None:  # spec 1.10, B3
    home = tmp_path / "outer" / "home"
    worker(home, "answer()\n")

    def post(server: Running) -> int:
        with contextlib.closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)) as plain:
            plain.request("POST", target, body=b'{"message":"hostile"}')
            return plain.getresponse().status

    async def main() -> None:
        async with running(home, NOWHERE) as server:
            before = files(tmp_path)
            assert await asyncio.to_thread(post, server) in (400, 401, 404)
            assert files(tmp_path) == before

    run(main())


# --- kill -9 ----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def call(port: int, key: str, block: str) -> Any:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/human/tool",
        content=block.encode(),
        headers={"Content-Type": "text/plain", "Authorization": f"Bearer {key}"},
        trust_env=False,
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_callback_after_the_server_was_killed_is_taken_by_the_next_one_and_shown(tmp_path: Path) -> None:
    """The plugin calls as one from afar does, so it is its token that counts and not the address."""
    folder = worker(tmp_path, 'answer(); wait("go"); tell({"message": "survived"}, Origin="https://not-local")\n')

    async def main() -> None:
        port = free_port()
        async with ScriptedUpstream([say("ok")]) as up:
            (tmp_path / "config.env").write_text(f"API_URL={up.base_url}\nKey=k\n")
            words = ("serve", "--port", str(port))
            with started(*words, cwd=tmp_path) as program:
                await asyncio.to_thread(call, port, "k", call_text("Worker"))
                assert program.stop(signal.SIGKILL) == -signal.SIGKILL
            pid = int((folder / "pid").read_text())
            assert lives(pid)
            (folder / "go").touch()
            with started(*words, cwd=tmp_path) as program:
                await appears(tmp_path / "VCPAsyncResults" / "Worker-w-1.json")
                await vanishes(pid)
                async with httpx.AsyncClient(
                    base_url=f"http://127.0.0.1:{port}", timeout=LONGEST, trust_env=False
                ) as client:
                    body = {"model": "m", "messages": [{"role": "user", "content": SHOWN}]}
                    await client.post("/v1/chat/completions", json=body, headers={"Authorization": "Bearer k"})
                assert up.bodies[0]["messages"][0]["content"] == "survived"
                assert program.stop() == 0

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_server_killed_while_it_writes_results_leaves_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    worker(tmp_path, "answer()\n")
    (tmp_path / "config.env").write_text("API_URL=http://127.0.0.1:9\nKey=k\n")
    bodies = [{"of": letter, "text": letter * 300_000} for letter in "AB"]
    result = tmp_path / "VCPAsyncResults" / "Worker-w-1.json"
    port = free_port()
    for number in range(2):
        with started("serve", "--port", str(port), cwd=tmp_path) as program:
            sender = subprocess.Popen((sys.executable, "-c", SENDER, str(port)), stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 30
            before = result.stat().st_mtime_ns if result.exists() else 0
            while not result.exists() or result.stat().st_mtime_ns == before:  # it is writing
                assert time.monotonic() < deadline
                time.sleep(0.002 * (number + 1))
            program.stop(signal.SIGKILL)
            sender.kill()
            sender.wait()
        assert json.loads(result.read_text(encoding="utf-8")) in bodies
    assert all(path == result or path.name.startswith(".") for path in result.parent.iterdir())


SENDER = """
import json, sys, urllib.request
bodies = [json.dumps({"of": letter, "text": letter * 300_000}).encode() for letter in "AB"]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
while True:
    for body in bodies:
        opener.open(f"http://127.0.0.1:{sys.argv[1]}/plugin-callback/Worker/w-1", body).read()
"""


def test_the_stop_of_the_server_ends_background_work_and_says_so(tmp_path: Path) -> None:
    folder = worker(tmp_path, "answer(); time.sleep(600)\n")
    (tmp_path / "config.env").write_text("API_URL=http://127.0.0.1:9\nKey=k\n")
    port = free_port()
    with started("serve", "--port", str(port), cwd=tmp_path) as program:
        call(port, "k", call_text("Worker"))
        pid = int((folder / "pid").read_text())
        assert lives(pid)
        assert program.stop() == 0
    assert not lives(pid)
    body = json.loads((tmp_path / "VCPAsyncResults" / "Worker-w-1.json").read_text(encoding="utf-8"))
    assert body["status"] == "Failed"
    assert "SIGTERM" in body["reason"]
