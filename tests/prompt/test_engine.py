from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from app.errors import BadRequestError, PromptLimitError
from app.extend import Message, Piece, Trust
from app.prompt.engine import PromptEngine
from app.prompt.limits import PromptLimits
from app.prompt.settings import DetectorRule, PromptSettings
from tests.prompt.installation import NOW, Home, static_source

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,e3tEYXRlfX0="}, "detail": "{{Date}}"}


def test_text_parts_are_expanded_and_a_list_stays_a_list(home: Home) -> None:
    content: list[Any] = [
        {"type": "text", "text": "{{Date}}", "cache_control": {"type": "ephemeral"}},
        IMAGE,
        {"type": "text", "text": 5},
        {"type": "text"},
        {"type": "input_text", "text": "{{Date}}"},
        "{{Date}}",
        None,
        {"type": "text", "text": ""},
    ]
    message = {"role": "system", "content": content, "name": "{{Date}}", "x-extra": {"a": [1]}}
    (result,) = home.expand([message]).messages
    assert result == {
        **message,
        "content": [{"type": "text", "text": "2026/1/5", "cache_control": {"type": "ephemeral"}}, *content[1:]],
    }


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "system"},
        {"role": "system", "content": ""},
        {"role": "system", "content": []},
        {"role": "system", "content": {"text": "{{Date}}"}},
        {"role": "system", "content": 5},
        {"content": "{{Date}}"},
        {"role": ["system"], "content": "{{Date}}"},
        {},
    ],
)
def test_messages_without_expandable_text_pass_unchanged(home: Home, message: Message) -> None:
    assert home.expand([message]).messages == [message]


def test_the_input_is_not_changed(home: Home) -> None:
    messages: list[Message] = [
        {"role": "system", "content": "{{Date}}"},
        {"role": "user", "content": [{"type": "text", "text": "[系统]{{ShowBase64}}{{SarPrompt1}}"}, IMAGE]},
    ]
    before = copy.deepcopy(messages)
    expanded = home.expand(messages)
    assert messages == before
    assert expanded.messages[0] is not messages[0]
    assert expanded.messages[1]["content"][0]["text"] == "[系统]"


@pytest.mark.parametrize("messages", [["text"], [None], [[]]])
def test_messages_that_are_no_objects_are_a_bad_request(home: Home, messages: list[Any]) -> None:
    with pytest.raises(BadRequestError, match=r"messages\[0\] is not an object"):
        home.expand(messages)


def test_developer_counts_as_system(home: Home) -> None:
    settings = PromptSettings(variables=(("VarA", "a"),), detectors=(DetectorRule("Detector1", "x", "y"),))
    assert home.text("{{VarA}} {{Date}} x", settings, role="developer") == "a 2026/1/5 y"


def test_each_text_part_of_a_user_message_is_judged_by_its_own_beginning(home: Home) -> None:
    home.agents(Nova="nova")
    parts = [{"type": "text", "text": "{{Nova}}"}, {"type": "text", "text": "[系统提示:]{{Nova}}"}]
    (message,) = home.expand([{"role": "user", "content": parts}]).messages
    assert [part["text"] for part in message["content"]] == ["{{Nova}}", "[系统提示:]nova"]


@pytest.mark.parametrize(
    ("messages", "left", "media"),
    [
        ([("user", "a{{ShowBase64}}b")], ["ab"], False),
        ([("developer", "{{ShowBase64}}")], [""], False),
        ([("assistant", "{{ShowBase64}}"), ("tool", "{{ShowBase64}}")], ["{{ShowBase64}}", "{{ShowBase64}}"], True),
        ([("system", "x"), ("user", "{{showbase64}}")], ["x", "{{showbase64}}"], True),
    ],
)
def test_the_media_switch_works_in_user_and_system_text(
    home: Home, messages: list[tuple[str, str]], left: list[str], media: bool
) -> None:
    expanded = home.expand([{"role": role, "content": text} for role, text in messages])
    assert [message["content"] for message in expanded.messages] == left
    assert expanded.media is media


def test_the_media_switch_is_taken_out_of_all_text_parts_of_its_message(home: Home) -> None:
    parts = [{"type": "text", "text": "{{ShowBase64}}a"}, IMAGE, {"type": "text", "text": "b{{ShowBase64}}"}]
    expanded = home.expand([{"role": "user", "content": parts}])
    assert expanded.messages[0]["content"] == [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]
    assert not expanded.media


