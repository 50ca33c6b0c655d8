"""AIMemo over real files, with a model that the tests play (memory.md 5.6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.memory.ranking.requests import RecallQuery
from app.memory.recall.ai_memo import AiMemo, AiMemoAnswer, AiMemoRules, filled
from app.memory.recall.cache import AnswerCache
from app.prompt.diaries import Notebooks

QUERY = RecallQuery("公园 {{knowledge_base}}", "", datetime(2026, 1, 5, 10, 0, tzinfo=UTC))


class Model:
    """Plays the model: quotes the first body line of each file of its corpus."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.running = 0
        self.most = 0
        self.fails: Callable[[str], bool] = lambda prompt: False

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
        finally:
            self.running -= 1
        if self.fails(prompt):
            raise TimeoutError
        lines = prompt.split("\n")
        files = [(line[4:], lines[index + 1]) for index, line in enumerate(lines) if line.startswith("文件: ")]
        return json.dumps({"memories": [{"file": file, "quote": quote} for file, quote in files]})


def memo(home: Path, model: Model, *, at_once: int = 5, tokens: int = 60_000, prompt: str = "") -> AiMemo:
    cache: AnswerCache[AiMemoAnswer] = AnswerCache(lambda: 50, lambda: 60, lambda: 0.0)
    rules = AiMemoRules(True, at_once, tokens, prompt)
    return AiMemo(model, lambda: Notebooks(home / "dailynote", 100_000), home, lambda: rules, cache)


def write(home: Path, notebook: str, **files: str) -> None:
    folder = home / "dailynote" / notebook
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def test_one_call_answers_for_all_notebooks(tmp_path: Path) -> None:
    write(tmp_path, "甲", a="去了公园 $& \\1", b="读书")
    write(tmp_path, "乙", c="{{current_user_prompt}}")
    model = Model()
    answer = asyncio.run(memo(tmp_path, model).answer(("甲", "乙"), QUERY, "", 1))
    assert answer.text == (
        "[跨库联合检索: 甲 + 乙]\n这是我获取的所有相关知识/记忆\n[[去了公园 $& \\1（a.txt）]]\n[[读书（b.txt）]]\n"
        "[[{{current_user_prompt}}（c.txt）]]"
    )
    assert (answer.files, answer.batches, len(model.prompts)) == (3, 1, 1)


def test_values_are_never_filled_again() -> None:
    assert filled("{{Date}}|{{Time}}|{{x}}", {"Date": "{{Time}}", "Time": "\\1"}) == "{{Time}}|\\1|{{x}}"


def test_large_notebooks_are_read_in_batches_with_a_bound_on_calls_at_a_time(tmp_path: Path) -> None:
    write(tmp_path, "甲", **{f"f{number:02}": f"第{number}天" + "好" * 700 for number in range(9)})
    model = Model()
    answer = asyncio.run(memo(tmp_path, model, at_once=2, tokens=12_200).answer(("甲",), QUERY, "", 1))
    assert (answer.batches, answer.files, model.most) == (5, 9, 2)
    assert answer.text.count("[[第") == 9


def test_turns_that_are_cancelled_at_any_moment_give_their_places_to_the_next(tmp_path: Path) -> None:
    write(tmp_path, "甲", **{f"f{number}": "好" * 700 for number in range(6)})
    model = Model()

    async def main() -> None:
        recall = memo(tmp_path, model, at_once=1, tokens=11_000)
        for moments in range(12):
            before = len(model.prompts)
            turns = [asyncio.create_task(recall.answer(("甲",), QUERY, "", (moments, turn))) for turn in range(3)]
            while len(model.prompts) == before:
                await asyncio.sleep(0)
            for _ in range(moments):
                await asyncio.sleep(0)
            turns[0].cancel()
            await asyncio.sleep(0)
            turns[1].cancel()
            async with asyncio.timeout(20):
                answers = await asyncio.gather(*turns, return_exceptions=True)
            assert isinstance(answers[2], AiMemoAnswer)
            assert answers[2].batches == 6
        assert model.most == 1

    asyncio.run(main())


def test_a_batch_that_fails_costs_only_itself_and_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, "甲", a="一" * 600, b="二" * 600)
    model = Model()
    model.fails = lambda prompt: "一" * 600 in prompt
    recall = memo(tmp_path, model, tokens=11_000)
    answer = asyncio.run(recall.answer(("甲",), QUERY, "", 1))
    assert answer.failed == 1
    assert "二" in answer.text
    model.fails = lambda prompt: False
    assert "一" in asyncio.run(recall.answer(("甲",), QUERY, "", 1)).text
    model.fails = lambda prompt: True
    with pytest.raises(RuntimeError):
        asyncio.run(recall.answer(("甲",), QUERY, "", 2))


def test_answers_are_kept_until_a_notebook_changes(tmp_path: Path) -> None:
    write(tmp_path, "甲", a="一")
    model = Model()
    recall = memo(tmp_path, model)

    async def ask(generation: int) -> AiMemoAnswer:
        return await recall.answer(("甲",), QUERY, "", generation)

    assert not asyncio.run(ask(1)).from_cache
    assert asyncio.run(ask(1)).from_cache
    assert not asyncio.run(ask(2)).from_cache
    assert len(model.prompts) == 2


def test_presets_and_the_operators_prompt_win_and_stay_inside_their_folders(tmp_path: Path) -> None:
    write(tmp_path, "甲", a="一")
    (tmp_path / "memory/aimemo").mkdir(parents=True)
    (tmp_path / "memory/aimemo/short.txt").write_text("PRESET {{knowledge_base}}", encoding="utf-8")
    (tmp_path / "mine.txt").write_text("MINE {{knowledge_base}}", encoding="utf-8")
    (tmp_path.parent / "out.txt").write_text("OUT", encoding="utf-8")
    model = Model()
    recall = memo(tmp_path, model, prompt="mine.txt")
    for preset in ("short", "none", "../../mine", "../../../out", "a\0b"):
        asyncio.run(recall.answer(("甲",), QUERY, preset, preset))
    assert [prompt.split()[0] for prompt in model.prompts] == ["PRESET", "MINE", "MINE", "MINE", "MINE"]


def test_an_empty_notebook_is_said_to_be_empty_without_a_call(tmp_path: Path) -> None:
    model = Model()
    answer = asyncio.run(memo(tmp_path, model).answer(("无",), QUERY, "", 1))
    assert answer.text == "[跨库联合检索: 无]\n[[知识库为空]]"
    assert model.prompts == []
