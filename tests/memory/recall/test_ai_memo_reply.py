"""What AIMemo makes of replies (memory.md 5.6)."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.memory.recall.ai_memo_reply import blocks_of, merged, without_repeated_tail
from tests.growth import grows_in_proportion

CORPUS = "=== 甲日记本 === a.txt\n今天天气很好。\n我们去了 公园！"


def reply(*memories: object) -> str:
    return json.dumps({"memories": list(memories)}, ensure_ascii=False)


def test_quotes_that_stand_in_the_corpus_count_and_made_up_ones_do_not() -> None:
    told = reply(
        {"file": "a.txt", "quote": "今天天气很好。 我们去了公园！"},
        {"file": "a.txt", "quote": "我们去了月球"},
        {"quote": ""},
        3,
    )
    assert blocks_of(told, CORPUS) == ("今天天气很好。 我们去了公园！（a.txt）",)
    assert blocks_of(f"```json\n{told}\n```", CORPUS) == blocks_of(told, CORPUS)


def test_the_contract_of_the_reference_is_understood() -> None:
    assert blocks_of("这是我获取的所有相关知识/记忆\n[[一]]\n[[二\n三]]", "") == ("一", "二\n三")
    assert blocks_of("嗯 [[一]] 完", "") == ("一",)
    assert blocks_of("只有一句", "") == ("只有一句",)


def test_negative_answers_are_no_blocks() -> None:
    for negative in (
        "[[未找到相关记忆]]",
        "[[知识库为空]]",
        "",
        "这是我获取的所有相关知识/记忆 [[未找到相关记忆]]",
        reply(),
    ):
        assert blocks_of(negative, CORPUS) == ()


def test_batches_are_merged_with_one_lead_and_without_repeats() -> None:
    assert merged([("一", "二"), (), ("二", "三")]) == "这是我获取的所有相关知识/记忆\n[[一]]\n[[二]]\n[[三]]"
    assert merged([(), ()]) == "[[未找到相关记忆]]"
    assert merged([], empty_corpus=True) == "[[知识库为空]]"


def test_a_tail_that_repeats_itself_is_cut_after_its_first_run() -> None:
    head = [f"line {number}" for number in range(6)]
    assert without_repeated_tail("\n".join([*head, *["a", "b"] * 5])) == "\n".join([*head, "a", "b"])
    assert without_repeated_tail("\n".join(["a", "b"] * 2)) == "a\nb\na\nb"  # under ten lines
    plain = "\n".join(str(number) for number in range(30))
    assert without_repeated_tail(plain) == plain


@given(st.lists(st.sampled_from("ab"), min_size=10, max_size=40))
def test_the_smallest_repeated_unit_is_found(lines: list[str]) -> None:
    expected = next((u for u in range(2, len(lines) // 2 + 1) if lines[-u:] == lines[-2 * u : -u]), 0)
    cut = without_repeated_tail("\n".join(lines)).split("\n")
    assert (len(cut) < len(lines)) == bool(expected)


@given(st.text(alphabet='[]{}"memories:, \n未找到', max_size=80))
def test_no_reply_raises(text: str) -> None:
    blocks_of(text, CORPUS)


def test_hostile_replies_take_linear_time() -> None:
    for unit in ("a\n", "[[", '{"memories":', "[", "{"):
        assert grows_in_proportion(lambda size, unit=unit: blocks_of(unit * (size // len(unit)), CORPUS), 12_500)
