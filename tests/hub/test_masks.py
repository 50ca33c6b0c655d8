"""Secrets in values of every form (B5, D30)."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from app.hub.clients import encoded
from app.hub.masks import Masks


def test_a_secret_is_found_in_each_form_in_which_a_tool_may_print_it() -> None:
    secret = 'pa"ss\\wörd/1'
    masks = Masks(lambda: [secret])
    for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, "")):
        assert masks.text(f"<{form}>") == "<***>"
    assert masks.suspects(encoded({"x": ["a", {"b": secret}]}))
    assert not masks.suspects(encoded({"x": "harmless"}))


@pytest.mark.parametrize("name", ["tool_password", "toolPassword", "TOOL-PASSWORD", "toolpassword"])
def test_a_field_for_the_code_is_masked_whatever_stands_in_it(name: str) -> None:
    masks = Masks(lambda: [])
    assert masks.value({"a": [{name: 12, "b": 12}]}) == {"a": [{name: "***", "b": 12}]}
    assert masks.suspects(encoded({name: "x"}))


def test_a_code_of_digits_is_no_part_of_a_longer_number_and_short_secrets_are_left() -> None:
    masks = Masks(lambda: ["313213", "key", ""])
    assert masks.text("313213 3132134 x313213y key") == "*** 3132134 x***y key"
    assert masks.value({"a": 313213, "b": 3132130, "c": True, "d": 10**5000}) == {
        "a": "***",
        "b": 3132130,
        "c": True,
        "d": 10**5000,
    }


def test_the_secrets_are_those_of_now_and_the_longest_is_taken_first() -> None:
    secrets = ["secret"]
    masks = Masks(lambda: secrets)
    assert masks.text("secret-long") == "***-long"
    secrets.append("secret-long")
    assert masks.text("secret-long secret") == "*** ***"
    secrets.clear()
    assert masks.text("secret-long") == "secret-long"
    assert masks.text("one more", "one more") == "***"


def test_a_mask_of_this_moment_keeps_its_secrets_for_many_values() -> None:
    secrets = ["secret-one"]
    masks = Masks(lambda: secrets)
    mask = masks.of_this_moment()
    secrets[:] = ["secret-two"]
    assert mask({"a": "secret-one secret-two"}) == {"a": "*** secret-two"}
    assert masks.of_this_moment()("secret-one secret-two") == "secret-one ***"
