"""Several upstreams for one model, over real sockets: who is asked, in which order, and what is told in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from app.errors import (
    UpstreamBrokenError,
    UpstreamBusyError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamStatusError,
    UpstreamTimeoutError,
)
from app.extend import UpstreamTarget
from app.upstream.client import UpstreamClient
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RETRIED_STATUSES, RetryPolicy
from tests.upstream.wire_server import CHUNKED, Naps, Peer, Script, Server, answer, ask, chunk, serving

DATA = b'data: {"choices":[]}\n\n'
GOOD = CHUNKED + chunk(DATA) + b"0\r\n\r\n"
CLOSED = "http://127.0.0.1:1"
KEYS = ("sk-secret-of-a", "sk-secret-of-b", "sk-secret-of-c")


def says(*answers: bytes) -> Script:
    """Answers the n-th request, over all connections, with the n-th text; the last one again and again."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(left.pop(0) if len(left) > 1 else left[0])

    return script


async def hangs_up(peer: Peer) -> None:
    await peer.request()


async def is_silent(peer: Peer) -> None:
    await peer.request()
    await peer.closed_by_client()


class Listed:
    def __init__(self, targets: Sequence[UpstreamTarget]) -> None:
        self.all = tuple(targets)

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        return self.all

    def targets(self) -> Sequence[UpstreamTarget]:
        return self.all


@dataclass
class Scene:
    client: UpstreamClient
    servers: list[Server | None]
    resolver: Listed
    naps: Naps = field(default_factory=Naps)
    now: float = 0.0

    @property
    def asked(self) -> list[int]:
        """How many requests each upstream got."""
        return [len(server.requests) if server is not None else 0 for server in self.servers]

    @property
    def rests(self) -> list[float]:
        return [status.resting for status in self.client.status()]


