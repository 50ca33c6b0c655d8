"""The official Node client against a real server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.program import LONGEST, Program, started

pytestmark = pytest.mark.external

SCRIPT = Path(__file__).with_name("openai_client.mjs")
DIRECT = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with started("serve", "--port", "0", cwd=tmp_path_factory.mktemp("home")) as program:
        yield program


def met(server: Program, scenario: str, base_url: str | None = None) -> Any:
    done = subprocess.run(
        ("node", str(SCRIPT), scenario, base_url or server.base_url, server.key),
        env=DIRECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_answer_in_one_piece_holds_the_call_and_the_words_after_it(server: Program) -> None:
    whole = met(server, "whole")
    assert "84" in whole["text"].partition("<<<[END_TOOL_REQUEST]>>>")[2]
    assert whole["finishes"] == ["stop"]
    assert whole["total"] > 0


def test_a_stream_is_one_answer_with_one_end(server: Program) -> None:
    seen = met(server, "stream")
    rest = seen["text"].rpartition("<<<[END_TOOL_REQUEST]>>>")[2]
    assert "1024" in rest
    assert "51" in rest
    assert (seen["roles"], seen["finishes"]) == (["assistant"], ["stop"])


def test_the_stream_helper_of_the_client_puts_the_same_answer_together(server: Program) -> None:
    assert met(server, "helper")["text"] == met(server, "whole")["text"]


def test_twenty_at_once_get_their_own_answers(server: Program) -> None:
    answers = met(server, "together")["answers"]
    assert len(answers) == 20
    for number, text in answers:
        found = [other for other, _ in answers if str(other * 1001) in text]
        assert found == [number]


def test_an_interrupt_ends_the_stream_in_good_order(server: Program) -> None:
    seen = met(server, "interrupt")
    assert seen["told"]["status"] == "success"
    assert seen["finishes"] == ["stop"]


def test_leaving_a_stream_early_leaves_a_server_that_goes_on(server: Program) -> None:
    assert met(server, "leave")["text"]


def test_the_models_are_listed_whether_or_not_the_base_url_has_its_version(server: Program) -> None:
    for base_url in (server.base_url, server.base_url.removesuffix("/v1")):
        assert "vcp-demo" in met(server, "models", base_url)["ids"]


def test_errors_are_those_of_the_client(server: Program) -> None:
    errors = met(server, "errors")
    for name in ("wrongKey", "wrongKeyStreamed"):
        assert (errors[name]["class"], errors[name]["code"]) == ("AuthenticationError", "invalid_api_key")
        assert "Unauthorized" in errors[name]["message"]
    assert errors["badMessages"]["class"] == "BadRequestError"
    assert "messages" in errors["badMessages"]["message"]
    assert errors["notOffered"]["class"] == "NotFoundError"
