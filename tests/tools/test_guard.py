"""The tool password (spec 4.5, 7.3; D30, B11, S7, S8)."""

from __future__ import annotations

import asyncio

import pytest

from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolSpec
from app.protocol.markers import PASSWORD_REFUSED
from app.tools.guard import PasswordGuard

CODE = "313213"


def passes(
    given: str | None,
    *,
    code: str | None = CODE,
    door: Door = Door.STREAM,
    archery: bool = False,
    everywhere: bool = True,
    spec: ToolSpec | None = None,
) -> bool:
    guard = PasswordGuard(lambda: code, everywhere=lambda: everywhere)
    call = ToolCall("c", "T", {}, archery=archery, password=given)
    refusal = asyncio.run(guard.check(spec, call, CallContext("t", door)))
    if refusal is None:
        return True
    assert (refusal.error_kind, refusal.message) == (ErrorKind.REFUSED, PASSWORD_REFUSED)
    return False


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (CODE, True),
        (f" {CODE}\n", True),
        (None, False),
        ("", False),
        ("313212", False),
        (CODE + "0", False),
        (CODE[:-1], False),
        ("３１３２１３", False),
        ("密码", False),
        ("\ud800", False),
    ],
)
def test_the_code_of_now_is_asked_for(given: str | None, right: bool) -> None:
    assert passes(given) is right
    assert passes(given, spec=ToolSpec("T", "local", "T")) is right


@pytest.mark.parametrize("given", [None, "", "None", "000000", CODE])
@pytest.mark.parametrize("code", [None, ""])
def test_a_code_that_cannot_be_read_refuses_every_call(given: str | None, code: str | None) -> None:
    assert not passes(given, code=code)


@pytest.mark.parametrize("door", list(Door))
@pytest.mark.parametrize("archery", [False, True])
def test_every_door_asks_but_those_of_diary_blocks_and_of_scheduled_calls(door: Door, archery: bool) -> None:
    assert passes(None, door=door, archery=archery) is (door in (Door.DIARY_BLOCK, Door.SCHEDULE))


def test_switched_off_it_asks_nobody() -> None:
    guard = PasswordGuard(lambda: CODE, enabled=lambda: False)
    assert asyncio.run(guard.check(None, ToolCall("c", "T", {}), CallContext("t", Door.STREAM))) is None


@pytest.mark.parametrize("door", list(Door))
@pytest.mark.parametrize("archery", [False, True])
def test_relaxed_it_asks_as_the_reference_did(door: Door, archery: bool) -> None:
    asked = door in (Door.STREAM, Door.NON_STREAM) and not archery
    assert passes(None, door=door, archery=archery, everywhere=False) is not asked
