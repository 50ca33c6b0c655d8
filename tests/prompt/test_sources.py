from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.errors import PromptLimitError
from app.extend import SYSTEM_NOTE, Filling, Found, Piece, PromptContext, Trust
from app.prompt.limits import PromptLimits
from app.prompt.scope import EVERY_ROLE
from app.prompt.settings import DetectorRule, PromptSettings
from tests.prompt.installation import Home, TableSource, async_source, emoji_source, recall_source, static_source


def test_a_source_is_asked_once_with_all_distinct_placeholders_of_the_conversation(home: Home) -> None:
    source = recall_source(公共="shared", 小克="own")
    messages = [
        {"role": "system", "content": "[[公共日记本]] {{VarR}}"},
        {"role": "user", "content": "[[小克日记本]]"},
        {"role": "developer", "content": [{"type": "text", "text": "[[公共日记本]]"}]},
    ]
    settings = PromptSettings(variables=(("VarR", "[[小克日记本]] [[无日记本:1.5]]"),))
    expanded = home.expand(messages, settings, sources=[source])
    assert source.asked == [
        (
            Found("[[公共日记本]]", ("公共", "")),
            Found("[[小克日记本]]", ("小克", "")),
            Found("[[无日记本:1.5]]", ("无", ":1.5")),
        )
    ]
    assert [message["content"] for message in expanded.messages] == [
        "shared own [[无日记本:1.5]]",
        "[[小克日记本]]",
        [{"type": "text", "text": "shared"}],
    ]


def test_a_source_sees_the_conversation_and_the_model(home: Home) -> None:
    source = recall_source(公共="x")
    messages = [{"role": "system", "content": "[[公共日记本]]"}, {"role": "user", "content": "hi{{ShowBase64}}"}]
    home.expand(messages, sources=[source], model="m-1")
    (context,) = source.contexts
    assert (context.model, context.round) == ("m-1", 1)
    assert list(context.messages) == [messages[0], {"role": "user", "content": "hi"}]


def test_sources_without_placeholders_are_not_asked(home: Home) -> None:
    source = static_source(A="a")
    home.text("nothing {{B}}", sources=[source])
    assert source.asked == []


def test_data_of_one_source_is_not_searched_by_another(home: Home) -> None:
    static = static_source(A="[[公共日记本]] {{猫表情包}} {{B}}", B="{{A}} {{VCP_ASYNC_RESULT::P::1}}")
    sources = [static, recall_source(公共="{{A}}"), emoji_source(猫="cat"), async_source(**{"1": "done"})]
    text = home.text("{{A}}|{{B}}|[[公共日记本]]|{{猫表情包}}|{{VCP_ASYNC_RESULT::P::1}}", sources=sources)
    assert text == ("[[公共日记本]] {{猫表情包}} {{B}}|{{A}} {{VCP_ASYNC_RESULT::P::1}}|{{A}}|cat|done")


def test_data_pieces_do_not_join_into_placeholders(home: Home) -> None:
    static = static_source(A="{{B", B="secret", C="")
    assert home.text("{{A}}}} {{{{C}}B}}", sources=[static]) == "{{B}} {{B}}"


def test_operator_text_of_a_source_is_no_data(home: Home) -> None:
    source = TableSource("presets", re.compile(r"\{\{Preset\}\}"), {"{{Preset}}": "p"}, trust=Trust.OPERATOR)
    expanded = home.expand([{"role": "system", "content": "{{Preset}}"}], sources=[source])
    assert expanded.origins[0][0].pieces == (Piece("p", "presets", Trust.OPERATOR),)


def test_sources_after_detectors_see_what_detectors_put_in_but_no_data(home: Home) -> None:
    settings = PromptSettings(
        detectors=(DetectorRule("Detector1", "RESULT_HERE", "{{VCP_ASYNC_RESULT::P::1}}"),),
        super_detectors=(DetectorRule("SuperDetector1", "secret", "***"),),
    )
    sources = [static_source(A="{{VCP_ASYNC_RESULT::P::1}}"), async_source(**{"1": "secret RESULT_HERE"})]
    assert home.text("RESULT_HERE {{A}}", settings, sources=sources) == (
        "secret RESULT_HERE {{VCP_ASYNC_RESULT::P::1}}"
    )


def test_roles_of_a_source_are_respected_and_developer_is_system(home: Home) -> None:
    source = TableSource("s", re.compile("@x"), {"@x": "y"}, roles=frozenset({"system", "tool"}))
    roles = ["system", "developer", "user", "assistant", "tool", "other", None]
    expanded = home.expand([{"role": role, "content": "@x"} for role in roles], sources=[source])
    assert [message["content"] for message in expanded.messages] == ["y", "y", "@x", "@x", "y", "@x", "@x"]


