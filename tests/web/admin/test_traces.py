"""Traces as JSON: list, export, report, deletion, replay (part 7 of the panel)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import Answer, Hold, Received, Reply, say
from app.demo.scripted import ScriptedUpstream
from tests.server import ECHO, HEADERS, KEY, call_text, run, write_plugin
from tests.waiting import until
from tests.web.panel.visitor import Visitor, visiting

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


async def listed(visitor: Visitor, query: str = "") -> list[dict[str, Any]]:
    answer = await visitor.api("GET", f"/panel/traces{query}")
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["traces"]
    return rows


def test_a_chat_with_a_tool_and_a_call_alone_leave_traces_that_can_be_exported(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say("hi " + call_text("Echo", text="hello"), usage=USAGE), say("end", usage=USAGE)]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            await visitor.server.chat("What 天气?", model="big", stream=True)
            tool = call_text("Echo", text="alone").encode()
            await visitor.server.client.post("/v1/human/tool", content=tool, headers={"content-type": "text/plain"})
            one, other = await listed(visitor)
            assert (one["kind"], one["title"], one["door"]) == ("call", "Echo", "human_tool")
            assert (other["kind"], other["title"], other["model"], other["outcome"]) == (
                "turn",
                "What 天气?",
                "big",
                "success",
            )
            assert (other["rounds"], other["calls"], other["tokens"], other["client"]) == (2, 1, 14, "127.0.0.1")
            answer = await visitor.api("GET", f"/panel/traces/{other['id']}?download=1")
            assert answer.headers["content-disposition"] == f'attachment; filename="{other["id"]}.json"'
            document = answer.json()
            assert document["prompt"]["before"] == [{"role": "user", "content": "What 天气?"}]
            assert document["calls"][0]["result"] == {"original_plugin_output": "hello"}
            assert [one["text"] for one in document["rounds"]][1] == "end"
            assert document["calls"][0]["place"]["kind"] == "process"

    run(main())


def test_the_list_takes_filters_a_cursor_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _request: say("yes")) as up, visiting(tmp_path, up.base_url) as visitor:
            for number in range(3):
                await visitor.server.chat(f"question {number}", model=f"m{number}")
            first = (await visitor.api("GET", "/panel/traces?limit=2")).json()
            assert [row["title"] for row in first["traces"]] == ["question 2", "question 1"]
            assert [row["title"] for row in await listed(visitor, f"?limit=2&after={first['next']}")] == ["question 0"]
            assert [row["model"] for row in await listed(visitor, "?model=m1")] == ["m1"]
            assert [row["title"] for row in await listed(visitor, "?q=QUESTION%20m2")] == ["question 2"]
            assert await listed(visitor, "?outcome=error") == [] == await listed(visitor, "?kind=call")
            assert await listed(visitor, "?until=5") == []
            odd = (
                "outcome=odd",
                "kind=x",
                "since=soon",
                "since=nan",
                "limit=-1",
                "limit=1e3",
                "after=%00",
                "after=W10",
            )
            for bad in odd:
                answer = await visitor.api("GET", f"/panel/traces?{bad}")
                assert answer.status_code == 400 and " / " in answer.json()["error"], bad

    run(main())


def test_a_chat_that_runs_is_listed_and_shown_until_it_ends(tmp_path: Path) -> None:
    async def main() -> None:
        def held(request: Received) -> Reply:
            whole = say("slow").reply(request)
            return replace(whole, steps=(Hold("go"), *whole.steps))

        async with ScriptedUpstream([held]) as up, visiting(tmp_path, up.base_url) as visitor:
            asking = asyncio.create_task(visitor.server.chat("wait for me", model="big"))
            await up.held("go")
            (row,) = (await visitor.api("GET", "/panel/traces")).json()["running"]
            assert (row["outcome"], row["model"], row["rounds"]) == ("running", "big", 1)
            document = (await visitor.api("GET", f"/panel/traces/{row['id']}")).json()
            assert document["rounds"][0]["end"] is None and document["prompt"]["before"][0]["content"] == "wait for me"
            up.release("go")
            await asking
            answer = (await visitor.api("GET", "/panel/traces")).json()
            assert answer["running"] == [] and answer["traces"][0]["outcome"] == "success"

    run(main())


def test_secrets_of_the_installation_are_in_no_trace_d84(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _request: say(f"your key is {KEY}, mine upstream-key")) as up,
            visiting(tmp_path, up.base_url, config=["VCP_Key=socket-secret"]) as visitor,
        ):
            await visitor.server.chat({"role": "system", "content": f"{KEY} socket-secret"}, "say it", user=KEY)
            (row,) = await listed(visitor)
            text = (await visitor.api("GET", f"/panel/traces/{row['id']}")).text
            assert KEY not in text and "upstream-key" not in text and "socket-secret" not in text and "***" in text
            await visitor.server.services.traces.stop()
            kept = b"".join(path.read_bytes() for path in (tmp_path / ".vcp" / "traces").iterdir())
            assert KEY.encode() not in kept and b"upstream-key" not in kept

    run(main())


def test_the_report_tells_times_and_counts_and_nothing_that_anybody_wrote(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say("SECRET-ANSWER " + call_text("Echo", text="SECRET-ARG") + call_text("SECRET-TOOL")), say("end")]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            await visitor.server.chat("SECRET-QUESTION", model="big")
            (row,) = await listed(visitor)
            answer = await visitor.api("GET", f"/panel/traces/{row['id']}/report")
            assert answer.headers["content-type"].startswith("text/plain")
            assert "SECRET" not in answer.text and "127.0.0.1" not in answer.text and KEY not in answer.text
            assert "Echo by non_stream_loop process: success" in answer.text and "(unknown tool)" in answer.text
            assert "model: big" in answer.text and "round 2" in answer.text

    run(main())


def test_one_and_all_traces_are_deleted_and_unknown_ones_are_not_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _request: say("yes")) as up, visiting(tmp_path, up.base_url) as visitor:
            for number in range(3):
                await visitor.server.chat(f"{number}")
            id = (await listed(visitor))[0]["id"]
            assert (await visitor.api("DELETE", f"/panel/traces/{id}")).json() == {"deleted": 1}
            assert (await visitor.api("GET", f"/panel/traces/{id}")).status_code == 404
            assert (await visitor.api("DELETE", "/panel/traces")).json() == {"deleted": 2}
            for odd in ("..%2f..%2fconfig.env", "a%2Fb", "%00", "x" * 2000, "'; DROP TABLE traces"):
                assert (await visitor.api("GET", f"/panel/traces/{odd}")).status_code == 404, odd
            assert await listed(visitor) == []

    run(main())


def test_who_is_no_administrator_gets_nothing_and_other_sites_change_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path, logged_in=False) as visitor:
            assert (await visitor.api("GET", "/panel/traces")).status_code == 401
            with_key = await visitor.server.client.get("/admin_api/panel/traces", headers=HEADERS)
            assert with_key.status_code == 401
        async with visiting(tmp_path) as visitor:
            cross = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
            answer = await visitor.api("DELETE", "/panel/traces", **cross)
            assert answer.status_code == 403

    run(main())


@pytest.mark.parametrize("tools", [False, True])
def test_a_replay_asks_another_model_and_runs_tools_only_if_they_may(tmp_path: Path, tools: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        diary = "<<<DailyNoteStart>>>\nMaid: Nova\nDate: 2026.11.30\nContent: x\nTag: y\n<<<DailyNoteEnd>>>"
        asked: list[dict[str, Any]] = []

        def answer(request: Received) -> Answer:
            asked.append(request.json)
            if len(asked) == 2:
                return say(call_text("Echo", text="hello") + diary)
            return say("done")

        async with ScriptedUpstream(answer) as up, visiting(tmp_path, up.base_url) as visitor:
            await visitor.server.chat({"role": "system", "content": "{{VarX}}"}, "q", model="one", temperature=0.5)
            (row,) = await listed(visitor)
            body = {"model": "two", "tools": tools}
            reply = await visitor.api("POST", f"/panel/traces/{row['id']}/replay", body)
            assert reply.status_code == 200, reply.text
            new = reply.json()["id"]
            services = visitor.server.services
            await until(lambda: not len(services.running) and not services.background.tasks)
            document = (await visitor.api("GET", f"/panel/traces/{new}")).json()
            assert (document["model"], document["replay_of"], document["outcome"]) == ("two", row["id"], "success")
            assert asked[1] == {**asked[0], "model": "two"}
            assert len(asked) == (3 if tools else 2)
            calls = [call["tool"] for call in document["calls"]]
            assert ("Echo" in calls) is tools
            assert (tmp_path / "dailynote" / "Nova").exists() is tools
            assert [one["why"] for one in document["skipped"]] == ([] if tools else ["round limit"])

    run(main())


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["Traces=metadata"]
        async with (
            ScriptedUpstream(lambda _request: say("yes")) as up,
            visiting(tmp_path, up.base_url, config=config) as visitor,
        ):
            await visitor.server.chat("PRIVATE")
            answer = await visitor.api("GET", "/panel/traces")
            (row,) = answer.json()["traces"]
            assert answer.json()["detail"] == "metadata" and row["title"] == ""
            assert "PRIVATE" not in (await visitor.api("GET", f"/panel/traces/{row['id']}")).text
            for body in ({"model": "m"}, {"model": " "}, {}, {"model": "m", "tools": "yes"}, []):
                answer = await visitor.api("POST", f"/panel/traces/{row['id']}/replay", body)
                assert answer.status_code == 400 and " / " in answer.json()["error"]
            assert (await visitor.api("POST", "/panel/traces/nothing/replay", {"model": "m"})).status_code == 404

    run(main())
