"""The pages of traces: list, waterfall, prompt by source, replay; what anybody wrote stays text (part 7)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from app.demo.script import Hold, Received, Reply, say
from app.demo.scripted import ScriptedUpstream
from app.web.panel import prompt_view
from app.web.panel.prompt_view import after_view, before_view
from app.web.panel.waterfall import WIDTH, waterfall
from tests.observe.traces.making import chat, document_of, documents
from tests.server import ECHO, call_text, run, write_plugin
from tests.waiting import until
from tests.web.panel.visitor import HOSTILE, Visitor, visiting

MAX_BYTES = 300_000


async def newest(visitor: Visitor) -> str:
    rows = (await visitor.api("GET", "/panel/traces")).json()["traces"]
    id: str = rows[0]["id"]
    return id


def test_the_list_shows_requests_in_both_languages_and_says_what_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _request: say("yes")) as up, visiting(tmp_path, up.base_url) as visitor:
            empty = await visitor.page("/traces")
            assert "No traces yet" in empty and "Kept for 7 days and 256 MiB" in empty
            await visitor.server.chat("what is it?", model="big")
            page = await visitor.page("/traces")
            assert "what is it?" in page and ">big<" in page and ">success<" in page and "Delete all" in page
            chinese = await visitor.page("/traces", language="zh")
            assert "追踪" in chinese and "全部删除" in chinese and "成功" in chinese
            assert "No trace fits" in await visitor.page("/traces?outcome=error")
            assert "outcome is one of" in await visitor.page("/traces?outcome=odd", status=400)
            assert "there is no such trace" in await visitor.page("/trace/none", status=404)

    run(main())


def test_pages_lead_to_older_traces_and_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            made = [{**one, "started": time.time() - 60} for one in documents(60)]
            await asyncio.to_thread(visitor.server.services.traces.add, made)
            first = await visitor.page("/traces?outcome=success")
            (older,) = re.findall(r'rel="next" href="/AdminPanel(/traces\?[^"]+)"', first)
            assert "outcome=success" in older and "Newest" not in first
            second = await visitor.page(unescape(older))
            assert "Newest" in second and 'rel="next"' not in second and "turn-0" in second
            assert len(re.findall(r'href="/AdminPanel/trace/', first)) == 50

    run(main())


def test_a_trace_has_its_waterfall_calls_answers_prompt_and_report(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        (tmp_path / "Agent").mkdir()
        (tmp_path / "Agent" / "Nova.txt").write_text("You are Nova. {{VarRule}}", encoding="utf-8")
        (tmp_path / "agent_map.json").write_text(json.dumps({"Nova": "Nova.txt"}), encoding="utf-8")
        script = [say("first " + call_text("Echo", text="hello")), say("the end")]
        config = ["VarRule=Be kind."]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url, config=config) as visitor:
            await visitor.server.chat({"role": "system", "content": "{{Nova}} Now."}, "q", model="big", stream=True)
            id = await newest(visitor)
            page = await visitor.page(f"/trace/{id}")
            assert "Round 2" in page and 'class="piece-ok"' in page and "Expand templates" in page
            assert "the end" in page and "original_plugin_output" in page and "pid " in page
            assert 'id="report"' in page and "Trace report" in page and ' style="' not in page
            assert "轮次与回答" in await visitor.page(f"/trace/{id}", language="zh")
            after = await visitor.page(f"/trace/{id}/prompt")
            assert 'title="agent:Nova · operator">You are Nova. </span>' in after
            assert 'title="VarRule · operator">Be kind.</span>' in after and "Be kind." in after
            before = await visitor.page(f"/trace/{id}/prompt?side=before")
            assert "{{Nova}} Now." in before and "Be kind." not in before and "&#34;stream&#34;: true" in before
            curl = unescape(await visitor.page(f"/trace/{id}/curl"))
            assert "$KEY" in curl and '"content": "{{Nova}} Now."' in curl
            assert f":{visitor.server.services.port}/v1/chat/completions" in curl
            assert f"/AdminPanel/trace/{id}" in await visitor.page("/search?q=first%20echo")

    run(main())


def test_whatever_models_tools_and_clients_write_stays_text(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(HOSTILE + call_text("Echo", text=HOSTILE) + call_text(HOSTILE, x=HOSTILE)), say(HOSTILE)]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            await visitor.server.chat({"role": HOSTILE, "content": HOSTILE}, HOSTILE, model=HOSTILE, user=HOSTILE)
            id = await newest(visitor)
            for path in ("/traces", f"/trace/{id}", f"/trace/{id}/prompt", f"/trace/{id}/prompt?side=before",
                         f"/trace/{id}/waterfall", f"/trace/{id}/curl", "/search?q=onerror"):  # fmt: skip
                page = await visitor.page(path)
                assert "<img src=x" not in page and "<script>alert" not in page, path
                assert "onerror" in page or "waterfall" in path, path

    run(main())


def test_a_running_chat_is_shown_live_and_the_page_is_new_when_it_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        def held(request: Received) -> Reply:
            whole = say("slow").reply(request)
            return replace(whole, steps=(Hold("go"), *whole.steps))

        async with ScriptedUpstream([held]) as up, visiting(tmp_path, up.base_url) as visitor:
            asking = asyncio.create_task(visitor.server.chat("wait", model="big"))
            await up.held("go")
            running = await visitor.page("/traces/running")
            (id,) = re.findall(r"/AdminPanel/trace/([^\"]+)\"", running)
            assert "Running now" in running and id in await visitor.page("/traces")
            page = await visitor.page(f"/trace/{id}")
            assert 'hx-trigger="every 1s"' in page and "running" in page
            up.release("go")
            await asking
            answer = await visitor.client.get(f"/AdminPanel/trace/{id}/waterfall")
            assert answer.headers["hx-refresh"] == "true" and "every 1s" not in answer.text
            assert "Running now" not in await visitor.page("/traces/running")
            gone = await visitor.client.get("/AdminPanel/trace/none/waterfall")
            assert gone.status_code == 286 and not gone.content  # htmx asks no more

    run(main())


def test_a_replay_leads_to_its_own_trace_beside_the_original(tmp_path: Path) -> None:
    async def main() -> None:
        script = [say("answer of one"), say("answer of two")]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            await visitor.server.chat("q", model="one")
            id = await newest(visitor)
            answer = await visitor.post(f"/trace/{id}/replay", {"model": "two"})
            new = answer.headers["hx-redirect"]
            services = visitor.server.services
            await until(lambda: not services.background.tasks)
            page = await visitor.page(new.removeprefix("/AdminPanel"))
            assert "Beside the original" in page and "answer of one" in page and "answer of two" in page
            assert "Related traces" in await visitor.page(f"/trace/{id}")
            refused = await visitor.post(f"/trace/{id}/replay", {"model": ""})
            assert refused.status_code == 400 and "the name of a model is missing" in refused.text
            gone = await visitor.post(f"/trace/{id}/delete", {}, htmx=False)
            assert (gone.status_code, gone.headers["location"]) == (303, "/AdminPanel/traces")
            assert "Beside the original" not in await visitor.page(new.removeprefix("/AdminPanel"))
            assert (await visitor.post("/traces/delete", {})).status_code == 400
            await visitor.post("/traces/delete", {"all": "true"}, htmx=False)
            assert "No traces yet" in await visitor.page("/traces")

    run(main())


@pytest.mark.parametrize(("detail", "said"), [("metadata", "Only metadata is kept"), ("off", "Traces are off")])
def test_a_page_says_when_less_than_everything_is_kept(tmp_path: Path, detail: str, said: str) -> None:
    async def main() -> None:
        config = [f"Traces={detail}"]
        async with (
            ScriptedUpstream(lambda _request: say("PRIVATE answer")) as up,
            visiting(tmp_path, up.base_url, config=config) as visitor,
        ):
            await visitor.server.chat("PRIVATE question", model="big")
            page = await visitor.page("/traces")
            assert said in page and ("big" in page) is (detail == "metadata")
            if detail == "metadata":
                id = await newest(visitor)
                one = await visitor.page(f"/trace/{id}")
                assert "PRIVATE" not in one and "metadata only" in one and "Replay against" not in one
                assert "16 characters (not kept)" in await visitor.page(f"/trace/{id}/prompt")
                assert (await visitor.client.get(f"/AdminPanel/trace/{id}/curl")).status_code == 400

    run(main())


def test_a_huge_prompt_and_huge_results_make_no_huge_page(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path, "Echo", 'import sys, json\nprint(json.dumps({"status": "success", "result": "r" * 900000}))'
        )
        script = [say("".join(call_text("Echo", text="t" * 5000) for _ in range(8))), say("a" * 300_000)]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            messages = [{"role": "user", "content": "word " * 20_000} for _ in range(20)]
            await visitor.server.chat(*messages, model="big")
            id = await newest(visitor)
            for path in ("/traces", f"/trace/{id}", f"/trace/{id}/prompt", f"/trace/{id}/curl"):
                assert len((await visitor.page(path)).encode()) < MAX_BYTES, path
            assert "more characters are in the exported JSON" in await visitor.page(f"/trace/{id}/prompt")

    run(main())


def test_bars_lie_inside_of_the_drawing_in_the_order_of_their_beginning() -> None:
    fall = waterfall(document_of(*chat()))
    assert [bar.kind for bar in fall.bars] == ["phase", "round", "call"]
    assert [bar.label for bar in fall.bars] == ["operator_text", "1", "Echo"]
    for bar in fall.bars:
        for piece in bar.segments:
            assert piece.x >= 0 and piece.width > 0 and piece.x + piece.width <= WIDTH + 0.01
    round_, call = fall.bars[1:]
    assert [piece.kind for piece in round_.segments] == ["wait", "ask", "work"]
    assert [piece.kind for piece in call.segments] == ["wait", "ok"]
    assert [round(tick, 3) for tick in fall.ticks] == [0.0, 0.275, 0.55, 0.825, 1.1] and fall.left_out == 0


def test_the_sources_of_a_prompt_share_its_whole_width_and_unkept_texts_are_sizes() -> None:
    view = after_view(document_of(*chat())["prompt"])
    assert [(source.name, source.chars) for source in view.sources] == [
        ("agent:Nova", 8),
        ("recall:Nova", 6),
        ("message", 4),
    ]
    assert round(sum(source.width for source in view.sources)) == 1000
    assert [run.text for run in view.messages[0].runs] == ["You are ", "a note"]
    sizes = after_view(document_of(*chat(), full=False)["prompt"])
    assert [(run.source, run.chars, run.text) for run in sizes.messages[0].runs] == [
        ("agent:Nova", 8, None),
        ("recall:Nova", 6, None),
    ]
    assert before_view(document_of(*chat())["prompt"]).messages[1].runs[0].text == "how?"


def test_a_page_shows_a_limited_part_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_view, "MAX_TEXT", 10)
    view = after_view(document_of(*chat(question="x" * 25))["prompt"])
    assert [(run.text, run.chars) for run in view.messages[0].runs] == [("You are ", 8), ("a ", 6)]
    assert [one.hidden for one in view.messages] == [4, 15]
