"""Memory through a real server and its model API: tags, budgets, paths, zones, profiles (1.4, 11.17; D16, D36, D81)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.demo.script import Answer, Received, Reply, json_reply, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from app.extend import DiaryWritten
from app.protocol.token_estimate import estimated_tokens
from tests.server import Running, run, running
from tests.services.test_memory_recall import indexed, system_text, write_note
from tests.waiting import until

BLOCK = "好的。\n<<<DailyNoteStart>>>\nMaid: 小克\nDate: 2025.11.27\nContent: 今天在河边散步。\n<<<DailyNoteEnd>>>"
FRAME_TOKENS = 80
"""Most that the lines around the fragments of one declaration take."""


def notes_of(home: Path, notebook: str) -> list[Path]:
    return sorted((home / "dailynote" / notebook).glob("*.txt"))


async def explained(server: Running, declaration: str, question: str) -> dict[str, Any]:
    sent = {"declaration": declaration, "question": question}
    answer = await server.client.post("/v1/memory/explain", json=sent)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_1_4_a_note_of_a_reply_gets_its_tags_from_the_upstream_model_and_is_found_by_them(
    tmp_path: Path, stream: bool
) -> None:
    asked: list[Received] = []

    def answer(received: Received) -> Answer:
        if received.json["model"] != "tagger":
            return say(BLOCK)
        asked.append(received)
        return say("想好了\n[[tag：散步，河边、 散步]]")

    async def main() -> None:
        async with (
            ScriptedUpstream(answer) as up,
            running(tmp_path, up.base_url, config=("TagModel=tagger", "TagModelMaxTokens=777")) as server,
        ):
            await server.chat("你好", stream=stream)
            await until(lambda: [path for path in notes_of(tmp_path, "小克") if "Tag: " in path.read_text("utf-8")])
            (note,) = notes_of(tmp_path, "小克")
            assert note.read_text("utf-8").endswith("今天在河边散步。\nTag: 散步, 河边, 散步")
            (request,) = asked
            assert request.json["max_tokens"] == 777
            assert [message["role"] for message in request.json["messages"]] == ["system", "user"]
            assert request.json["messages"][1]["content"] == "今天在河边散步。"
            assert request.headers["authorization"] == "Bearer upstream-key"
            await indexed(server, 1)
            index = server.services.memory.index.index
            assert index is not None
            await until(lambda: index.notebooks()["小克"].generation and not server.services.memory.index.health())
            assert set(await index.tag_notes()) == {"散步", "河边"}

    run(main())


FAULTS = {
    "status": json_reply({"error": "no such model"}, 404),
    "no tags": say("没有标签"),
    "page": raw_reply(b"<html>"),
}


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_1_4_a_tag_model_that_fails_costs_the_tags_and_nothing_else(tmp_path: Path, answer: Reply | Answer) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda received: answer if received.json["model"] == "tagger" else say(BLOCK)) as up,
            running(tmp_path, up.base_url, config=("TagModel=tagger",)) as server,
        ):
            assert (await server.chat("你好")).json()["choices"][0]["message"]["content"].startswith("好的")
            await until(lambda: [event for event in server.events if isinstance(event, DiaryWritten)])
            (event,) = [event for event in server.events if isinstance(event, DiaryWritten)]
            assert "Stored without tags" in event.message
            (note,) = notes_of(tmp_path, "小克")
            assert note.read_text("utf-8") == "[2025-11-27] - 小克\n今天在河边散步。"
            await indexed(server, 1)
            told = await explained(server, "[[小克日记本]]", "河边散步")
            assert [hit["path"] for hit in told["declarations"][0]["hits"]] == [f"小克/{note.name}"]

    run(main())


def test_11_17_no_prompt_gets_more_fragments_than_its_declarations_and_the_request_may_have(tmp_path: Path) -> None:
    """Whatever the modifiers are: ranges of days, whole notes, what is near, several notebooks, thinking chains."""
    days = [f"2025-11-{day:02}" for day in range(1, 13)]
    for notebook in ("小克", "诺瓦", "前思维簇"):
        for number, day in enumerate(days):
            sentences = (2, 12, 40)[number % 3]
            body = "".join(f"今天在河边散步，看到第{number}棵银杏和{place}只白鹭。" for place in range(sentences))
            text = f"[{day}] - {notebook}\n{body}\nTag: 散步, 第{number}天"
            write_note(tmp_path, notebook, f"{day}-10_00_00.txt", text)
    write_note(tmp_path, "..", "meta_thinking_chains.json", '{"chains": {"default": {"clusters": ["前思维簇"]}}}')
    one, all_of_them = 500, 900
    config = (f"MemoryDeclarationTokens={one}", f"MemoryRequestTokens={all_of_them}", "MemoryBackgroundShare=1")
    modifiers = ("", ":20", ":20::Time", ":20::Time1", ":20::Expand", ":20::Associate", ":9::Time::Expand::Associate")
    prompts = [[f"[[小克日记本{more}]]"] for more in (*modifiers, ":20::TagMemo+", ":20::Group", ":20::BM25+")]
    prompts += [["[[小克|诺瓦日记本:20::Time0.5]]"], ["[[VCP元思考:default]]"], ["[[VCP元思考::Group]]"]]
    prompts += [["[[小克日记本:20]]", "[[诺瓦日记本:20::Expand]]", "[[小克日记本:9::Time]]", "[[VCP元思考:default]]"]]

    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: say("好")) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            await indexed(server, 3 * len(days))
            most = 0
            for request, declarations in enumerate(prompts):
                prompt = {"role": "system", "content": "".join(declarations)}
                await server.chat(prompt, "2025年11月我们在河边散步看到银杏了吗？")
                tokens = estimated_tokens(system_text(up, request))
                frames = FRAME_TOKENS * len(declarations)
                assert tokens <= min(one * len(declarations), all_of_them) + frames, declarations
                most = max(most, tokens)
            assert most > all_of_them / 2

    run(main())


def test_d36_paths_of_memory_ignore_case_in_their_fixed_parts_only(tmp_path: Path) -> None:
    write_note(tmp_path, "Nova", "A.txt", "a walk")

    async def main() -> None:
        config = ("AdminUsername=admin", "AdminPassword=secret-password")
        async with running(tmp_path, "http://127.0.0.1:9", config=config) as server:
            await indexed(server, 1)
            for path in ("/v1/memory/status", "/V1/Memory/STATUS", "/memory/status"):
                assert (await server.client.get(path)).json()["notebooks"] == {"Nova": {"notes": 1, "chunks": 1}}
            for path, status in (
                ("/admin_api/dailynotes/note/Nova/A.txt", 200),
                ("/ADMIN_API/DailyNotes/Note/Nova/A.txt", 200),
                ("/adminpanel/DAILYNOTE_API/note/Nova/A.txt", 200),
                ("/admin_api/dailynotes/note/Nova/a.txt", 404),
                ("/admin_api/dailynotes/note/nova/A.txt", 404),
            ):
                answer = await server.client.get(path, auth=("admin", "secret-password"))
                assert answer.status_code == status
                assert answer.json().get("content") == ("a walk" if status == 200 else None)

    run(main())


@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_d81_days_and_times_of_notes_are_those_of_default_timezone(tmp_path: Path, name: str) -> None:
    """Names of new files, and what today is in a question; the two zones never have the same day."""
    zone = ZoneInfo(name)

    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: say(BLOCK)) as up,
            running(tmp_path, up.base_url, config=(f"DEFAULT_TIMEZONE={name}",)) as server,
        ):
            before = datetime.now(zone)
            await server.chat("你好")
            await until(lambda: notes_of(tmp_path, "小克"))
            (note,) = notes_of(tmp_path, "小克")
            after = datetime.now(zone)
            assert f"{before:%H_%M_%S}" <= note.stem.removeprefix("2025-11-27-") <= f"{after:%H_%M_%S}" or (
                before.date() != after.date()
            )
            today = (await explained(server, "[[小克日记本::Time]]", "今天做了什么"))["question"]["timeRanges"]
            assert [span["first"][:10] for span in today] in ([str(before.date())], [str(after.date())])

    run(main())


@pytest.mark.parametrize("profile", ["baseline", "head"])
def test_d16_the_profile_changes_nothing_of_what_is_recalled(tmp_path: Path, profile: str) -> None:
    """Frames are the same in both, and detectors see fragments in both (D31)."""
    config = (f"compat_profile={profile}", "Detector1=河边", "Detector_Output1=江边")
    write_note(tmp_path, "小克", "2025-11-20-10_00_00.txt", "[2025-11-20] - 小克\n在河边散步。\nTag: 散步")

    async def main() -> None:
        async with (
            ScriptedUpstream([say("好")]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            await indexed(server, 1)
            await server.chat({"role": "system", "content": "[[小克日记本]]"}, "河边散步")
            assert system_text(up) == (
                '\n[--- 从"小克日记本"中检索到的相关记忆片段 ---]\n'
                "* [2025-11-20] - 小克\n在江边散步。\nTag: 散步\n[--- 记忆片段结束 ---]\n"
            )

    run(main())
