"""JSON of bodies and chunks."""

import pytest

from app.chat.payload import MAX_TEXTS, checked_messages, dumps, loads, loads_request
from app.errors import BadRequestError


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":1e400}', {"a": float("inf")}),
        ("[1]", [1]),
    ],
)
def test_json_of_odd_providers_is_read(data: bytes | str, value: object) -> None:
    assert loads(data) == value


@pytest.mark.parametrize("data", [b"", b"{oops", b"\xff\xfe", b'{"a":1} tail', b"[" * 100_000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        loads(data)


def test_half_characters_and_large_numbers_can_be_written() -> None:
    assert loads(dumps({"a": "\udc00汉"})) == {"a": "\udc00汉"}
    assert dumps({"a": "汉", "b": 2**70 + 1}) == b'{"a":"\\u6c49","b":1180591620717411303425}'
    assert dumps({"a": "汉"}) == '{"a":"汉"}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[],"seed":1180591620717411303425}',
        b'{"messages":[],"x":{"y":[[-1180591620717411303425]]}}',
        b'{"messages":[{"content":"a"}],"seed":18446744073709551615,"t":0.1,"u":-9223372036854775808}',
        b'{"x":' + b"[" * 500 + b"1.5" + b"]" * 500 + b"}",
    ],
)
def test_what_a_client_sent_is_written_again_as_it_was(body: bytes) -> None:
    assert dumps(loads_request(body)) == body


def test_a_conversation_of_countless_messages_or_parts_is_refused_before_it_costs_anything() -> None:
    message = {"role": "user", "content": "hi"}
    assert checked_messages({"messages": [message] * MAX_TEXTS})
    parts = {"role": "user", "content": [{"type": "text", "text": "hi"}] * MAX_TEXTS}
    for messages in ([message] * (MAX_TEXTS + 1), [parts]):
        with pytest.raises(BadRequestError, match="shorten the conversation"):
            checked_messages({"messages": messages})
