"""Background plugins answer first and work on (spec 5.3 - 5.6 asynchronous; D14, D15, D27, D40, D41, O15, P51)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.extend import BackgroundResult, ErrorKind, Event, ToolResult
from app.plugins.background import BackgroundLimits
from app.plugins.callbacks import Callbacks
from app.plugins.places import Limits
from app.tools.background_results import BackgroundResults, Missing, Retention
from app.tools.callback_tokens import CallbackTokens
from tests.plugins.watching import READY, appears, children, descriptors, lives, vanishes
from tests.waiting import until

if TYPE_CHECKING:
    from tests.plugins.conftest import Bench, Caller

ANSWER = '{"status":"success","result":"id 1"}'
SAY = f"print('''{ANSWER}''', flush=True)\n"
IMPORTS = "import json, os, signal, sys, time\n"
UNTIL_GO = "while not os.path.exists('go'): time.sleep(0.005)\n"
NAMED = 'print(json.dumps({"status":"success","result":{"task_id":"t-1"}}), flush=True)\n'
FINISHED = "open('finished', 'w').close()\n"


@pytest.fixture(params=["loop", "threads", "uvloop"])
def anyhow(request: pytest.FixtureRequest, bench: Bench) -> Bench:
    """The bench with each way to read pipes."""
    bench.threads = request.param == "threads"
    bench.uvloop = request.param == "uvloop"
    return bench


def background(bench: Bench, script: str, name: str = "X", **fields: Any) -> Path:
    return bench.plugin(name, IMPORTS + script, pluginType="asynchronous", **fields)


class Wired:
    """What a server gives to its background plugins, over the bench's home."""

    def __init__(self, bench: Bench, base: str = "http://127.0.0.1:6005/plugin-callback") -> None:
        self.events: list[Event] = []
        self.tokens = CallbackTokens(bench.home / ".vcp" / "callbacks", lambda: 0.0)
        self.results = BackgroundResults(
            bench.home / "VCPAsyncResults", bench.home / ".vcp" / "own", Retention, lambda: 0.0
        )
        self.callbacks = Callbacks(self.tokens, self.results, self, lambda: base)
        bench.callbacks = self.callbacks

    def publish(self, event: Event) -> None:
        self.events.append(event)


def test_o15_p51_the_answer_is_taken_at_once_and_the_process_works_on(anyhow: Bench) -> None:
    folder = background(anyhow, SAY + UNTIL_GO + FINISHED)

    async def work(call: Caller) -> ToolResult:
        result = await call("X")
        (process,) = call.source.background.living()
        assert (process.plugin, process.pid, process.call_id) == ("X", call.pids[0], "1")
        assert lives(process.pid)
        assert call.processes.running == 0  # it holds up nobody's place
        (folder / "go").touch()
        await appears(folder / "finished")
        await vanishes(process.pid)
        while call.source.background.living():
            await asyncio.sleep(0.005)
        return result

    result = anyhow.run(work)
    assert result.structured == {"original_plugin_output": "id 1"}
    assert not children()


@pytest.mark.parametrize(
    "printed",
    [
        '{"status": "success", "result": {"a": {"b": {"c": 1}}, "task_id": "7"}}',
        '{\n  "status": "success",\n  "result": {\n    "a": {"b": {"c": 1}},\n    "task_id": "7"\n  }\n}',
        'Loading {models}...\n{"progress": 1}\n{"status":"success","result":{"a":{"b":{"c":1}},"task_id":"7"}}\n'
        '{"status":"error","error":"late"}',
    ],
    ids=["nested", "many lines", "between other output"],
)
def test_the_first_complete_object_with_a_status_counts_however_it_is_written(
    bench: Bench, printed: str
) -> None:  # D14
    background(bench, f"sys.stdout.write({printed!r}); sys.stdout.flush()\n" + UNTIL_GO)
    assert bench.call("X").structured == {"a": {"b": {"c": 1}}, "task_id": "7"}


def test_an_answer_cut_into_single_bytes_is_taken(bench: Bench) -> None:
    data = '{"status":"success","result":"汉😀"}'
    background(bench, f"for b in {data!r}.encode(): os.write(1, bytes((b,)))\n" + UNTIL_GO)
    assert bench.call("X").structured == {"original_plugin_output": "汉😀"}


def test_an_error_as_first_answer_is_an_error(bench: Bench) -> None:
    background(bench, 'print(\'{"status":"error","error":"no quota"}\', flush=True)\n' + UNTIL_GO)
    result = bench.call("X")
    assert (result.error_kind, result.message) == (ErrorKind.PLUGIN, "no quota")


