"""Preprocessors of every stage around the expansion of the prompt (spec 3.1)."""

import logging
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import Body, PhaseDone, PromptContext, Stage
from tests.server import ECHO, call_text, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


class Adds:
    """Adds a message that tells what it saw."""

    def __init__(self, stage: Stage, log: list[str]) -> None:
        self.name = f"Adds {stage.value}"
        self.stage = stage
        self._log = log

    async def process(self, body: Body, context: PromptContext) -> Body:
        assert context.messages == body["messages"]
        self._log.append(f"{self.stage.value} {context.round} {context.model}")
        added = {"role": "system", "content": f"{self.stage.value} {{{{VarX}}}}"}
        return {**body, "messages": [*body["messages"], added]}


class Fails:
    """Fails in one of the ways in which foreign code does."""

    name = "Fails"

    def __init__(self, stage: Stage, way: str) -> None:
        self.stage = stage
        self._way = way

    async def process(self, body: Body, context: PromptContext) -> Any:
        if self._way == "raises":
            raise KeyError("inside")
        return {"none": None, "no messages": {"model": "x"}, "bad messages": {"messages": ["x"]}, "text": "oops"}[
            self._way
        ]


@MODES
def test_each_stage_runs_in_its_place_and_the_last_one_before_every_round(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        log: list[str] = []
        stages = (Stage.BEFORE_EACH_ROUND, Stage.AFTER, Stage.MEDIA, Stage.BEFORE_VARIABLES)
        script = [say(call_text("Echo")), say("end")]
        async with (
            ScriptedUpstream(script) as up,
            running(
                tmp_path,
                up.base_url,
                config=["VarX=expanded"],
                preprocessors=[Adds(stage, log) for stage in stages],
            ) as server,
        ):
            await server.chat("x", stream=stream)
            assert log == [
                "before_variables 1 m",
                "media 1 m",
                "after 1 m",
                "before_each_round 1 m",
                "before_each_round 2 m",
            ]
            first = [message["content"] for message in up.bodies[0]["messages"]]
            assert first == [
                "x",
                "before_variables expanded",  # what is added before the variables is part of the prompt
                "media {{VarX}}",
                "after {{VarX}}",
                "before_each_round {{VarX}}",
            ]
            second = [message["role"] for message in up.bodies[1]["messages"]]
            assert second == ["user", "system", "system", "system", "system", "assistant", "user", "system"]
            phases = [event for event in server.events if isinstance(event, PhaseDone)]
            added = [(e.name, e.pieces_after - e.pieces_before) for e in phases if e.name.startswith("Adds")]
            assert [change for _, change in added] == [1] * 5

    run(main())


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("way", ["raises", "none", "no messages", "bad messages", "text"])
def test_one_that_fails_is_skipped_logged_by_name_and_stops_nothing(
    tmp_path: Path, stage: Stage, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        log: list[str] = []
        preprocessors = [Fails(stage, way), Adds(stage, log)]
        async with (
            ScriptedUpstream([say("ok")]) as up,
            running(tmp_path, up.base_url, preprocessors=preprocessors) as server,
        ):
            response = await server.chat("x")
            assert response.json()["choices"][0]["message"]["content"] == "ok"
            assert len(log) == 1
            assert up.bodies[0]["messages"][0]["content"] == "x"

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "preprocessor Fails failed" in caplog.text


@pytest.mark.parametrize(
    ("profile", "added", "phases"),
    [
        ("baseline", "after foo", ["data", "detectors", "after_detectors", "Adds after"]),
        ("head", "after bar", ["data", "after_detectors", "Adds after", "detectors"]),
    ],
)
@MODES
def test_detectors_run_before_or_after_the_preprocessors_as_the_profile_says(
    tmp_path: Path, stream: bool, profile: str, added: str, phases: list[str]
) -> None:
    class AddsFoo(Adds):
        async def process(self, body: Body, context: PromptContext) -> Body:
            return {**body, "messages": [*body["messages"], {"role": "system", "content": f"{self.stage.value} foo"}]}

    async def main() -> None:
        config = [f"compat_profile={profile}", "Detector1=foo", "Detector_Output1=bar"]
        parts = [{"type": "text", "text": "foo"}, {"type": "image_url", "image_url": {"url": "foo"}}]
        async with (
            ScriptedUpstream([say("ok")]) as up,
            running(tmp_path, up.base_url, config=config, preprocessors=[AddsFoo(Stage.AFTER, [])]) as server,
        ):
            await server.chat({"role": "system", "content": parts}, "foo", stream=stream)
            assert [message["content"] for message in up.bodies[0]["messages"]] == [
                [{**parts[0], "text": "bar"}, parts[1]],
                "foo",
                added,
            ]
            told = [event.name for event in server.events if isinstance(event, PhaseDone)]
            assert [name for name in told if name in phases] == phases

    run(main())


def test_without_media_wanted_the_media_stage_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        log: list[str] = []
        async with (
            ScriptedUpstream([say("ok")]) as up,
            running(tmp_path, up.base_url, preprocessors=[Adds(Stage.MEDIA, log)]) as server,
        ):
            await server.chat({"role": "system", "content": "{{ShowBase64}}"}, "x")
            assert log == []
            assert len(up.bodies[0]["messages"]) == 2

    run(main())
