"""Calls of hybrid plugins: results, errors, time limits (B39), and what hangs (spec 4.6, 5.3; O14)."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallContext, CallFinished, CallOutcome, Door, ErrorKind, ToolCall
from app.plugins.in_process_work import HANGING_LIMIT, PluginHangingError, Workers, WorkLimits
from app.plugins.loop_watch import LoopWatch
from app.plugins.places import QueueError
from app.tools.rendering import ResultFormat, model_parts, result_object
from tests.plugins.modules import alone, call, serving, write_module
from tests.waiting import until

__all__ = ["alone"]


def module(body: str, method: str = "def") -> str:
    """A plugin whose ``call`` does ``body``."""
    lines = "\n        ".join(body.split("\n"))
    head = f"import asyncio\nclass P:\n    {method} call(self, call, context):\n        {lines}\n"
    return f"{head}def create(context):\n    return P()\n"


def result_of(home: Path, body: str, method: str = "def", *config: str, **manifest: Any) -> Any:
    write_module(home, "X", module(body, method), **manifest)

    async def main() -> Any:
        async with serving(home, *config) as services:
            return await call(services, "X", {"a": 1})

    return asyncio.run(main())


@pytest.mark.parametrize("method", ["def", "async def"])
@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ('{"status": "error", "error": "e"}', {"status": "error", "error": "e"}),
        ('"text"', {"original_plugin_output": "text"}),
        ("'{\"a\": 1}'", {"original_plugin_output": '{"a": 1}'}),
        ("42", {"original_plugin_output": 42}),
        ("[1, 2]", [1, 2]),
        ("(1, 2)", [1, 2]),
        ('{"a": {"b": None}}', {"a": {"b": None}}),
    ],
)
def test_o14_what_a_hybrid_plugin_returns_is_the_result_as_it_is(
    alone: Path, method: str, returned: str, shown: Any
) -> None:
    result = result_of(alone, f"return {returned}", method)
    assert result.ok
    value = result_object(ToolCall("c", "X", {}), result, "now")
    assert value == (shown if isinstance(shown, list) else {**shown, "timestamp": "now"})


def test_o14_the_model_reads_both_fields_of_an_error_that_is_a_result(alone: Path) -> None:
    result = result_of(alone, 'return {"status": "error", "error": "e"}')
    (part,) = model_parts(CallOutcome(ToolCall("c", "X", {}), result, 0.0), "now", ResultFormat())
    assert '"status": "error"' in part["text"]
    assert '"error": "e"' in part["text"]


def test_content_parts_of_a_result_reach_the_model_as_parts(alone: Path) -> None:
    result = result_of(alone, 'return {"content": [{"type": "text", "text": "t"}]}')
    assert result.parts == ({"type": "text", "text": "t"},)


def test_a_tool_result_is_taken_as_it_is(alone: Path) -> None:
    body = (
        "from app.extend import ErrorKind, ToolResult\n"
        'return ToolResult(structured={"code": 7}, error_kind=ErrorKind.PLUGIN, message="no")'
    )
    result = result_of(alone, body)
    assert (result.error_kind, result.message, result.structured) == (ErrorKind.PLUGIN, "no", {"code": 7})


@pytest.mark.parametrize("method", ["def", "async def"])
@pytest.mark.parametrize(
    ("raising", "said"),
    [
        ("raise ValueError('no such city')", "no such city"),
        ("raise ValueError", "ValueError"),
        ("raise SystemExit(1)", "asked for the end of the program"),
        ("raise KeyboardInterrupt", "asked for the end of the program"),
        ("raise asyncio.CancelledError", "cancelled"),
        ("raise StopIteration", "StopIteration"),
        ("from app.errors import BadRequestError\nraise BadRequestError('bad')", "bad"),
        ("call.arguments['x'] = 5\nreturn {1, 2}", "$ is a set, which is not JSON"),
        ("return {'a': [object()]}", "$.a[0] is a object"),
        ("return {1: 2}", "$ key is a int"),
        ("return float('nan')", "$ is a float"),
        ("a = []\na.append(a)\nreturn a", "nested over 200 deep"),
        ("return 'x' * 2_000_000", "larger than 1048576 characters"),
        ("return {'a': 10 ** 6000}", "$.a is a int"),
        ("from app.extend import ToolResult\nreturn ToolResult(structured=10 ** 6000)", "$[0] is a int"),
        ("from app.extend import ToolResult\nreturn ToolResult(parts=('x',))", "parts"),
        ("from app.extend import ToolResult\nreturn ToolResult(parts=5)", "parts"),
        ("from app.extend import ToolResult\nreturn ToolResult(mcp='x')", "mcp"),
        ("from app.extend import ToolResult\nreturn ToolResult(mcp={'x': {1}})", "$[3].x is a set"),
        ("from app.extend import ToolResult\nreturn ToolResult(message=5)", "message"),
        ("from app.extend import ToolResult\nreturn ToolResult(error_kind='nonsense')", "error_kind"),
    ],
)
def test_what_goes_wrong_inside_is_a_plugin_execution_error_with_its_words(
    alone: Path, caplog: pytest.LogCaptureFixture, method: str, raising: str, said: str
) -> None:
    result = result_of(alone, raising, method, "PluginOutputLimitMB=1")
    assert result.error_kind is ErrorKind.EXECUTION
    assert said in result.message or "StopIteration" in raising
    value = result_object(ToolCall("c", "X", {}), result, "now")
    assert list(value) == ["plugin_execution_error", "timestamp"]
    json.dumps(value)
    lines = [record.message for record in caplog.records if record.name == "app.plugins.in_process_plugin"]
    assert lines
    assert "no such city" not in " ".join(lines)


@pytest.mark.parametrize(
    ("method", "body"),
    [
        (
            "async def",
            "while True:\n    try:\n        await asyncio.sleep(60)\n    except BaseException:\n        break",
        ),
        ("async def", "while True:\n    try:\n        await asyncio.sleep(60)\n    except Exception:\n        pass"),
        ("async def", "try:\n    await asyncio.sleep(60)\nfinally:\n    raise ValueError"),
        ("async def", "await asyncio.sleep(60)"),
        ("def", "import threading\nthreading.Event().wait(0.5)"),
        ("def", "return asyncio.sleep(60)"),
        ("async def", "try:\n    await asyncio.sleep(60)\nfinally:\n    await asyncio.sleep(0.3)"),
    ],
)
def test_b39_a_call_that_takes_too_long_is_a_timeout(alone: Path, method: str, body: str) -> None:
    result = result_of(alone, body, method, "PluginStopSeconds=0.05", timeout=200)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.message == 'Plugin "X" execution timed out.'


def test_the_deadline_of_the_caller_counts_too(alone: Path) -> None:
    write_module(alone, "X", module("await asyncio.sleep(60)", "async def"))

    async def main() -> None:
        async with serving(alone) as services:
            deadline = asyncio.get_running_loop().time() + 0.05
            assert (await call(services, "X", deadline=deadline)).error_kind is ErrorKind.TIMEOUT

    asyncio.run(main())


def test_a_cancelled_call_ends_the_plugins_work(alone: Path) -> None:
    body = (
        "from pathlib import Path\nPath(call.arguments['begun']).touch()\n"
        "try:\n    await asyncio.sleep(60)\nfinally:\n    Path(call.arguments['ended']).touch()"
    )
    write_module(alone, "X", module(body, "async def"))
    begun, ended = alone / "begun", alone / "ended"

    async def main() -> None:
        async with serving(alone) as services:
            running = asyncio.create_task(call(services, "X", {"begun": str(begun), "ended": str(ended)}))
            await until(begun.exists)
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled()
            assert ended.exists()

    asyncio.run(main())


def test_a_plugin_that_changes_its_arguments_changes_them_for_nobody_else(alone: Path) -> None:
    """Logs, approvals and the client are told what was asked for."""
    write_module(alone, "X", module('call.arguments["a"] = 2\ncall.arguments.clear()\nreturn 1'))
    heard: list[CallFinished] = []

    async def main() -> None:
        async with serving(alone) as services:
            services.events.listen(lambda event: heard.append(event), CallFinished)  # type: ignore[arg-type]
            arguments = {"a": 1}
            asked = ToolCall("c", "X", arguments, {"a": "1"})
            assert (await services.router.call(asked, CallContext("t", Door.AGENT))).ok
            assert arguments == {"a": 1}

    asyncio.run(main())
    assert [event.call.arguments for event in heard] == [{"a": 1}]


def test_calls_at_a_time_are_limited_by_the_manifest(alone: Path) -> None:
    source = """
    import asyncio
    class P:
        now = most = 0
        async def call(self, call, context):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.01)
            self.now -= 1
            return self.most
    def create(context):
        return P()
    """
    write_module(alone, "X", source, maxRunning=2)

    async def main() -> None:
        async with serving(alone) as services:
            results = await asyncio.gather(*(call(services, "X") for _ in range(6)))
            assert max(result.structured for result in results) == 2

    asyncio.run(main())


def test_an_administrators_plugin_is_refused_without_a_readable_code_and_gets_it_otherwise(alone: Path) -> None:
    source = "def create(c):\n    class P:\n        call = lambda self, call, x: c.auth_code()\n    return P()"
    write_module(alone, "X", source, requiresAdmin=True)

    async def main() -> None:
        async with serving(alone) as services:
            refused = await call(services, "X")
            assert refused.error_kind is ErrorKind.EXECUTION
            assert "auth code cannot be read" in refused.message

    asyncio.run(main())


def test_d5_text_arguments_become_the_declared_types_and_names(alone: Path) -> None:
    command = {
        "commandIdentifier": "do",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "fullText": {"type": "boolean"}, "free": {"type": "string"}},
        },
    }
    write_module(alone, "X", module("return dict(call.arguments)"), capabilities={"invocationCommands": [command]})

    async def main() -> None:
        async with serving(alone) as services:
            texts = {"count": "5", "full_text": "true", "free": "7"}
            standing = CallContext("t", Door.STREAM)
            result = await services.router.call(ToolCall("c", "X", texts, texts=texts), standing)
            assert result.structured == {"count": 5, "fullText": True, "free": "7"}

    asyncio.run(main())


class Stuck:
    """Plain work that hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.running = 0

    def __call__(self) -> str:
        self.running += 1
        self.go.wait(10)
        return "done"


