"""Numbers of what happens: from events alone, with labels of a limited number (D35)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from app import __version__
from app.extend import (
    BackgroundResult,
    CallContext,
    CallFinished,
    CallFound,
    DiaryWritten,
    Door,
    ErrorKind,
    FirstToken,
    Outcome,
    Pushed,
    Reloaded,
    RoundFinished,
    RoundStarted,
    StaticRefreshed,
    TaskFinished,
    TaskScheduled,
    ToolCall,
    ToolResult,
    ToolSpec,
    TurnFinished,
    TurnStarted,
)
from app.observe import metrics as module
from app.observe.metrics import MAX_NAMES, MAX_TURNS, Metrics


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def numbers(metrics: Metrics) -> dict[str, float]:
    """Every line of the text, each checked to be one."""
    found = {}
    for line in metrics.text().decode().splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="[^"]*",?)*\})?) (\S+)', line)
            assert match, line
            found[match[1]] = float(match[2])
    return found


def finished(tool: str, outcome: Outcome = Outcome.SUCCESS, *, known: bool = True, **more: Any) -> CallFinished:
    call = ToolCall(id="c", tool=tool, arguments={}, texts={})
    spec = ToolSpec(name=tool, origin="local", display=tool) if known else None
    result = ToolResult(error_kind=more.pop("kind", None), message="x")
    context = CallContext(turn_id="t", door=more.pop("door", Door.STREAM))
    return CallFinished("t", call, context, spec, outcome, result, waited=0.02, ran=more.pop("ran", 0.2))


def test_a_turn_is_counted_and_timed() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.observe(TurnStarted("t", "made-up model", True, "9.9.9.9"))
    clock.now += 1
    metrics.observe(RoundStarted("t", 1))
    clock.now += 0.2
    metrics.observe(FirstToken("t", 1))
    clock.now += 3
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "other": "x"}
    metrics.observe(RoundFinished("t", 1, "stop", usage))
    for odd in (None, {}, {"prompt_tokens": "7"}, {"prompt_tokens": -1}, {"prompt_tokens": float("inf")}):
        metrics.observe(RoundFinished("t", 2, "stop", odd))
    clock.now += 1
    metrics.observe(TurnFinished("t", Outcome.SUCCESS, 1, 0, model="made-up model"))
    found = numbers(metrics)
    assert found['vcp_turns_total{outcome="success",stream="true"}'] == 1
    assert found['vcp_turn_seconds_sum{stream="true"}'] == pytest.approx(5.2)
    assert found["vcp_rounds_total"] == 1
    assert found["vcp_first_token_seconds_sum"] == pytest.approx(0.2)
    assert found["vcp_round_seconds_count"] == 6
    assert found['vcp_tokens_total{kind="prompt_tokens"}'] == 7
    assert found['vcp_tokens_total{kind="completion_tokens"}'] == 5
    assert "made-up" not in metrics.text().decode() and "9.9.9.9" not in metrics.text().decode()
    assert found[f'vcp_info{{version="{__version__}"}}'] == 1


def test_a_time_counts_in_its_bucket_and_in_all_longer_ones() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    for number, seconds in enumerate((0.05, 0.06, 7.0, 5000.0)):
        metrics.observe(TurnStarted(f"{number}", "m", False, None))
        clock.now = 100 + 10_000 * number
        metrics.observe(RoundStarted(f"{number}", 1))
        clock.now += seconds
        metrics.observe(RoundFinished(f"{number}", 1, "stop", None))
    found = numbers(metrics)
    counts = {end: found[f'vcp_round_seconds_bucket{{le="{end}"}}'] for end in ("0.05", "0.1", "5.0", "10.0", "+Inf")}
    assert counts == {"0.05": 1, "0.1": 2, "5.0": 2, "10.0": 3, "+Inf": 4}
    assert found["vcp_round_seconds_count"] == 4
    assert found["vcp_round_seconds_sum"] == pytest.approx(5007.11)


def test_calls_are_counted_by_tool_door_and_outcome() -> None:
    metrics = Metrics(Clock())
    metrics.observe(finished("Sci"))
    metrics.observe(finished("Sci", Outcome.ERROR, kind=ErrorKind.TIMEOUT, door=Door.HUMAN_TOOL, ran=20.0))
    metrics.observe(finished("Made up by a model", Outcome.ERROR, known=False, kind=ErrorKind.UNKNOWN_TOOL))
    metrics.observe(CallFound("t", "c", "Sci", "round limit"))
    metrics.observe(CallFound("t", "c", "Sci"))
    found = numbers(metrics)
    assert found['vcp_tool_calls_total{outcome="success",tool="Sci"}'] == 1
    assert found['vcp_tool_calls_total{outcome="error",tool="Sci"}'] == 1
    assert found['vcp_tool_calls_total{outcome="error",tool="unknown"}'] == 1
    assert found['vcp_tool_calls_by_door_total{door="human_tool",outcome="error"}'] == 1
    assert found['vcp_tool_errors_total{kind="timeout"}'] == 1
    assert found['vcp_tool_call_seconds_sum{tool="Sci"}'] == pytest.approx(20.2)
    assert found["vcp_tool_wait_seconds_count"] == 3
    assert found["vcp_tool_calls_skipped_total"] == 1
    assert "Made up" not in metrics.text().decode()


def test_all_that_happens_beside_turns_is_counted() -> None:
    metrics = Metrics(Clock())
    for event in (
        DiaryWritten("t", "m", "d", "f", "ok"),
        BackgroundResult("Video", "7", {}, None),
        TaskScheduled("7", "Sci", 1.0),
        TaskFinished("7", "Sci", 1.0, None),
        TaskFinished("8", "Sci", 1.0, None, "failed"),
        StaticRefreshed("Weather"),
        StaticRefreshed("Weather", "no network"),
        Pushed("P", "kind", {}, None),
        Reloaded(("plugins",)),
        Reloaded((), ("broken",)),
    ):
        metrics.observe(event)
    found = numbers(metrics)
    assert found["vcp_diaries_written_total"] == 1
    assert found['vcp_background_results_total{plugin="Video"}'] == 1
    assert [found[f'vcp_scheduled_tasks_total{{state="{state}"}}'] for state in ("scheduled", "done", "failed")] == [
        1
    ] * 3
    assert found['vcp_static_refreshes_total{outcome="error",plugin="Weather"}'] == 1
    assert found["vcp_plugin_pushes_total"] == 1
    assert found['vcp_reloads_total{outcome="error"}'] == 1


def test_names_of_tools_and_plugins_are_limited_and_hostile_ones_stay_in_their_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = Metrics(Clock())
    for number in range(MAX_NAMES + 50):
        metrics.observe(finished(f"tool{number}"))
    metrics.observe(StaticRefreshed("one more"))
    tools = [name for name in numbers(metrics) if name.startswith("vcp_tool_calls_total")]
    assert len(tools) == MAX_NAMES + 1
    assert numbers(metrics)['vcp_tool_calls_total{outcome="success",tool="other"}'] == 50
    metrics = Metrics(Clock())
    metrics.observe(finished('a"} 1\nvcp_x 2\\'))
    assert "\nvcp_x" not in metrics.text().decode()


def test_a_tool_is_counted_under_its_own_name_however_its_call_was_written() -> None:
    metrics = Metrics(Clock())
    spec = ToolSpec(name="Novel", origin="local", display="Novel")
    for written in ("Novel", "Novel.Read", "novel_read", "attic#Novel"):
        metrics.observe(replace(finished(written), spec=spec))
    metrics.observe(finished("made up by a model", known=False))
    tools = {name: count for name, count in numbers(metrics).items() if name.startswith("vcp_tool_calls_total")}
    assert tools == {
        'vcp_tool_calls_total{outcome="success",tool="Novel"}': 4,
        'vcp_tool_calls_total{outcome="success",tool="unknown"}': 1,
    }


def test_turns_that_never_end_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TURNS", 3)
    assert MAX_TURNS > 3
    metrics = Metrics(Clock())
    for number in range(6):
        metrics.observe(TurnStarted(str(number), "m", False, None))
    for number in range(6):
        metrics.observe(FirstToken(str(number), 1))
        metrics.observe(TurnFinished(str(number), Outcome.CANCELLED, 1, 0))
    found = numbers(metrics)
    assert found['vcp_turns_total{outcome="cancelled",stream="unknown"}'] == 3
    assert found['vcp_turn_seconds_count{stream="false"}'] == 3


def test_states_are_read_when_they_are_asked_for() -> None:
    metrics = Metrics(Clock())
    state = {("a",): 1.0}
    metrics.watch("vcp_things", "Things.", lambda: state, labels=("kind",))
    metrics.watch("vcp_misses", "Misses.", lambda: 3, counts=True)
    state[("b",)] = 2.0
    found = numbers(metrics)
    assert (found['vcp_things{kind="a"}'], found['vcp_things{kind="b"}'], found["vcp_misses_total"]) == (1, 2, 3)
    assert found["process_resident_memory_bytes"] > 0
    assert found["process_open_fds"] > 0
    assert "process_cpu_seconds_total" in found


def test_two_servers_of_one_process_count_for_themselves() -> None:
    one, other = Metrics(Clock()), Metrics(Clock())
    one.observe(RoundStarted("t", 1))
    assert (numbers(one)["vcp_rounds_total"], numbers(other)["vcp_rounds_total"]) == (1, 0)


def test_a_name_with_half_a_character_does_not_spoil_the_whole_text() -> None:
    metrics = Metrics(Clock())
    metrics.observe(StaticRefreshed("half \ud800", ""))
    assert "half" in metrics.text().decode()
