"""Pictures in posts (memory.md 6.4; vcp-core 5.9, 9): only pictures are copied, only our own are shown."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from app.memory.diaries.files import DiaryError
from app.memory.diaries.forum_pictures import MissingPictureError, Pictures, picture_address

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 40
ADDRESS = "http://localhost:6005/pw=k"


def pictures_in(home: Path) -> Pictures:
    return Pictures(home / "image", ADDRESS)


def test_a_picture_of_this_machine_is_copied_once_and_linked(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(PNG)
    url = f"file://{tmp_path}/a%20b.png"
    text = pictures_in(tmp_path).taken_over(f"![一]({url}) und ![zwei]({url}) ![](https://x/y.png)")
    copies = list((tmp_path / "image" / "forum").iterdir())
    assert [path.read_bytes() for path in copies] == [PNG]
    link = f"{ADDRESS}/images/forum/{copies[0].name}"
    assert text == f"![一]({link}) und ![zwei]({link}) ![](https://x/y.png)"


@pytest.mark.parametrize("content", [b"API_Key=secret", b"", b"<svg onload=alert(1)>"])
def test_files_that_are_no_pictures_never_leave_their_place(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.env").write_bytes(content)
    with pytest.raises(DiaryError, match="no PNG"):
        pictures_in(tmp_path).taken_over(f"![x](file://{tmp_path}/config.env)")
    assert not (tmp_path / "image").exists()


@pytest.mark.parametrize("url", ["file:///nowhere/a.png", "file://other-machine/a.png", "file:///dev/zero"])
def test_a_picture_that_is_not_here_is_asked_for_and_nothing_is_copied_before(tmp_path: Path, url: str) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    text = f"![a](file://{tmp_path}/a.png) ![b]({url})"
    with pytest.raises(MissingPictureError) as told:
        pictures_in(tmp_path).taken_over(text)
    assert told.value.fields() == {"code": "FILE_NOT_FOUND_LOCALLY", "fileUrl": url}
    assert not (tmp_path / "image").exists()
    uri = "data:image/png;base64," + base64.b64encode(PNG + b"far").decode()
    assert "file://" not in pictures_in(tmp_path).taken_over(text, uri)
    assert len(list((tmp_path / "image/forum").iterdir())) == 2


def test_only_one_picture_of_another_machine_can_come(tmp_path: Path) -> None:
    uri = "data:image/png;base64," + base64.b64encode(PNG).decode()
    with pytest.raises(DiaryError, match="only one picture"):
        pictures_in(tmp_path).taken_over("![a](file:///no/a.png) ![b](file:///no/b.png)", uri)
    with pytest.raises(DiaryError, match="cannot be used"):
        pictures_in(tmp_path).taken_over("![a](file:///no/a.png)", "data:image/png;base64,***")


def test_readers_get_the_pictures_of_this_server_but_no_emoji_and_none_from_elsewhere(tmp_path: Path) -> None:
    for name in ("forum/a.png", "小克表情包/b.png", "forum/c.txt"):
        path = tmp_path / "image" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"text" if name.endswith("txt") else PNG)
    (tmp_path / "secret.png").write_bytes(PNG)
    shown = pictures_in(tmp_path).shown
    assert shown("![x](http://169.254.169.254/latest.png)") == "![x](http://169.254.169.254/latest.png)"
    assert shown("nur Text") == "nur Text"
    base = "http://host/pw=old/images/"
    text = " ".join(
        f"![x]({base}{name})"
        for name in (
            "forum/a.png",
            "forum/a.png",
            "小克表情包/b.png",
            "forum/c.txt",
            "../secret.png",
            "%2e%2e/secret.png",
        )
    )
    content = shown(text)
    assert isinstance(content, dict)
    assert content["content"] == [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}},
    ]


def test_the_address_of_pictures_is_what_the_server_says_of_itself() -> None:
    facts = {"IMAGESERVER_IMAGE_KEY": "a b", "SERVER_PORT": "6005", "VarHttpUrl": "http://192.168.2.1"}
    assert picture_address(facts) == "http://192.168.2.1:6005/pw=a%20b"
    assert picture_address({**facts, "VarHttpUrl": "https://vcp.example:8443/"}) == "https://vcp.example:8443/pw=a%20b"
    assert picture_address({"SERVER_PORT": "1"}) == "http://localhost:1"