def test_megabytes_printed_after_the_answer_are_read_and_forgotten(anyhow: Bench) -> None:
    # A few pipes' worth: what is read from stderr may be told before an answer that was read from stdout earlier.
    anyhow.limits = Limits(output_bytes=1_000_000)
    flood = "for _ in range(200): os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)\n"
    folder = background(anyhow, SAY + flood + FINISHED)

    async def work(call: Caller) -> None:
        assert (await call("X")).ok
        await appears(folder / "finished")  # neither stuck in a full pipe nor ended by the limit

    anyhow.run(work)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("print('nothing')\n", ErrorKind.EXECUTION, "exited successfully but did not provide a valid initial JSON"),
        ("sys.stderr.write('boom'); sys.exit(2)\n", ErrorKind.EXECUTION, "exited with code 2. Stdout:  Stderr: boom"),
        ("print('{\"a\":1}')\n", ErrorKind.EXECUTION, 'Stdout: {"a":1}'),
        (SAY + "sys.exit(3)\n", None, ""),
    ],
)
def test_without_a_first_answer_the_rules_are_those_of_synchronous_plugins(
    anyhow: Bench, script: str, kind: ErrorKind | None, words: str
) -> None:
    background(anyhow, script)
    result = anyhow.call("X")
    assert result.error_kind is kind
    assert words in result.message
    assert not children()


def test_a_time_out_before_the_answer_kills_the_whole_tree(anyhow: Bench) -> None:
    helper = "import subprocess; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    tell = "open('helper', 'w').write(str(p.pid))\n"
    folder = background(anyhow, helper + tell + READY + "time.sleep(600)\n")

    async def work(call: Caller) -> ToolResult:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        (limit,) = call.processes._running.values()
        limit.reschedule(asyncio.get_running_loop().time())
        result = await task
        await vanishes(int((folder / "helper").read_text()))
        assert call.source.background.living() == ()
        return result

    result = anyhow.run(work)
    assert (result.error_kind, result.message) == (ErrorKind.TIMEOUT, 'Plugin "X" initial response timed out.')
    assert not children()


def test_output_without_end_and_without_an_answer_is_stopped_at_the_limit(bench: Bench) -> None:
    bench.limits = Limits(output_bytes=300_000, stop_seconds=0.2)
    background(bench, "while True: os.write(1, b'{\"a\":' * 10000)\n")
    assert "300000" in bench.call("X").message
    assert not children()


def test_a_cancel_before_the_answer_ends_the_process_and_one_after_it_does_not(bench: Bench) -> None:  # D27
    slow = background(bench, READY + "time.sleep(600)\n", name="Slow")
    background(bench, SAY + "time.sleep(600)\n", name="Quick")

    async def work(call: Caller) -> None:
        early = asyncio.ensure_future(call("Slow"))
        await appears(slow / "ready")
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        assert not lives(call.pids[0])

        async def turn() -> None:
            await call("Quick")
            await asyncio.Event().wait()

        late = asyncio.ensure_future(turn())
        while not call.source.background.living():
            await asyncio.sleep(0.005)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        (process,) = call.source.background.living()
        assert lives(process.pid)

    bench.run(work)
    assert not children()


def test_the_stop_of_the_server_ends_what_works_on_and_what_ignores_sigterm(anyhow: Bench) -> None:
    anyhow.limits = Limits(stop_seconds=0.2)
    background(anyhow, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SAY + "time.sleep(600)\n")
    pids: list[int] = []

    async def work(call: Caller) -> None:
        await call("X")
        pids.extend(call.pids)

    anyhow.run(work)
    assert not lives(pids[0])
    assert not children()


def test_a_process_with_a_longest_life_is_ended_with_all_it_started(bench: Bench) -> None:
    bench.limits = Limits(stop_seconds=0.2)
    bench.background = BackgroundLimits(seconds=0.05)
    helper = "import subprocess; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    folder = background(bench, helper + "open('helper', 'w').write(str(p.pid))\n" + SAY + "time.sleep(600)\n")

    async def work(call: Caller) -> None:
        await call("X")
        await vanishes(call.pids[0])
        await vanishes(int((folder / "helper").read_text()))

    bench.run(work)


def test_more_background_processes_than_allowed_are_refused_by_name(bench: Bench) -> None:
    bench.background = BackgroundLimits(living=2)
    folder = background(bench, SAY + UNTIL_GO)

    async def work(call: Caller) -> list[ToolResult]:
        results = list(await asyncio.gather(*(call("X") for _ in range(5))))
        assert len(call.source.background.living()) == 2
        (folder / "go").touch()
        while call.source.background.living():
            await asyncio.sleep(0.005)
        return [*results, await call("X")]

    results = bench.run(work)
    refused = [result for result in results if not result.ok]
    assert len(refused) == 3
    assert all(result.error_kind is ErrorKind.QUEUE and "BackgroundMaxRunning" in result.message for result in refused)
    assert results[-1].ok


def test_nothing_is_left_of_many_background_calls(bench: Bench) -> None:
    background(bench, SAY)

    async def work(call: Caller) -> None:
        before = descriptors()
        await asyncio.gather(*(call("X") for _ in range(12)))
        await until(lambda: descriptors() == before and not children())
        assert call.source.background.living() == ()
        assert call.processes.left_groups() == ()

    bench.run(work)


SHOWS = (
    'print(json.dumps({"status":"success","result":{name: os.environ.get(name) '
    'for name in ("CALLBACK_BASE_URL", "PLUGIN_NAME_FOR_CALLBACK")}}), flush=True)\n'
)


