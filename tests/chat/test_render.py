"""How a turn's end looks to clients, in both renderings."""

import asyncio
import json
from typing import Any

import pytest

from app.chat.completion_rendering import CompletionRenderer
from app.chat.failures import error_answer, failure_headers, failure_text
from app.chat.render import Ending
from app.chat.stream_rendering import StreamRenderer
from app.errors import (
    ShutdownError,
    UpstreamBrokenError,
    UpstreamConnectError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    VcpError,
)


class Wire:
    """What a client gets; a write can be made to wait for ever, like one to a client that does not read."""

    def __init__(self) -> None:
        self.data = b""
        self.stuck = False
        self.waiting = asyncio.Event()

    async def write(self, data: bytes, last: bool) -> None:
        if self.stuck:
            self.waiting.set()
            await asyncio.Event().wait()
        self.data += data

    @property
    def chunks(self) -> list[Any]:
        datas = [line[6:] for line in self.data.decode().split("\n") if line.startswith("data: ")]
        assert datas.count("[DONE]") == 1
        assert datas[-1] == "[DONE]"
        return [json.loads(data) for data in datas[:-1]]


def renderer(wire: Wire, **options: Any) -> StreamRenderer:
    return StreamRenderer(wire.write, model="m", clock=lambda: 1234.5, **options)


def test_the_end_of_a_stream_is_one_finish_and_the_end_mark() -> None:
    async def main() -> None:
        wire = Wire()
        await renderer(wire).finish(Ending({0: "stop"}, {"total_tokens": 1}))
        assert wire.chunks == [
            {
                "id": "chatcmpl-VCP-final-stop-1234500",
                "object": "chat.completion.chunk",
                "created": 1234,
                "model": "m",
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}],
            }
        ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reason", "left", "told"), [("stop", True, "length"), ("content_filter", False, "content_filter")]
)
def test_the_finish_is_length_only_when_calls_were_left(reason: str, left: bool, told: str) -> None:
    async def main() -> None:
        wire = Wire()
        await renderer(wire).finish(Ending({0: reason}, None, calls_left=left))
        (last,) = wire.chunks
        assert last["id"].startswith(f"chatcmpl-VCP-final-{told}-")
        assert last["choices"][0]["finish_reason"] == told

    asyncio.run(main())


@pytest.mark.parametrize(("wanted", "forward", "told"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_summed_usage_is_told_when_it_was_asked_for_and_not_forwarded_before(
    wanted: bool, forward: bool, told: int
) -> None:
    async def main() -> None:
        wire = Wire()
        await renderer(wire, wants_usage=wanted, forward_usage=forward).finish(Ending({}, {"total_tokens": 3}))
        tails = [one for one in wire.chunks if "usage" in one]
        assert [(one["choices"], one["usage"]) for one in tails] == [([], {"total_tokens": 3})] * told

    asyncio.run(main())


def test_an_ended_stream_says_nothing_more() -> None:
    async def main() -> None:
        wire = Wire()
        stream = renderer(wire)
        await stream.finish(Ending({}, None))
        await stream.failed(VcpError("late"))
        await stream.interrupted()
        await stream.finish(Ending({}, None))
        assert len(wire.chunks) == 1

    asyncio.run(main())


@pytest.mark.parametrize("end", ["finish", "failed"])
def test_an_end_that_was_cancelled_while_the_client_did_not_read_is_made_up_for(end: str) -> None:
    async def main() -> None:
        wire = Wire()
        stream = renderer(wire)
        await stream.block("text")
        wire.stuck = True
        told = stream.finish(Ending({}, None)) if end == "finish" else stream.failed(VcpError("x"))
        ending = asyncio.create_task(told)
        await wire.waiting.wait()
        ending.cancel()
        await asyncio.wait({ending})
        wire.stuck = False
        await stream.interrupted()
        assert [one["choices"][0]["finish_reason"] for one in wire.chunks] == [None, "stop"]

    asyncio.run(main())


def test_the_notice_of_an_interrupt_has_its_role_also_when_the_first_event_was_never_written() -> None:
    async def main() -> None:
        wire = Wire()
        stream = renderer(wire)
        wire.stuck = True
        first = asyncio.create_task(stream.block("lost"))
        await wire.waiting.wait()
        first.cancel()
        await asyncio.wait({first})
        wire.stuck = False
        await stream.interrupted()
        notice, end = wire.chunks
        assert notice["choices"][0]["delta"] == {"role": "assistant", "content": "请求已被用户中止"}
        assert notice["id"] == end["id"] == "chatcmpl-interrupt-1234500"
        assert end["choices"][0]["finish_reason"] == "stop"

    asyncio.run(main())


def test_errors_as_status_hold_only_before_the_first_event() -> None:
    async def main() -> None:
        error = UpstreamStatusError(429, b'{"error":{"message":"slow"}}', retry_after=90.5)
        wire = Wire()
        stream = renderer(wire, errors_as_status=True)
        await stream.failed(error)
        assert stream.status_answer is not None
        assert (stream.status_answer[0], stream.headers, wire.data) == (429, {"retry-after": "91"}, b"")
        stream = renderer(wire, errors_as_status=True)
        await stream.block("text")
        await stream.failed(error)
        assert stream.status_answer is None
        assert "[UPSTREAM_ERROR]" in wire.chunks[1]["choices"][0]["delta"]["content"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UpstreamStatusError(400, b"x"), "[UPSTREAM_ERROR] 上游API返回状态码 400，错误信息: x"),
        (
            UpstreamStatusError(503, b"x", attempts=3, exhausted=True),
            "[ERROR] 代理服务器在连接上游API时失败，可能已达到重试上限或网络错误: "
            "上游返回状态码 / upstream answered status 503: x",
        ),
        (
            UpstreamConnectError("gone"),
            "[ERROR] 代理服务器在连接上游API时失败，可能已达到重试上限或网络错误: gone",
        ),
        (ShutdownError(), f"[ERROR] {ShutdownError().message}"),
    ],
)
def test_every_failure_has_its_text(error: VcpError, text: str) -> None:
    assert failure_text(error) == text