def test_a_plugin_whose_calls_hang_is_not_run_any_more_until_they_end_and_others_are() -> None:
    async def main() -> None:
        workers = Workers(LoopWatch(), lambda: WorkLimits(threads=4, stop_seconds=0.01))
        stuck = Stuck()
        for _ in range(HANGING_LIMIT):
            with pytest.raises(Exception, match=r"longer than 0\.01 s"):
                await workers.run("Bad", stuck, seconds=0.01, what="call()")
        with pytest.raises(PluginHangingError, match="still hang"):
            await workers.run("Bad", stuck, seconds=0.01, what="call()")
        assert stuck.running == HANGING_LIMIT
        assert await workers.run("Good", lambda: 5, seconds=5, what="call()") == 5
        stuck.go.set()
        await until(lambda: not workers.hanging("Bad"))
        assert await workers.run("Bad", lambda: 6, seconds=5, what="call()") == 6

    asyncio.run(main())


def test_one_plugin_gets_at_most_half_of_the_threads() -> None:
    async def main() -> None:
        workers = Workers(LoopWatch(), lambda: WorkLimits(threads=4, queue_seconds=0.05))
        stuck = Stuck()
        tasks = [asyncio.create_task(workers.run("Greedy", stuck, seconds=9, what="call()")) for _ in range(3)]
        with pytest.raises(QueueError):
            await tasks[2]
        assert stuck.running == 2
        assert await workers.run("Other", lambda: 5, seconds=5, what="call()") == 5
        stuck.go.set()
        assert await asyncio.gather(*tasks[:2]) == ["done", "done"]

    asyncio.run(main())


def test_the_number_of_threads_follows_the_settings() -> None:
    async def main() -> None:
        limits = WorkLimits(threads=2, queue_seconds=0.02)
        workers = Workers(LoopWatch(), lambda: limits)
        stuck = Stuck()
        first = asyncio.create_task(workers.run("P", stuck, seconds=9, what="call()"))
        await until(lambda: stuck.running == 1)
        with pytest.raises(QueueError):
            await workers.run("P", lambda: 5, seconds=5, what="call()")
        limits = WorkLimits(threads=8, queue_seconds=0.02)
        assert await workers.run("P", lambda: 5, seconds=5, what="call()") == 5
        stuck.go.set()
        await first

    asyncio.run(main())
