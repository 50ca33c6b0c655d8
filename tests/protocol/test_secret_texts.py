"""What ``privacyProtection`` masks (spec 7.6)."""

from __future__ import annotations

from typing import Any

import pytest

from app.protocol.secret_texts import MASK, masked, masked_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use sk-abcdefghijklmnop123 now", f"use {MASK} now"),
        ("ghp_" + "a" * 36, MASK),
        ("Authorization: Bearer abcdefghijklmnop", f"Authorization: Bearer {MASK}"),
        ("API_KEY=abc def\nNAME=Nova", f"API_KEY={MASK}\nNAME=Nova"),
        ("  export DB_PASSWORD = x", f"  export DB_PASSWORD = {MASK}"),
        ("AKIA" + "A" * 16, MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END", f"-----BEGIN RSA PRIVATE KEY-----{MASK}-----END"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2", MASK),
        ("plain text, a=b, task-12345678901234567890", "plain text, a=b, task-12345678901234567890"),
        ("password reset is possible", "password reset is possible"),
        ("", ""),
    ],
)
def test_well_known_secrets_are_masked_in_texts(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"api-key": "x", "user": "y"}, {"api-key": MASK, "user": "y"}),
        ({"Password": 7, "token": "", "tokens": 12}, {"Password": MASK, "token": "", "tokens": 12}),
        ({"a": [{"client_secret": "x"}]}, {"a": [{"client_secret": MASK}]}),
        ({"secret": {"inner": "kept"}}, {"secret": {"inner": "kept"}}),
        (None, None),
    ],
)
def test_values_under_secret_names_are_masked(value: Any, shown: Any) -> None:
    assert masked(value) == shown


def test_hostile_texts_cost_no_more_than_their_length() -> None:
    for text in ("eyJ-" * 100_000, "sk-" * 100_000, "Bearer " * 50_000, "a_" * 100_000, "KEY= \n" * 50_000):
        masked_text(text)
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    masked(deep)