@pytest.mark.parametrize(
    ("error", "status", "part"),
    [
        (UpstreamStatusError(401, b'{"error":{"message":"bad key","x":1}}'), 401, "bad key"),
        (UpstreamStatusError(401, b'{"error":"bad key"}'), 401, "bad key"),
        (UpstreamStatusError(403, b'{"detail":"no"}'), 403, '{"detail":"no"}'),
        (UpstreamStatusError(502, b"<html>502</html>", exhausted=True), 502, "502"),
        (UpstreamStatusError(404, b""), 404, "404"),
        (UpstreamStatusError(302, b""), 502, "302"),
        (UpstreamStatusError(200, b'{"error":{"message":"hidden"}}'), 502, "hidden"),
        (UpstreamConnectError("gone"), 500, "Internal Server Error: Fetch failed after all retries. gone"),
        (UpstreamTimeoutError("no way", phase="connect"), 500, "Fetch failed after all retries. no way"),
        (UpstreamTimeoutError("slow", phase="first_byte"), 504, "slow"),
        (UpstreamBrokenError("half"), 502, "half"),
        (ShutdownError(), 503, "关闭"),
    ],
)
def test_every_failure_of_a_first_call_is_an_error_object(error: VcpError, status: int, part: str) -> None:
    told, body = error_answer(error)
    assert told == status
    assert part in body["error"]["message"]


def test_an_upstreams_own_error_body_is_kept_and_choices_are_added() -> None:
    _, body = error_answer(UpstreamStatusError(400, b'{"error":{"message":"m","type":"t","code":7},"id":"i"}'))
    assert body["error"] == {"message": "m", "type": "t", "code": 7}
    assert body["id"] == "i"
    assert body["choices"][0]["message"]["content"] == "[UPSTREAM_ERROR] 上游API返回状态码 400，错误信息: m"
    _, body = error_answer(UpstreamStatusError(502, b"<html>"))
    assert body["choices"][0]["message"]["content"] == "<html>"


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (UpstreamStatusError(429, b"", retry_after=0.2), {"retry-after": "1"}),
        (UpstreamStatusError(429, b""), {}),
        (VcpError("x"), {}),
    ],
)
def test_a_wait_that_the_upstream_asks_for_is_passed_on(error: VcpError, headers: dict[str, str]) -> None:
    assert failure_headers(error) == headers


def test_a_plain_answer_keeps_its_first_end() -> None:
    async def main() -> None:
        plain = CompletionRenderer(model="m")
        await plain.failed(UpstreamStatusError(400, b"x"))
        await plain.interrupted()
        await plain.finish(Ending({}, None))
        await plain.failed(ShutdownError())
        assert plain.status == 400

        plain = CompletionRenderer(model="m")
        await plain.block("kept")
        await plain.finish(Ending({0: "length"}, {"total_tokens": 1}))
        await plain.interrupted()
        assert plain.body == {
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "kept"}, "finish_reason": "length"}],
            "usage": {"total_tokens": 1},
        }

    asyncio.run(main())
