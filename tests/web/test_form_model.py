"""The model that a form names, found while the form comes."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web import form_model
from app.web.form_model import FormModel, FormScan

KIND = "multipart/form-data; boundary=b"


def field(name: str, value: bytes, more: bytes = b"") -> bytes:
    return (
        b'--b\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + more + b"\r\n\r\n" + value + b"\r\n"
    )


FILE = field("file", b"-b\r\n--\r\n--c\r\n\x00\xff" * 50, b'; filename="model"\r\nContent-Type: audio/mpeg')
END = b"--b--\r\n"
MODEL = field("model", "vendor/ü".encode())


def found(data: bytes, kind: str = KIND) -> str | None:
    model = FormScan(kind).find(data)
    return None if model is None else model.name


@pytest.mark.parametrize("form", [MODEL + FILE + END, FILE + MODEL + END, FILE + field("prompt", b"x") + MODEL + FILE])
@given(st.lists(st.integers(1, 300), max_size=12))
def test_it_is_found_wherever_it_stands_and_however_the_form_comes(form: bytes, sizes: list[int]) -> None:
    scan, come, model = FormScan(KIND), bytearray(), None
    for size in [*sizes, len(form)]:
        come += form[len(come) : len(come) + size]
        model = model or scan.find(come)
    assert isinstance(model, FormModel)
    assert (model.name, form[model.start : model.end].decode()) == ("vendor/ü", "vendor/ü")
    assert scan.over


def test_the_forms_of_the_usual_clients_are_read() -> None:
    request = httpx.Request("POST", "http://a", data={"model": "whisper"}, files={"file": b"x" * 100})
    assert found(request.read(), request.headers["content-type"]) == "whisper"
    quoted = b"--q q\r\ncontent-disposition: form-data; name=model\r\ncontent-type: text/plain\r\n\r\nm\r\n--q q--"
    assert found(quoted, 'multipart/form-data; boundary="q q"') == "m"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 1000,
        b"--c\r\n" + MODEL,
        END + MODEL,
        FILE + END + MODEL,
        field("model", b""),
        field("model", b"\xff"),
        field("model", b"m" * 513),
        field("model", b"m", b'; filename="a"') + END,
        field("models", b"m") + END,
        b"--b\r\n" + b"x: y\r\n" * 10_000 + MODEL,
        b"--b\r\n\r\n\r\n" + END,
    ],
)
def test_what_is_no_form_or_names_no_model_names_none(data: bytes) -> None:
    assert found(data) is None


NO_FORMS = [
    "",
    "application/json",
    "multipart/form-data",
    "multipart/mixed; boundary=b",
    "multipart/form-data; boundary=" + "b" * 300,
]


@pytest.mark.parametrize("kind", NO_FORMS)
def test_without_a_boundary_there_is_nothing_to_look_for(kind: str) -> None:
    assert FormScan(kind).over
    assert found(MODEL + END, kind) is None


def test_a_body_that_is_no_form_is_not_held() -> None:
    for data in (b"x", b"--", b"--b--", b"--bx\r\n"):
        scan = FormScan(KIND)
        assert scan.find(data) is None
        assert scan.over is (data != b"--")


def test_a_long_file_is_looked_through_once() -> None:
    class Counting(bytearray):
        looked = 0

        def find(self, sub: bytes, start: int, end: int | None = None) -> int:
            Counting.looked += len(self[start:end])
            return super().find(sub, start, end)

    scan, come = FormScan(KIND), Counting(FILE[:-2])
    for _ in range(200):
        come += b"y" * 1000
        scan.find(come)
    assert Counting.looked < 200 * (1010 + form_model.MAX_PART_HEAD) + len(come)
