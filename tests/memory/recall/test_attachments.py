"""``::Base64Memo`` attaches files of our own folders only (memory.md 2.5)."""

from __future__ import annotations

import base64
from pathlib import Path

from app.memory.recall.attachments import MAX_FILE_BYTES, media_parts

PIXEL = b"\x89PNG\r\n\x1a\n"


def write(home: Path, name: str, data: bytes = PIXEL) -> Path:
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def urls(home: Path, *texts: str, limit: int = 5) -> list[str]:
    parts = media_parts(texts, home, limit)
    return [part["image_url"]["url"] for part in parts]


def test_links_to_our_servers_and_files_are_attached_once(tmp_path: Path) -> None:
    picture = write(tmp_path, "image/a b.png")
    write(tmp_path, "file/x/s.mp3", b"ID3")
    text = (
        f"![x]({picture.as_uri()}) <img src='http://host:6005/pw=k/images/a%20b.png'> "
        "[song](http://host/pw=k/files/x/s.mp3) ![x](http://host/pw=k/images/a%20b.png)"
    )
    pixel = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    found = urls(tmp_path, text)
    assert found[0] == pixel
    assert found.count("data:audio/mpeg;base64," + base64.b64encode(b"ID3").decode()) == 1


def test_nothing_outside_of_the_folders_is_read(tmp_path: Path) -> None:
    secret = write(tmp_path, "config.png")
    write(tmp_path, "image/readme.txt", b"text")
    (tmp_path / "image/out.png").symlink_to(secret)
    text = (
        f"![a]({secret.as_uri()}) ![b](http://h/pw=k/images/../config.png) ![c](http://h/pw=k/images/%2e%2e/config.png)"
        " ![d](http://h/pw=k/images/out.png) ![e](http://h/pw=k/images/readme.txt) ![f](file:///etc/passwd)"
        " ![g](http://example.com/images/a.png) ![h](http://[/pw=k/images/a.png) ![i](file://host/image/a.png)"
        " ![j](http://h/pw=k/images/a%00.png) ![k](file:///image/%00.png)"
    )
    assert urls(tmp_path, text) == []


def test_number_and_size_are_bounded(tmp_path: Path) -> None:
    text = "".join(f"![x]({write(tmp_path, f'image/{number}.png').as_uri()})" for number in range(8))
    assert len(urls(tmp_path, text)) == 5
    assert urls(tmp_path, text, limit=0) == []
    big = write(tmp_path, "image/big.png")
    with big.open("r+b") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert urls(tmp_path, f"![x]({big.as_uri()})") == []
