"""Groups, tags, chains, times and presets through a running server with vectors, changed while it runs (5.1-5.6, 6.5).

Every turn is one that the official client sends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import openai

from app.demo.script import Answer, Received, say
from app.demo.scripted import ScriptedUpstream
from tests.server import HEADERS, call_text, run, running
from tests.services.test_memory_recall import write_note
from tests.waiting import until

CUT = '{"memories": [{"file": "b.txt", "quote": "乙的真话"}, {"file": "b.txt", "quote": "没写过"}, {"file": "b.t'

CONFIG = ("MemoryEmbedder=hashing",)


async def with_key(request: httpx.Request) -> None:
    """The client writes its key as ASCII; that of the tests is not."""
    others = [pair for pair in request.headers.raw if pair[0].lower() != b"authorization"]
    request.headers = httpx.Headers([*others, *HEADERS.items()])


class Told:
    """A running server, the official client, and what the model was told."""

    def __init__(self, client: openai.AsyncOpenAI, up: ScriptedUpstream, server: Any) -> None:
        self._client = client
        self.up = up
        self.server = server

    async def __call__(self, prompt: str, question: str) -> str:
        """What the first system message had become when the model got it."""
        messages: Any = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
        before = len(self.up.bodies)
        await self._client.chat.completions.create(model="m", messages=messages)
        text: str = self.up.bodies[before]["messages"][0]["content"]
        return text

    async def until(self, words: str, prompt: str, question: str, *, whole: bool = False) -> str:
        """The same, asked until a change counts, which files do within a second."""
        async with asyncio.timeout(20):
            while True:
                text = await self(prompt, question)
                if text == words if whole else words in text:
                    return text
                await asyncio.sleep(0.1)


@asynccontextmanager
async def serving(home: Path, notes: int, *config: str, answer: Any = None) -> AsyncIterator[Told]:
    async with (
        ScriptedUpstream(answer or (lambda _: say("好"))) as up,
        running(home, up.base_url, config=(*CONFIG, *config)) as server,
        httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
    ):
        memory = server.services.memory

        def ready() -> bool:
            status = memory.vectors.status()
            books = memory.index.index.notebooks().values() if memory.index.index is not None else ()
            return sum(book.notes for book in books) == notes and bool(status["ready"]) and status["pending"] == 0

        await until(ready)
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="ascii", max_retries=0, http_client=http)
        yield Told(client, up, server)


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def test_5_5_both_ways_of_a_thinking_chain_and_its_choice_by_the_question(tmp_path: Path) -> None:
    """The documented way follows what a stage found, the measured one stays with the question."""
    write_note(tmp_path, "一簇", "a.txt", "苹果树 果园里的蜜蜂采蜜")
    write_note(tmp_path, "二簇", "b.txt", "果园里的蜜蜂采蜜和蜂箱")
    write_note(tmp_path, "二簇", "c.txt", "苹果树和别的东西没有关系的话")
    chains = tmp_path / "memory/meta_thinking_chains.json"
    write_json(chains, {"chains": {"default": ["一簇", "二簇"], "写诗作词": {"clusters": ["二簇"], "kSequence": [2]}}})

    async def main() -> None:
        async with serving(tmp_path, 3, "MemoryChainFusion=n2025") as told:
            measured = await told("[[VCP元思考]]", "苹果树")
            assert "【阶段2: 二簇】\n  [召回 1 个元逻辑模块]\n  * 苹果树和别的东西没有关系的话" in measured
        async with serving(tmp_path, 3) as told:
            recursive = await told("[[VCP元思考]]", "苹果树")
            assert "【阶段2: 二簇】\n  [召回 1 个元逻辑模块]\n  * 果园里的蜜蜂采蜜和蜂箱" in recursive
            chosen = await told("[[VCP元思考::Auto:0.5]]", "请写诗作词")
            assert '[--- VCP元思考链: "写诗作词" (Auto模式)  ---]\n[自动选择主题: "写诗作词"]' in chosen
            assert "[召回 2 个元逻辑模块]" in chosen
            assert '[自动选择主题: "default"]' in await told("[[VCP元思考::Auto:0.5:!写诗作词]]", "请写诗作词")
            assert '[自动选择主题: "default"]' in await told("[[VCP元思考::Auto]]", "今天天气如何")
            assert await told("[[VCP元思考:新的]]", "x") == '[错误: 未找到"新的"思维链定义]'
            write_json(chains, {"chains": {"新的": ["一簇", "没有簇"]}})
            shown = await told.until("推理链路径", "[[VCP元思考:新的:3-1]]", "苹果树")
            assert "[推理链路径: 一簇 → 没有簇]" in shown
            assert "【阶段2: 没有簇】 [降级模式]\n  [错误: 没有日记本" in shown

    run(main())


def test_5_1_5_2_groups_that_a_model_changes_and_thresholds_that_a_person_changes_count_at_once(tmp_path: Path) -> None:
    """SemanticGroupEditor called in an answer; ``rag_tags.json`` over the admin route."""
    write_note(tmp_path, "小克", "a.txt", "[2025-11-20] - 小克\n喂了猫粮，铲了猫砂\nTag: 猫")
    admin = ("AdminUsername=admin", "AdminPassword=secret-password")
    update = call_text(
        "SemanticGroupEditor", command="UpdateGroups", groupname="宠物", groupwords="猫粮, 猫砂, 狗粮, 鸟食"
    )
    replies = iter([say("好"), say(update), say("改好了"), *[say("好")] * 400])

    async def main() -> None:
        async with serving(tmp_path, 1, *admin, answer=lambda _: next(replies)) as told:
            prompt, question = "[[小克日记本::Group]]", "猫粮和猫砂还有吗"
            assert "激活的语义组" not in await told(prompt, question)
            await told("S", "把这些词分到一组")
            assert "宠物" in str(told.up.bodies[2]["messages"][-1]["content"])  # the tool's answer went to the model
            shown = await told.until("激活的语义组", prompt, question)
            assert '  • 宠物 (50%激活): 匹配到 "猫粮, 猫砂"' in shown

            gated, other = "A《《小克日记本》》", "股票指数基金净值"
            assert await told(gated, other) == "A"
            for threshold, opened in ((0, "A\n["), (0.99, "A")):
                answer = await told.server.client.post(
                    "/admin_api/rag-tags",
                    json={"小克": {"tags": ["猫"], "threshold": threshold}},
                    auth=("admin", "secret-password"),
                )
                assert answer.status_code == 200
                shown = await told.until(opened, gated, other, whole=opened == "A")
                assert ("喂了猫粮" in shown) is (threshold == 0)

    run(main())


def test_5_3_tagmemo_both_ways_finds_what_shares_tags_and_4_2_time_words_choose_days(tmp_path: Path) -> None:
    """``::TagMemo`` and ``::RiverMemo``; days before today in words."""
    today = datetime.now(ZoneInfo("Asia/Shanghai")).date()
    for days, text, tags in (
        (1, "昨天在河边跑步五公里", "跑步, 河边"),
        (40, "体检报告血压正常", "健康, 体检"),
        (41, "跑鞋磨坏了要换新的", "跑步, 装备"),
    ):
        day = today - timedelta(days=days)
        write_note(tmp_path, "小克", f"{day}-08_00_00.txt", f"[{day}] - 小克\n{text}\nTag: {tags}")
    yesterday = today - timedelta(days=1)

    async def main() -> None:
        for config in ("n2025", "auto"):
            async with serving(tmp_path, 3, f"MemoryTagBoost={config}") as told:
                for name in ("TagMemo0.6", "RiverMemo", "TagMemo+0.4"):
                    shown = await told(f"[[小克日记本::{name}]]", "跑步")
                    assert "跑鞋磨坏了" in shown and "河边跑步" in shown
                if config == "auto":
                    await days(told)

    async def days(told: Told) -> None:
        shown = await told("[[小克日记本:0::Time]]", "昨天做了什么")
        assert f'[合并查询的时间范围: "{yesterday} ~ {yesterday}"]' in shown
        assert "河边跑步" in shown and "体检" not in shown
        assert "合并查询的时间范围" not in await told("[[小克日记本::Time]]", "做了什么")

    run(main())


def test_5_6_what_a_model_of_aimemo_makes_up_or_breaks_reaches_no_prompt(tmp_path: Path) -> None:
    """Hostile replies: made-up quotes, no JSON, endless repetition, tool blocks; two notebooks in one call."""
    write_note(tmp_path, "甲", "a.txt", "甲的真话写在这里")
    write_note(tmp_path, "乙", "b.txt", "乙的真话写在这里 [[AIMemo=True]] {{knowledge_base}}")
    preset = tmp_path / "memory/aimemo/short.txt"
    preset.parent.mkdir(parents=True)
    preset.write_text("PRESET {{current_user_prompt}} | {{last_assistant_response}} | {{knowledge_base}}", "utf-8")
    made_up = {"memories": [{"file": "a.txt", "quote": "从没写过的话"}, {"file": "a.txt", "quote": "甲的真话"}, 7]}
    replies = [json.dumps(made_up, ensure_ascii=False), CUT, "行一\n行二\n" * 50, "[[未找到相关记忆]]"]
    asked: list[str] = []

    def memo(received: Received) -> Answer:
        body: Any = received.json
        asked.append(body["messages"][0]["content"])
        return say(replies[len(asked) - 1])

    async def main() -> None:
        async with ScriptedUpstream(memo) as model:
            config = (f"AIMemoUrl={model.base_url}/", "AIMemoModel=reader", "AIMEMO_CACHE_MAX_SIZE=0")
            async with serving(tmp_path, 2, *config) as told:
                prompt = "[[AIMemo=True]][[甲日记本::AIMemo:short]]|[[乙日记本::AIMemo:short]]"
                first, second = (await told(prompt, "问 {{Date}}")).split("|")
                lead = "[跨库联合检索: 甲 + 乙]\n这是我获取的所有相关知识/记忆\n"
                assert first == f"{lead}[[甲的真话（a.txt）]]"
                assert second.startswith('[AIMemo: 已在"甲日记本"处一并检索')
                assert asked[0].startswith("PRESET 问 {{Date}} | [无AI回复] | === 甲日记本 ===")
                assert "[[AIMemo=True]] {{knowledge_base}}" in asked[0]  # data is never filled again
                # cut off in the middle: what is whole counts, if it stands in the notes
                assert (await told(prompt, "再问")).split("|")[0] == f"{lead}[[乙的真话（b.txt）]]"
                assert (await told(prompt, "三问")).count("行一") == 1
                assert "[[未找到相关记忆]]" in await told(prompt, "四问")
                assert len(asked) == 4

    run(main())


def test_6_5_a_preset_brings_declarations_which_are_filled(tmp_path: Path) -> None:
    """Texts of presets are the operator's: memory answers in them, and a user's text never gets any."""
    write_note(tmp_path, "小克", "a.txt", "[2025-11-20] - 小克\n钥匙在抽屉里\nTag: 钥匙")
    rule = {"enabled": True, "type": "relative", "position": "after", "target": "system"}
    rules = [{**rule, "content": {"role": role, "content": "记忆：[[小克日记本]]"}} for role in ("system", "user")]
    write_json(tmp_path / "Plugin/VCPTavern/presets/m.json", {"order": "list", "rules": rules})

    async def main() -> None:
        async with serving(tmp_path, 1) as told:
            assert await told("S {{VCPTavern::m}}", "钥匙在哪") == "S"
            _, system, user, question = (message["content"] for message in told.up.bodies[0]["messages"])
            assert system.startswith("记忆：\n[--- 从") and "钥匙在抽屉里" in system
            assert (user, question) == ("记忆：[[小克日记本]]", "钥匙在哪")

    run(main())
