"""Which tasks a first answer names (D19)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.output import Answer, result_of_answer
from app.tools.task_ids import TaskIds, task_ids

SHOWN = "{{VCP_ASYNC_RESULT::P::%s}}"


def ids(result: Any, **more: Any) -> TaskIds:
    fields = {"status": "success", "result": result, **more}
    return task_ids("P", fields, result_of_answer("P", Answer(fields), None, "").structured)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (f"submitted, {SHOWN % 'a-1'} will fill", ("a-1",)),
        (f"{SHOWN % 'b'} and {SHOWN % 'a'} and {SHOWN % 'b'}", ("b", "a")),
        ({"content": [{"type": "text", "text": SHOWN % "deep"}]}, ("deep",)),
        ({"task_id": "other", "message": SHOWN % "shown"}, ("shown",)),
        ({"task_id": "t"}, ("t",)),
        ({"taskId": "t"}, ("t",)),
        ({"requestid": "r"}, ("r",)),
        ({"request_id": "r", "task-id": "t"}, ("t",)),
        ({"job_id": 12}, ("12",)),
        ('{"taskId":"in text"}', ()),
        ('{"taskId":"in-text"}', ("in-text",)),
        ({"data": {"task_id": "inner"}}, ("inner",)),
        ({"task_id": True}, ()),
        ({"task_id": "../../etc"}, ()),
        ({"task_id": "x" * 200}, ()),
        ({"task_id": None}, ()),
        ("no id at all", ()),
        (["task_id"], ()),
    ],
)
def test_a_placeholder_beats_a_field_and_a_field_needs_a_clear_name(result: Any, named: tuple[str, ...]) -> None:
    assert ids(result).named == named


def test_an_id_beside_the_result_counts_too() -> None:
    assert ids("submitted", requestId="top").named == ("top",)


def test_a_bare_id_may_be_anything_and_names_nothing() -> None:
    assert ids({"id": "maybe"}) == TaskIds((), ("maybe",))
    assert ids({"id": "maybe", "task_id": "sure"}) == TaskIds(("sure",))


def test_placeholders_of_other_plugins_are_no_tasks_of_this_one() -> None:
    assert ids("{{VCP_ASYNC_RESULT::Q::1}}") == TaskIds()


def test_thousands_of_ids_are_held_to_a_limit() -> None:
    assert len(ids(" ".join(SHOWN % number for number in range(1000))).named) == 64


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=10) | st.just(SHOWN % "x"),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "task_id", "data", "task", "x"]), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_whatever_the_answer_holds_it_is_read_without_an_error(result: Any) -> None:
    found = ids(result)
    assert all(isinstance(task, str) for task in found.named + found.possible)