@asynccontextmanager
async def upstreams(
    *scripts: Script | None,
    policy: RetryPolicy | None = None,
    limits: UpstreamLimits | None = None,
    most: int | None = None,
) -> AsyncIterator[Scene]:
    """Upstreams a, b, c by these scripts (None: nobody listens), and a client that may ask all of them."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(script)) if script else None for script in scripts]
        resolver = Listed(
            [
                UpstreamTarget(server.url if server else CLOSED, key, None, name, most)
                for server, key, name in zip(servers, KEYS, "abc", strict=False)
            ]
        )
        naps = Naps()
        client = UpstreamClient(
            resolver,
            policy or RetryPolicy(attempts=2, delay_ms=100, pause=10),
            limits or UpstreamLimits(),
            sleep=naps,
            timer=lambda: scene.now,
            chance=lambda: 0.5,
            environment={},
        )
        scene = Scene(client, servers, resolver, naps)
        await client.start()
        stack.push_async_callback(client.stop)
        yield scene


# --- what makes the next one be asked --------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 407, 408, 429, 500, 501, 502, 503, 504, 520, 529])
def test_a_status_that_another_upstream_need_not_have_is_asked_of_the_next_at_once(status: int, stream: bool) -> None:
    async def scene() -> None:
        async with upstreams(says(answer(status)), says(GOOD)) as up:
            assert await ask(up.client, stream=stream) == DATA
            assert up.asked == [1, 1]
            assert up.naps.waits == []
            (request,) = up.servers[1].requests  # type: ignore[union-attr]  # it is there
            assert request.header("Authorization") == f"Bearer {KEYS[1]}"

    asyncio.run(scene())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 405, 409, 413, 415, 422, 451, 201])
def test_a_fault_of_the_request_itself_goes_to_the_client_at_once(status: int, stream: bool) -> None:  # P28
    async def scene() -> None:
        async with upstreams(says(answer(status, b"no")), says(GOOD)) as up:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(up.client, stream=stream)
            assert (caught.value.upstream_status, caught.value.body, caught.value.attempts) == (status, b"no", 1)
            assert up.asked == [1, 0]

    asyncio.run(scene())


@pytest.mark.parametrize("script", [None, hangs_up, says(b"SSH-2.0-OpenSSH_9\r\n\r\n"), is_silent])
def test_an_upstream_that_gives_no_answer_hands_on_to_the_next(script: Script | None) -> None:
    async def scene() -> None:
        async with upstreams(script, says(GOOD), limits=UpstreamLimits(first_byte=0.05)) as up:
            up.resolver.all = (up.resolver.all[0], up.resolver.all[1])
            assert await ask(up.client) == DATA
            assert up.asked[1] == 1
            assert up.naps.waits == []

    async def patient() -> None:
        await asyncio.wait_for(scene(), 10)

    asyncio.run(patient())


def test_a_connection_that_does_not_come_about_hands_on_to_the_next() -> None:
    async def never(peer: Peer) -> None:
        await peer.closed_by_client()  # the TLS greeting is not answered

    async def scene() -> None:
        async with upstreams(never, says(GOOD), limits=UpstreamLimits(connect=0.05)) as up:
            first, second = up.resolver.all
            up.resolver.all = (replace(first, base_url=first.base_url.replace("http:", "https:")), second)
            assert await ask(up.client) == DATA
            assert up.asked == [0, 1]

    asyncio.run(scene())


def test_nobody_else_is_asked_after_the_first_byte() -> None:
    async def breaks_off(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(DATA))

    async def scene() -> None:
        async with upstreams(breaks_off, says(GOOD)) as up:
            async with await up.client.chat(b"{}", model="m", stream=True) as reply:
                assert await reply.read_some() == DATA
                with pytest.raises(UpstreamBrokenError):
                    await reply.read_some()
            assert up.asked == [1, 0]

    asyncio.run(scene())


def test_an_unusable_proxy_of_the_environment_hands_on_to_an_upstream_that_needs_none() -> None:
    async def scene() -> None:
        async with upstreams(says(GOOD), says(GOOD)) as up:
            first, second = up.resolver.all
            up.resolver.all = (replace(first, base_url="http://a.example"), replace(second, proxy=""))
            client = up.client.renewed(
                up.resolver, RetryPolicy(), UpstreamLimits(), environment={"all_proxy": "socks5://secret:1"}
            )
            assert await ask(client) == DATA
            assert up.asked == [0, 1]

    asyncio.run(scene())


# --- attempts and pauses of one request ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(RETRIED_STATUSES))
def test_each_gets_all_its_attempts_and_the_pause_lies_between_the_rounds(status: int) -> None:
    async def scene() -> None:
        policy = RetryPolicy(attempts=3, delay_ms=100)
        async with upstreams(says(answer(status)), says(answer(status)), policy=policy) as up:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(up.client)
            assert up.asked == [3, 3]
            assert up.naps.waits == [0.1, 0.2]
            assert (caught.value.upstream_status, caught.value.exhausted) == (status, True)

    asyncio.run(scene())


def test_one_whose_fault_does_not_pass_is_not_asked_again() -> None:
    async def scene() -> None:
        policy = RetryPolicy(attempts=3, delay_ms=100)
        async with upstreams(says(answer(401)), says(answer(503), answer(503), GOOD), policy=policy) as up:
            assert await ask(up.client) == DATA
            assert up.asked == [1, 3]

    asyncio.run(scene())


def test_each_waits_as_long_as_it_asked_for_and_the_first_that_is_due_is_next() -> None:
    async def scene() -> None:
        policy = RetryPolicy(attempts=2, delay_ms=100)
        first = says(answer(429, b"", "Retry-After: 7"), GOOD)
        async with upstreams(first, says(answer(503)), policy=policy) as up:
            assert await ask(up.client) == DATA
            assert up.asked == [2, 2]
            assert up.naps.waits == [0.1, 6.9]

    asyncio.run(scene())


def test_the_error_is_that_of_the_one_that_was_asked_first_and_says_that_all_failed() -> None:
    async def scene() -> None:
        async with upstreams(None, says(answer(404, b"no such model")), says(answer(503))) as up:
            with pytest.raises(UpstreamConnectError) as caught:
                await ask(up.client)
            message = caught.value.message
            assert "Upstream_a_URL" in message
            assert "API_URL" not in message
            assert "3 个上游均失败 / all 3 upstreams failed" in message
            assert str(caught.value) == message

    asyncio.run(scene())


def test_a_kept_connection_that_was_closed_costs_no_upstream_its_turn() -> None:
    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.send(GOOD)
        await peer.request()
        if peer.number > 1:
            await peer.send(GOOD)

    async def scene() -> None:
        async with upstreams(once, says(GOOD)) as up:
            for _ in range(2):
                assert await ask(up.client) == DATA
            assert up.asked[1] == 0
            assert up.client.status()[0].faults == 0

    asyncio.run(scene())


def test_cancelling_in_mid_fail_over_closes_the_connection_and_gives_the_place_back() -> None:
    async def scene() -> None:
        async with upstreams(says(answer(503)), is_silent, most=1) as up:
            task = asyncio.create_task(ask(up.client))
            second = up.servers[1]
            assert second is not None
            while not second.requests:
                await asyncio.sleep(0.001)
            assert [status.running for status in up.client.status()] == [0, 1]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [status.running for status in up.client.status()] == [0, 0]
            assert [status.faults for status in up.client.status()] == [1, 0]

    asyncio.run(scene())


def test_the_log_names_each_upstream_that_failed_and_never_a_key(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with upstreams(says(answer(401, KEYS[0].encode())), None, says(GOOD)) as up:
            assert await ask(up.client) == DATA

    asyncio.run(scene())
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("app.")]
    assert len(lines) == 2
    assert lines[0].startswith("upstream a (127.0.0.1:")
    assert "status 401; others are asked" in lines[0]
    assert lines[1].startswith("upstream b (127.0.0.1:1)")
    assert not any(key in caplog.text for key in KEYS)


# --- health ----------------------------------------------------------------------------------------------------------


def test_an_upstream_that_keeps_failing_is_spared_then_tried_and_taken_back() -> None:
    async def scene() -> None:
        first = says(answer(500), answer(500), answer(500), answer(500), GOOD)
        async with upstreams(first, says(GOOD)) as up:
            for _ in range(5):
                assert await ask(up.client) == DATA
            assert up.asked == [3, 5]  # two requests went to b at once
            assert up.rests == [10, 0]
            up.now = 10
            assert await ask(up.client) == DATA  # the trial fails
            assert up.asked == [4, 6]
            assert up.rests == [20, 0]
            up.now = 30
            for _ in range(2):
                assert await ask(up.client) == DATA
            assert up.asked == [6, 6]
            assert [status.failures for status in up.client.status()] == [0, 0]

    asyncio.run(scene())


def test_a_time_limit_is_met_once_and_not_by_every_request() -> None:
    async def scene() -> None:
        async with upstreams(is_silent, says(GOOD), limits=UpstreamLimits(first_byte=0.05)) as up:
            for _ in range(3):
                assert await ask(up.client) == DATA
            assert up.asked == [1, 3]

    asyncio.run(scene())


def test_a_retry_after_spares_an_upstream_for_that_long() -> None:
    async def scene() -> None:
        async with upstreams(says(answer(429, b"", "Retry-After: 120"), GOOD), says(GOOD)) as up:
            for _ in range(2):
                assert await ask(up.client) == DATA
            assert (up.asked, up.rests) == ([1, 2], [120, 0])
            up.now = 120
            assert await ask(up.client) == DATA
            assert up.asked == [2, 2]

    asyncio.run(scene())


def test_a_model_that_one_upstream_lacks_does_not_make_it_ill() -> None:
    async def scene() -> None:
        async with upstreams(says(answer(404)), says(GOOD)) as up:
            for _ in range(4):
                assert await ask(up.client) == DATA
            assert (up.asked, up.rests) == ([4, 4], [0, 0])

    asyncio.run(scene())


def test_when_the_others_fail_or_all_are_spared_they_are_asked_all_the_same_the_shortest_rest_first() -> None:
    async def scene() -> None:
        policy = RetryPolicy(attempts=1, pause=10)
        first = says(answer(429, b"", "Retry-After: 60"), GOOD)
        second = says(answer(429, b"", "Retry-After: 30"), answer(503), GOOD)
        async with upstreams(first, second, policy=policy) as up:
            with pytest.raises(UpstreamStatusError):
                await ask(up.client)
            assert up.rests == [60, 30]
            assert await ask(up.client) == DATA  # b first, which fails, then a
            assert up.asked == [2, 2]
            assert up.rests == [0, 30]

    asyncio.run(scene())


def test_only_one_request_tries_an_upstream_after_its_pause() -> None:
    async def scene() -> None:
        go = asyncio.Event()

        async def first(peer: Peer) -> None:
            while await peer.request():
                if peer.number > 1:
                    await go.wait()
                    await peer.send(GOOD)
                else:
                    await peer.answer(503, b"", "Retry-After: 5", "Connection: close")
                    return

        async with upstreams(first, says(GOOD), policy=RetryPolicy(attempts=1, pause=10)) as up:
            target = up.resolver.all[0]
            for _ in range(3):
                up.client._dispatch.fleet.standing(target).health.fail(0, 10, 0.5)
            up.now = 10
            assert (await ask(up.client), up.asked) == (DATA, [1, 1])  # the trial fails
            up.now = 40
            trial = asyncio.create_task(ask(up.client))
            while up.asked[0] < 2:
                await asyncio.sleep(0.001)
            for _ in range(3):
                assert await ask(up.client) == DATA
            assert up.asked == [2, 4]
            go.set()
            assert await trial == DATA
            assert await ask(up.client) == DATA
            assert up.asked == [3, 4]

    asyncio.run(scene())


def test_a_cancelled_trial_leaves_the_next_request_one() -> None:
    async def scene() -> None:
        async def first(peer: Peer) -> None:
            await peer.request()
            if peer.number == 1:
                await peer.closed_by_client()
            else:
                await peer.send(GOOD)
                await peer.closed_by_client()

        async with upstreams(first, says(GOOD)) as up:
            for _ in range(3):
                up.client._dispatch.fleet.standing(up.resolver.all[0]).health.fail(0, 10, 0.5)
            up.now = 10
            trial = asyncio.create_task(ask(up.client))
            while not up.asked[0]:
                await asyncio.sleep(0.001)
            trial.cancel()
            with pytest.raises(asyncio.CancelledError):
                await trial
            assert await ask(up.client) == DATA
            assert up.asked == [2, 0]

    asyncio.run(scene())


def test_a_lone_upstream_is_asked_as_ever_however_it_fares() -> None:  # R10
    async def scene() -> None:
        async with upstreams(says(answer(500)), policy=RetryPolicy(attempts=2, delay_ms=100)) as up:
            for _ in range(4):
                with pytest.raises(UpstreamStatusError) as caught:
                    await ask(up.client)
                assert caught.value.attempts == 2
                assert "upstreams failed" not in caught.value.message
            assert up.asked == [8]
            assert up.naps.waits == [0.1] * 4

    asyncio.run(scene())


# --- limits of running requests --------------------------------------------------------------------------------------


def gated(go: asyncio.Event) -> Script:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(CHUNKED + chunk(DATA))
            await go.wait()
            await peer.send(b"0\r\n\r\n")

    return script


def test_a_request_goes_to_the_next_upstream_while_one_is_full_and_then_waits_for_the_first_place() -> None:
    async def scene() -> None:
        one, two = asyncio.Event(), asyncio.Event()
        async with upstreams(gated(one), gated(two), most=1) as up:
            a = await up.client.chat(b"{}", model="m", stream=True)
            b = await up.client.chat(b"{}", model="m", stream=True)
            assert up.asked == [1, 1]
            third = asyncio.create_task(up.client.chat(b"{}", model="m", stream=True))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not third.done()
            two.set()
            assert await b.read_all(100) == DATA
            await b.close()
            await b.close()
            c = await third
            assert up.asked == [1, 2]
            assert [status.running for status in up.client.status()] == [1, 1]
            await a.close()
            await c.close()
            assert [status.running for status in up.client.status()] == [0, 0]

    asyncio.run(scene())


def test_a_wait_for_a_place_has_an_end_and_says_what_is_full() -> None:
    async def scene() -> None:
        limits = UpstreamLimits(queue=0.01)
        async with upstreams(gated(asyncio.Event()), limits=limits, most=1) as up:
            async with await up.client.chat(b"{}", model="m", stream=True):
                with pytest.raises(UpstreamBusyError, match="MaxRunning") as caught:
                    await ask(up.client)
            assert caught.value.status == 503
            assert up.asked == [1]

    asyncio.run(scene())


def test_a_request_whose_place_did_not_come_asks_those_that_are_spared() -> None:
    async def scene() -> None:
        limits = UpstreamLimits(queue=0.01)
        async with upstreams(gated(asyncio.Event()), says(GOOD), limits=limits, most=1) as up:
            up.client._dispatch.fleet.standing(up.resolver.all[1]).health.fail(0, 10, 0.5, grave=True)
            async with await up.client.chat(b"{}", model="m", stream=True):
                assert up.asked == [1, 0]
                assert await ask(up.client) == DATA
            assert up.asked == [1, 1]

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["unread", "read", "broken", "error", "silent"])
def test_every_end_of_an_answer_gives_the_place_back(how: str) -> None:
    scripts: dict[str, Script] = {
        "unread": says(GOOD),
        "read": says(GOOD),
        "broken": says((CHUNKED + chunk(DATA))[:-1]),
        "error": says(answer(400)),
        "silent": gated(asyncio.Event()),
    }

    # Short only where it has to be reached: a busy machine may keep a good answer waiting for longer.
    limits = {"silent": UpstreamLimits(idle=0.02, first_byte=0.02), "broken": UpstreamLimits(idle=0.02)}.get(
        how, UpstreamLimits()
    )

    async def scene() -> None:
        async with upstreams(scripts[how], limits=limits, most=1) as up:
            for _ in range(2):
                try:
                    async with await up.client.chat(b"{}", model="m", stream=True) as reply:
                        while how != "unread" and await reply.read_some():
                            continue
                except UpstreamError:
                    assert how in ("broken", "error", "silent")
                assert up.client.status()[0].running == 0

    asyncio.run(scene())


def test_many_requests_at_once_never_pass_the_limit_and_all_are_answered() -> None:
    running = most = 0

    async def script(peer: Peer) -> None:
        nonlocal running, most
        while await peer.request():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            await peer.send(GOOD)

    async def scene() -> None:
        async with upstreams(script, most=3) as up:
            answers = await asyncio.gather(*(ask(up.client) for _ in range(100)))
            assert answers == [DATA] * 100
            assert most <= 3
            assert up.client._dispatch.fleet.waiting == 0

    asyncio.run(scene())


# --- reload ----------------------------------------------------------------------------------------------------------


def test_a_renewed_client_has_the_new_settings_and_the_old_pauses_and_places() -> None:
    async def scene() -> None:
        go = asyncio.Event()
        async with upstreams(gated(go), says(GOOD), most=1) as up:
            running = await up.client.chat(b"{}", model="m", stream=True)
            up.client._dispatch.fleet.standing(up.resolver.all[1]).health.fail(0, 10, 0.5, grave=True)
            renewed = up.client.renewed(Listed(up.resolver.all), RetryPolicy(), UpstreamLimits(), environment={})
            assert [(status.running, status.resting) for status in renewed.status()] == [(1, 0), (0, 10)]
            alone = up.client.renewed(Listed(up.resolver.all[1:]), RetryPolicy(), UpstreamLimits(), environment={})
            assert await ask(alone) == DATA
            assert not alone.has_several
            assert up.client.has_several  # whoever holds the old one goes on with it
            go.set()
            assert await running.read_all(100) == DATA
            await running.close()
            assert renewed.status()[0].running == 0

    asyncio.run(scene())


def test_the_time_limits_are_those_of_the_client_that_asks() -> None:
    async def scene() -> None:
        async with upstreams(is_silent) as up:
            quick = up.client.renewed(
                up.resolver, RetryPolicy(attempts=1), UpstreamLimits(first_byte=0.02), environment={}
            )
            with pytest.raises(UpstreamTimeoutError):
                await ask(quick)

    asyncio.run(scene())


# --- requests that are passed through --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "status", "body"),
    [
        ((None, says(answer(503, b"x"))), 404, b"first"),  # all fail: the first status
        ((None, says(answer(422, b"no"))), 422, b"no"),
        ((says(answer(200, b"yes")), None), 200, b"yes"),
    ],
)
def test_a_request_passed_through_goes_on_to_the_next_and_keeps_every_status(
    others: tuple[Script | None, Script | None], status: int, body: bytes
) -> None:
    async def scene() -> None:
        async with upstreams(says(answer(404, b"first")), *others, most=1) as up:
            async with await up.client.request(
                "POST", "/v1/embeddings", body=b"{}", headers={"X-VCP-Call-Depth": "4"}, model="m"
            ) as reply:
                assert (reply.status, await reply.read_all(100)) == (status, body)
            assert all(status.running == 0 for status in up.client.status())
            (request,) = up.servers[0].requests  # type: ignore[union-attr]  # it is there
            assert request.header("X-VCP-Call-Depth") is None

    asyncio.run(scene())


def test_a_request_passed_through_that_gets_no_answer_at_all_is_an_error() -> None:
    async def scene() -> None:
        async with upstreams(None, hangs_up) as up:
            with pytest.raises(UpstreamConnectError, match="all 2 upstreams failed"):
                await up.client.request("GET", "/v1/models/m", headers={})

    asyncio.run(scene())


def test_a_cancelled_request_passed_through_keeps_no_place_and_no_answer() -> None:
    async def scene() -> None:
        async with upstreams(says(answer(404)), is_silent, most=1) as up:
            task = asyncio.create_task(up.client.request("GET", "/v1/models/m", headers={}))
            while not up.asked[1]:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [status.running for status in up.client.status()] == [0, 0]

    asyncio.run(scene())


@pytest.mark.parametrize("status", [307, 503])
def test_requests_passed_through_never_wait_for_a_place_that_the_other_keeps_with_its_error(status: int) -> None:
    async def scene() -> None:
        both_came = asyncio.Barrier(2)

        async def fails(peer: Peer) -> None:
            first = True
            while await peer.request():
                if first:
                    await both_came.wait()
                    first = False
                await peer.send(answer(status, b"no"))

        async with upstreams(fails, fails, most=1) as up, asyncio.timeout(10):
            asking = [up.client.request("GET", "/v1/models/m", headers={}) for _ in range(2)]
            for reply in await asyncio.gather(*asking):
                assert (reply.status, await reply.read_all(10)) == (status, b"no")
                await reply.close()
            assert up.asked == [2, 2]
            assert [status.running for status in up.client.status()] == [0, 0]

    asyncio.run(scene())


def test_an_upstream_in_trouble_does_not_make_the_server_unwell() -> None:
    async def scene() -> None:
        async with upstreams(None, policy=RetryPolicy(attempts=1)) as up:
            for _ in range(4):
                with pytest.raises(UpstreamConnectError):
                    await ask(up.client)
            assert up.client.health() == ""
            assert up.client.status()[0].faults == 4

    asyncio.run(scene())