def test_the_process_is_told_where_to_call_back_and_as_whom(bench: Bench) -> None:  # spec 5.4
    wired = Wired(bench)
    background(bench, SHOWS)
    told = bench.call("X").structured
    base, _, token = told["CALLBACK_BASE_URL"].rpartition("/")
    assert (base, told["PLUGIN_NAME_FOR_CALLBACK"]) == ("http://127.0.0.1:6005/plugin-callback", "X")
    assert wired.tokens.accepts(token, "X", "1")


@pytest.mark.parametrize(
    ("own", "base"),
    [
        ("CALLBACK_BASE_URL=https://own.example/plugin-callback/", "https://own.example/plugin-callback"),
        ("CALLBACK_BASE_URL=", "http://server/plugin-callback"),
        ("", "http://server/plugin-callback"),
    ],
)
def test_the_plugins_own_address_for_callbacks_wins_over_the_servers(bench: Bench, own: str, base: str) -> None:
    Wired(bench, base="http://server/plugin-callback")
    (background(bench, SHOWS) / "config.env").write_text(own)
    assert bench.call("X").structured["CALLBACK_BASE_URL"].rpartition("/")[0] == base


def test_synchronous_plugins_are_told_nothing_of_callbacks(bench: Bench) -> None:
    Wired(bench)
    bench.plugin("X", IMPORTS + SHOWS)
    assert set(bench.call("X").structured.values()) == {None}


def test_the_tasks_of_the_first_answer_are_known_and_bind_the_token(bench: Bench) -> None:  # D19
    wired = Wired(bench)
    result = '{"task_id":"t-1","at":os.environ["CALLBACK_BASE_URL"]}'
    show = f'print(json.dumps({{"status":"success","result":{result}}}), flush=True)\n'
    background(bench, show + UNTIL_GO)

    async def work(call: Caller) -> str:
        result = await call("X")
        (process,) = call.source.background.living()
        assert process.tasks == ("t-1",)
        return str(result.structured["at"]).rpartition("/")[2]

    token = bench.run(work)
    assert wired.tokens.knows("X", "t-1")
    assert wired.tokens.accepts(token, "X", "t-1")
    assert not wired.tokens.accepts(token, "X", "t-2")


def test_a_call_without_an_answer_leaves_no_token(bench: Bench) -> None:
    Wired(bench)
    background(bench, "sys.exit(1)\n")
    assert not bench.call("X").ok
    assert list((bench.home / ".vcp" / "callbacks").iterdir()) == []


def test_a_full_disk_costs_the_token_and_not_the_call(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Wired(bench)
    background(bench, SHOWS)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert bench.call("X").structured["CALLBACK_BASE_URL"] == "http://127.0.0.1:6005/plugin-callback"


async def killed(call: Caller, wired: Wired) -> None:
    await call("X")
    os.kill(call.pids[0], signal.SIGKILL)
    async with asyncio.timeout(30):
        while call.source.background._work or call.source.background.living():
            await asyncio.sleep(0.005)


def test_a_process_that_is_killed_in_mid_work_is_reaped_and_its_task_has_failed(bench: Bench) -> None:
    wired = Wired(bench)
    background(bench, NAMED + "time.sleep(600)\n", webSocketPush={"enabled": True, "messageType": "video"})
    bench.run(lambda call: killed(call, wired))
    body = wired.results.read("X", "t-1")
    assert body["status"] == "Failed"
    assert "SIGKILL" in body["reason"]
    (event,) = wired.events
    assert isinstance(event, BackgroundResult)
    assert (event.plugin, event.task_id, event.body) == ("X", "t-1", body)
    assert event.push is not None and event.push.message_type == "video"
    assert not children()


def test_a_task_that_has_told_its_result_does_not_fail_with_its_process(bench: Bench) -> None:
    wired = Wired(bench)
    background(bench, NAMED + "time.sleep(600)\n")

    async def work(call: Caller) -> None:
        await wired.results.store("X", "t-1", {"status": "Succeed"})
        path = bench.home / "VCPAsyncResults" / "X-t-1.json"
        os.utime(path, (4e9, 4e9))  # written after the process began
        await killed(call, wired)

    bench.run(work)
    assert wired.results.read("X", "t-1") == {"status": "Succeed"}
    assert wired.events == []


def test_a_process_that_ends_well_without_a_word_leaves_its_task_open(bench: Bench) -> None:
    wired = Wired(bench)
    folder = background(bench, NAMED + UNTIL_GO)

    async def work(call: Caller) -> None:
        await call("X")
        (folder / "go").touch()
        while call.source.background.living():
            await asyncio.sleep(0.005)

    bench.run(work)
    assert wired.results.read("X", "t-1") is Missing.PENDING


def test_a_result_that_cannot_be_noted_is_logged_and_harms_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    wired = Wired(bench)
    background(bench, NAMED + "time.sleep(600)\n")
    (bench.home / "VCPAsyncResults").write_text("a file where the folder should be")
    bench.run(lambda call: killed(call, wired))
    assert "cannot be noted" in caplog.text