def test_origins_say_who_put_in_which_part(home: Home) -> None:
    home.agents(Nova="I am Nova. {{VarA}} {{VarF}}")
    home.write("TVStxt/f.txt", "file")
    home.write("dailynote/X/a.txt", "diary")
    settings = PromptSettings(
        variables=(("VarA", "a"), ("VarF", "f.txt")), detectors=(DetectorRule("Detector1", "y!", "z"),)
    )
    messages = [
        {"role": "user", "content": None},
        {"role": "system", "content": [IMAGE, {"type": "text", "text": "<{{Nova}} {{X日记本}}! {{Date}}>"}]},
    ]
    expanded = home.expand(messages, settings)
    assert expanded.origins[0] == ()
    (origin,) = expanded.origins[1]
    assert origin.part == 1
    assert origin.pieces == (
        Piece("<", "message", Trust.MESSAGE),
        Piece("I am Nova. ", "agent:Nova", Trust.OPERATOR),
        Piece("a", "VarA", Trust.OPERATOR),
        Piece(" ", "agent:Nova", Trust.OPERATOR),
        Piece("file", "TVStxt:f.txt", Trust.OPERATOR),
        Piece(" ", "message", Trust.MESSAGE),
        Piece("diar", "diary:X", Trust.DATA),
        Piece("z", "Detector1", Trust.OPERATOR),
        Piece(" ", "message", Trust.MESSAGE),
        Piece("2026/1/5", "Date", Trust.OPERATOR),
        Piece(">", "message", Trust.MESSAGE),
    )
    assert "".join(piece.text for piece in origin.pieces) == expanded.messages[1]["content"][1]["text"]


def test_phases_are_reported_in_order_with_their_piece_counts(home: Home) -> None:
    phases: list[tuple[str, int, int]] = []
    home.expand(
        [{"role": "system", "content": "a {{Date}} {{S}}"}, {"role": "user", "content": "b"}],
        PromptSettings(super_detectors=(DetectorRule("SuperDetector1", "b", "c"),)),
        sources=[static_source(S="s")],
        publish=lambda name, before, after: phases.append((name, before, after)),
    )
    assert phases == [("operator_text", 2, 4), ("data", 4, 5), ("detectors", 5, 5), ("after_detectors", 5, 5)]


def test_detectors_see_data_and_everything_else_that_is_finished(home: Home) -> None:
    home.write("dailynote/X/a.txt", "bad word")
    settings = PromptSettings(detectors=(DetectorRule("Detector1", "bad", "good"),), variables=(("VarA", "ba"),))
    assert home.text("{{X日记本}} {{VarA}}d", settings) == "good word good"


@pytest.mark.parametrize(("pattern", "output"), [("", "x"), ("a", ""), ("", "")])
def test_detectors_without_pattern_or_output_have_no_effect(home: Home, pattern: str, output: str) -> None:
    rule = DetectorRule("Detector1", pattern, output)
    assert home.text("aa", PromptSettings(detectors=(rule,), super_detectors=(rule,))) == "aa"


def test_detector_outputs_are_literal_and_not_matched_by_their_own_rule(home: Home) -> None:
    rule = DetectorRule("Detector1", "a", "$&aa{{Date}}")
    assert home.text("a.", PromptSettings(detectors=(rule,))) == "$&aa{{Date}}."


def test_detectors_that_multiply_are_stopped_and_named(home: Home) -> None:
    rules = tuple(DetectorRule(f"Detector{number}", "a", "a" * 10) for number in range(9))
    with pytest.raises(PromptLimitError, match="'Detector"):
        home.text("a", PromptSettings(detectors=rules))


def test_limits_count_over_the_whole_conversation(home: Home) -> None:
    settings = PromptSettings(variables=(("VarA", "x" * 60),), limits=PromptLimits(characters=100))
    message = {"role": "system", "content": "{{VarA}}"}
    assert home.expand([message], settings).messages[0]["content"] == "x" * 60
    with pytest.raises(PromptLimitError, match="'VarA'"):
        home.expand([message, message], settings)


def test_many_requests_at_a_time_do_not_disturb_each_other(home: Home) -> None:
    home.agents(Nova="I am {{VarA}} for {{SarPrompt1}}")
    engine = PromptEngine(PromptSettings(variables=(("VarA", "a"),)), home.book, home.files, dict, (), lambda: NOW)

    async def scenario() -> list[str]:
        requests = [engine.expand([{"role": "system", "content": f"{n} {{{{Nova}}}}"}], f"m{n}") for n in range(50)]
        return [expanded.messages[0]["content"] for expanded in await asyncio.gather(*requests)]

    assert asyncio.run(scenario()) == [f"{number} I am a for " for number in range(50)]


HOSTILE = [
    "{{" * 50_000,
    "}}" * 50_000,
    "<<" * 50_000,
    "{{" + "a" * 100_000,
    "{{a" * 50_000,
    "<<Var" * 30_000,
    "{{" + "日记本" * 30_000,
    "{{VCP" * 30_000,
    "{{agent:" * 20_000 + "}}",
    "{" * 100_000 + "Date" + "}" * 100_000,
    "\x00\u2028\ud800 {{\u202eDate}}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("any_order", [False, True])
def test_unfinished_and_repeated_markers_stay_as_they_are(home: Home, text: str, any_order: bool) -> None:
    home.agents(Nova="nova")
    settings = PromptSettings(variables=(("VarA", "a"),), resolve_variables_in_any_order=any_order)
    assert home.text(text, settings) == text.replace("{{Date}}", "2026/1/5")
