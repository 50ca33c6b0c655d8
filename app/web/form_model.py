"""The model that an upload names in its form (``multipart/form-data``), found while the upload comes. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser

MAX_BOUNDARY = 200
MAX_PART_HEAD = 16 * 1024
"""Bytes of the headers of one field; a form with more is not looked into."""

MAX_NAME = 512
"""Bytes of a model's name."""

_FIELD = "model"


@dataclass(frozen=True, slots=True)
class FormModel:
    """The name, and where it stands in the body."""

    name: str
    start: int
    end: int


class FormScan:
    """Looks for the field ``model`` in a body of which more and more has come; looks at no field twice.

    ``over`` is True when nothing more is to be found: it was, the form has ended, or the body is no form.
    """

    def __init__(self, content_type: str) -> None:
        boundary = _boundary(content_type)
        self._delimiter = b"--" + boundary
        self._position = 0  # where a delimiter stands or has to stand
        self._searched = 0
        self.over = not boundary

    def find(self, data: bytes | bytearray) -> FormModel | None:
        """The model, None while it has not come; ``data`` is all of the body up to now."""
        line = self._delimiter
        while not self.over:
            head = self._position + len(line)
            if len(data) < head + 2:
                self.over = not line.startswith(bytes(data[self._position : head]))
                return None
            if data[self._position : head] != line or data[head : head + 2] != b"\r\n":
                self.over = True  # no form, or its end
                return None
            body = data.find(b"\r\n\r\n", head, head + MAX_PART_HEAD)
            if body < 0:
                self.over = len(data) >= head + MAX_PART_HEAD
                return None
            end = data.find(b"\r\n" + line, max(body + 2, self._searched))
            if end < 0:
                self._searched = max(body + 2, len(data) - len(line) - 2)
                return None
            if _name_of(bytes(data[head + 2 : body + 2])) == _FIELD:
                self.over = True
                return _model(data, body + 4, end)
            self._position = self._searched = end + 2
        return None


def _model(data: bytes | bytearray, start: int, end: int) -> FormModel | None:
    if not 0 < end - start <= MAX_NAME:
        return None
    try:
        return FormModel(bytes(data[start:end]).decode("utf-8"), start, end)
    except UnicodeDecodeError:
        return None


def _boundary(content_type: str) -> bytes:
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_param("boundary") if header.get_content_type() == "multipart/form-data" else None
    if not isinstance(boundary, str) or not boundary.isascii() or len(boundary) > MAX_BOUNDARY:
        return b""
    return boundary.encode()


def _name_of(head: bytes) -> object:
    """The name of a field that is no file."""
    header = BytesHeaderParser().parsebytes(head)
    if header.get_param("filename", header="content-disposition") is not None:
        return None
    return header.get_param("name", header="content-disposition")
