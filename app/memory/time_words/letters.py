"""One form of each character, so that rules need to know only one; offsets stay what they were."""

from __future__ import annotations

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SMALL |= {code - 32 + 0xFEE0: code for code in range(ord("a"), ord("z") + 1)}
_TRADITIONAL = dict(
    zip(
        map(
            ord,
            "後個過這幾號點兩農曆歷舊陰陽閏臘節國慶聖誕週禮時間鐘頭現開從來內裏裡間剛陣數約當開復親勞動兒師黨軍萬驚蟄穀種處長貳參肆伍陸柒捌玖拾佰仟壹叁",
        ),
        map(
            ord,
            "后个过这几号点两农历历旧阴阳闰腊节国庆圣诞周礼时间钟头现开从来内里里间刚阵数约当开复亲劳动儿师党军万惊蛰谷种处长二三四五六七八九十百千一三",
        ),
        strict=True,
    )
)
_SIGNS = {ord("’"): ord("'"), ord("‘"): ord("'"), ord("～"): ord("~"), ord("–"): ord("-"), ord("—"): ord("-")}
_SIGNS |= {ord("−"): ord("-"), ord("‐"): ord("-"), ord("‑"): ord("-"), ord("\xa0"): 0x20, ord("〜"): ord("~")}

_TABLE = _FULL_WIDTH | _SMALL | _TRADITIONAL | _SIGNS


def plain(text: str) -> str:
    """The text in half-width signs, small ASCII letters and simplified characters, as far as time words need them.

    Each character becomes exactly one, so that offsets in the result are offsets in the text.
    """
    return text.translate(_TABLE)