class Failing(TableSource):
    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        raise RuntimeError("no data today")


class Endless(TableSource):
    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        await asyncio.Event().wait()
        return {}


class CancelledInside(TableSource):
    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        raise asyncio.CancelledError


class Odd(TableSource):
    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Any:
        return {"{{S}}": 3, "unasked": "x"}


class Shapeless(TableSource):
    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Any:
        return None


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Failing, "'broken' failed"),
        (Endless, "'broken' gave no answer within 0 s"),
        (CancelledInside, "'broken' was cancelled from inside"),
        (Odd, "'broken' gave no text for {{S}}"),
        (Shapeless, "'broken' failed"),
    ],
)
def test_a_broken_source_leaves_its_placeholders_and_the_others_work(
    home: Home, kind: type[TableSource], complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    broken = kind("broken", re.compile(r"\{\{S\}\}"), {})
    settings = PromptSettings(limits=PromptLimits(source_seconds=0 if kind is Endless else 30))
    sources = [broken] if kind is Endless else [broken, static_source(A="a")]
    text = home.text("{{S}} {{A}}", settings, sources=sources)
    assert text == ("{{S}} {{A}}" if kind is Endless else "{{S}} a")
    assert complaint in caplog.text


def test_sources_are_asked_at_the_same_time(home: Home) -> None:
    meeting = asyncio.Event()

    class First(TableSource):
        async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
            await meeting.wait()
            return self.texts

    class Second(TableSource):
        async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
            meeting.set()
            return self.texts

    sources = [First("a", re.compile("@a"), {"@a": "1"}), Second("b", re.compile("@b"), {"@b": "2"})]
    assert home.text("@a @b", sources=sources) == "1 2"


def test_cancelling_the_request_cancels_its_sources(home: Home) -> None:
    seen: list[str] = []

    async def scenario() -> None:
        from app.prompt.engine import PromptEngine

        begun = asyncio.Event()

        class Waiting(TableSource):
            async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    seen.append("cancelled")
                return {}

        source = Waiting("w", re.compile("@w"), {})
        engine = PromptEngine(PromptSettings(), home.book, home.files, dict, [source])
        task = asyncio.create_task(engine.expand([{"role": "system", "content": "@w"}], "m"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert seen == ["cancelled"]


def test_too_many_different_placeholders_are_a_named_error(home: Home) -> None:
    text = "".join(f"{{{{{number}日记本}}}}" for number in range(11))
    assert "{{" not in home.text(text, PromptSettings(limits=PromptLimits(found=11)))
    with pytest.raises(
        PromptLimitError, match=r"'diary' 占位符超过 10 个 / more than 10 different 'diary' placeholders"
    ):
        home.text(text, PromptSettings(limits=PromptLimits(found=10)))


def test_data_that_is_too_long_is_a_named_error(home: Home) -> None:
    settings = PromptSettings(limits=PromptLimits(characters=100))
    with pytest.raises(PromptLimitError, match="'static'"):
        home.text("{{A}}" * 11, settings, sources=[static_source(A="x" * 10)])


def test_patterns_that_match_nothing_insert_nothing(home: Home) -> None:
    source = TableSource("empty", re.compile("x*"), {"": "boom", "xx": "y"}, roles=EVERY_ROLE)
    assert home.text("axxb", sources=[source]) == "ayb"


class NotingSource:
    """Gives another text for further places, and something for the last user message."""

    name = "noting"
    pattern = re.compile(r"\{\{Noted\}\}")
    roles = frozenset({"system", SYSTEM_NOTE})
    trust = Trust.DATA
    after_detectors = False
    seconds = 0.05
    slow = False

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str | Filling]:
        if self.slow:
            await asyncio.sleep(30)
        return {item.text: Filling("first", "again", "X", ({"type": "n"},)) for item in found}


def test_a_filling_has_a_text_for_the_first_place_and_one_for_the_others(home: Home) -> None:
    messages = [
        {"role": "system", "content": "{{Noted}} {{Noted}}"},
        {"role": "user", "content": "[系统] {{Noted}}"},
        {"role": "user", "content": "{{Noted}}"},
    ]
    expanded = home.expand(messages, sources=[NotingSource()])
    assert [message["content"] for message in expanded.messages] == ["first again", "[系统] again", "{{Noted}}"]
    assert expanded.attached == ({"type": "n"},)
    assert expanded.origins[0][0].pieces[0] == Piece("first", "noting:X", Trust.DATA)


def test_a_source_may_have_a_time_of_its_own(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    source = NotingSource()
    source.slow = True
    assert home.text("{{Noted}}", sources=[source]) == "{{Noted}}"
    assert [record.message for record in caplog.records] == ["placeholder source 'noting' gave no answer within 0.05 s"]
