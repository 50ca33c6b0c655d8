"""Results of background plugins that nodes forward: whose they may be, and whether they are told (1.10, D27, P70)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.extend import BackgroundResult, CallContext, Door, Mute, ToolCall
from tests.hub.nodes.wire_nodes import WireNode, main_server, manifest, node, until
from tests.server import Running, run, write_plugin

PUSH = {"enabled": True, "messageType": "video"}
VIDEO = manifest("Video", pluginType="asynchronous", webSocketPush=PUSH)


async def begin(server: Running, tool: str, task: str, far: WireNode, mute: Mute) -> None:
    async with far.answering(lambda _: {"requestId": task}):
        context = CallContext("turn", Door.STREAM, mute=mute)
        assert (await server.services.router.call(ToolCall("1", tool, {}), context)).ok


def told(server: Running) -> list[BackgroundResult]:
    return [event for event in server.events if isinstance(event, BackgroundResult)]


async def forward(far: WireNode, task: str, **body: Any) -> None:
    await far.tell("plugin_callback_forward", callbackData={"pluginName": "Video", "taskId": task, **body})


def test_after_an_interrupt_results_are_kept_and_not_pushed(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", VIDEO) as far:
            mute = Mute()
            await begin(server, "Video", "t1", far, mute)
            mute.muted = True
            await forward(far, "t1")
            await forward(far, "t2")
            await until(lambda: len(told(server)) == 2)
            assert {result.task_id: result.push is None for result in told(server)} == {"t1": True, "t2": False}
            assert (tmp_path / "VCPAsyncResults" / "Video-t1.json").exists()

    run(main())


def test_a_node_cannot_write_results_of_a_plugin_of_ours_or_of_another_node(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Video", "", pluginType="asynchronous")
        async with (
            main_server(tmp_path) as server,
            node(server, "n", VIDEO) as far,
            node(server, "other", VIDEO) as other,
        ):
            await forward(far, "local-task")
            await begin(server, "n#Video", "t1", far, Mute())
            await forward(other, "t1", forged=True)
            await forward(far, "t1")
            await until(lambda: bool(told(server)))
            assert "forged" not in told(server)[0].body
            assert [path.name for path in (tmp_path / "VCPAsyncResults").iterdir()] == ["Video-t1.json"]
            assert "forged" not in (tmp_path / "VCPAsyncResults" / "Video-t1.json").read_text()

    run(main())


@pytest.mark.parametrize(("limit", "value", "kept"), [("MAX_UNASKED", 2, 2), ("MAX_UNASKED_BYTES", 250, 2)])
def test_results_of_tasks_that_no_call_named_are_limited_and_others_still_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, kept: int
) -> None:
    monkeypatch.setattr(f"app.hub.nodes.callbacks.{limit}", value)

    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", VIDEO) as far:
            await begin(server, "Video", "asked", far, Mute())
            for number in range(5):
                await forward(far, f"unasked-{number}", padding="x" * 50)
            await forward(far, "unasked-0", again=True)
            await forward(far, "asked", padding="x" * 500)
            await until(lambda: any(result.task_id == "asked" for result in told(server)))
            assert len(list((tmp_path / "VCPAsyncResults").glob("Video-unasked-*"))) == kept
        assert "again" in (tmp_path / "VCPAsyncResults" / "Video-unasked-0.json").read_text(), "it is known by now"

    run(main())


def test_results_are_told_again_as_often_as_they_come(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", VIDEO) as far:
            for name in ("task_id", "TaskId", "requestId"):
                await far.tell(
                    "plugin_callback_forward", callbackData={"PLUGIN_NAME_FOR_CALLBACK": "Video", name: 7, "way": name}
                )
                await until(lambda: bool(told(server)) and told(server)[-1].body["way"] == name)  # noqa: B023
            assert {result.task_id for result in told(server)} == {"7"}

    run(main())


def test_more_results_than_may_wait_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", VIDEO) as far:
            monkeypatch.setattr("app.hub.nodes.callbacks.MAX_WAITING", 0)
            await forward(far, "t1")
            monkeypatch.undo()
            await forward(far, "t2")
            await until(lambda: bool(told(server)))
            assert [path.name for path in (tmp_path / "VCPAsyncResults").iterdir()] == ["Video-t2.json"]

    run(main())
