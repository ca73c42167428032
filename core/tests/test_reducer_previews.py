"""What is shown of a long text: two ends, cut blocks, or its shape. Nothing is cut where a reader sees one character."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.reducer import ReducerConfig
from stead.reducer.blocks import is_blocks, parts_of
from stead.reducer.media import media_part
from stead.reducer.preview import clean_text, cut_blocks, head_and_tail, safe_cut
from stead.reducer.redact import Redactor
from stead.reducer.replacement import pack, unpack
from stead.reducer.shapes import shape_of

MARKER = "[{omitted}]"


@pytest.mark.parametrize(
    ("text", "budget", "head", "tail"),
    [
        ("你好世界", 0, "", ""),
        ("你好世界", 1, "你", ""),
        ("你好世界", 2, "你", "界"),
        ("你好世界", 4, "你好世界", ""),
        ("你好世界", 99, "你好世界", ""),
        ("hello你好world", 4, "he", "ld"),
        ("", 5, "", ""),
    ],
)
def test_head_and_tail_are_characters_not_bytes(text, budget, head, tail):
    """Both together take at most the budget; a text that fits is all head (U01, U02)."""
    assert head_and_tail(text, budget) == (head, tail)


@pytest.mark.parametrize("cluster", ["e\u0301", "👩\u200d💻", "❤\ufe0f", "\r\n", "\u0061\u0302\u0323"])
def test_a_cut_parts_no_cluster(cluster):
    """Marks, joined emoji, variants and line ends stay with what they belong to."""
    text = "a" * 7 + cluster + "b" * 7
    for position in range(len(text) + 1):
        cut = safe_cut(text, position)
        assert cut <= position
        assert not 7 < cut < 7 + len(cluster)


@given(st.text(max_size=200), st.integers(0, 220))
def test_head_and_tail_never_overlap(text, budget):
    """They are the text's own ends, within the budget."""
    head, tail = head_and_tail(text, budget)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= budget
    assert len(head) + len(tail) <= len(text)


@given(st.lists(st.text("ab\n", max_size=900), max_size=12), st.integers(0, 4_000))
def test_blocks_fit_their_budget_and_small_ones_stay(texts, budget):
    """All together are within the budget; a block is whole, cut with its marker, or left out."""
    cut = cut_blocks(texts, budget, MARKER)
    assert len(cut) == len(texts)
    assert sum(len(text) for text in cut if text) <= budget
    if sum(map(len, texts)) <= budget:
        assert cut == texts
    for old, new in zip(texts, cut, strict=True):
        assert new is None or new == old or (len(new) < len(old) and "[" in new)


def test_what_of_a_result_is_text():
    """Text, blocks with media, mixed strings, data, and what holds nothing (J01, J02, S15, S16, T14)."""
    image = {"type": "image", "data": "x"}
    assert parts_of("abc").texts == ("abc",)
    assert parts_of([{"type": "text", "text": "a"}, image, "b"]).texts == ("a", None, "b")
    assert parts_of([image]).texts == (None,)
    assert parts_of([{"type": "text", "text": "a"}, {"type": "text", "text": "b\n"}, "c"]).joined() == "a\nb\nc"
    assert json.loads(parts_of({"a": [1, "é"]}).joined()) == {"a": [1, "é"]}
    for nothing in (None, 3, 2.5, True, b"abc", [], {}, (), object()):
        assert parts_of(nothing) is None
    loop: list = []
    loop.append(loop)
    assert parts_of(loop) is None


def test_records_with_a_type_are_data_not_blocks():
    """A list of events is reduced as its JSON text, although each has a `type`."""
    events = [{"type": "push", "text": "x"}, {"type": "pull"}]
    assert not is_blocks(events)
    assert not is_blocks(["a", "b"])
    assert is_blocks([{"type": "text", "text": "a"}, {"type": "resource_link", "uri": "x"}])


def test_clean_text_replaces_lone_surrogates_only():
    """Pairs are joined, halves replaced, clean text is the same object."""
    assert clean_text("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"
    text = "clean 文"
    assert clean_text(text) is text


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_record_gives_the_exact_notice_back(text, budget):
    """Packed without its preview and unpacked with the stored text, a notice is the same."""
    head, tail = head_and_tail(text, budget)
    notice = f"<{len(text)}>{head}|{tail}</>"
    assert unpack(json.loads(json.dumps(pack(notice, head, tail))), text) == notice


def test_a_json_shape_shows_keys_kinds_and_ends():
    """Counts and types of every level, the first and the last item, long strings cut."""
    data = {"rows": [{"id": n, "name": "n" * 200} for n in range(500)], "next": None, "ok": True}
    shape = shape_of("json", json.dumps(data), 2_000)
    assert shape.splitlines()[:3] == [
        "object with 3 keys",
        '  "rows": array of 500 (object)',
        "    [0]: object with 2 keys",
    ]
    assert "[499]: object with 2 keys" in shape
    assert "(202 characters)" in shape
    assert len(shape_of("json", json.dumps(data), 60)) <= 60
    assert shape_of("json", "not json", 500) is None
    assert shape_of("json", '"text"', 500) is None


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_a_table_shape_shows_columns_and_both_ends(delimiter):
    """Header, number of rows, the first and the last five."""
    text = "\n".join(delimiter.join([f"{column}{n}" for column in "abc"]) for n in range(100))
    shape = shape_of("table", text, 2_000).splitlines()
    assert shape[0] == "table of 99 rows, 3 columns: a0, b0, c0"
    assert shape[-1] == delimiter.join(["a99", "b99", "c99"])
    assert "... 89 rows ..." in shape
    assert shape_of("table", "no table\nat all", 500) is None


def test_the_kind_of_preview_is_set_per_tool_and_checked():
    """`preview` of a tool wins; an unknown kind is an error."""
    with pytest.raises(ValueError, match="preview"):
        ReducerConfig(preview="picture")
    with pytest.raises(ValueError, match="preview"):
        ReducerConfig(tool_config={"T": {"preview": "picture"}})


@given(st.lists(st.text("ab \n", max_size=40), max_size=10))
def test_redaction_is_the_same_over_any_pieces(pieces):
    """Line by line, whatever the chunks; the line end is not shown to the hook."""
    lines = []

    def redact(line):
        lines.append(line)
        return line.replace("ab", "*")

    fed = Redactor(redact)
    out = "".join([fed.feed(piece) for piece in pieces]) + fed.finish()
    assert out == "".join(pieces).replace("ab", "*")
    assert not any("\n" in line for line in lines)


def test_redaction_of_one_giant_line_is_bounded_and_parts_no_word():
    """A line of 3 MiB comes in windows, cut between words, the same streamed and whole."""
    line = "secret-token " * 250_000
    sizes = []

    def redact(part):
        sizes.append(len(part))
        return part.replace("secret-token", "***")

    streamed = Redactor(redact)
    pieces = [line[start : start + 70_001] for start in range(0, len(line), 70_001)]
    out = "".join([streamed.feed(piece) for piece in pieces]) + streamed.finish()
    assert out == "*** " * 250_000
    assert Redactor(redact).whole(line) == out
    assert max(sizes) <= 1 << 20


def test_media_is_told_from_its_block():
    """base64, data URLs, raw bytes, references, and what cannot be told."""
    data = bytes(range(256))
    import base64

    text = base64.b64encode(data).decode()
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}
    assert media_part(source)[:2] == ("image/png", data)
    assert media_part(source).shell["source"]["data"] == ""
    assert source["source"]["data"] == text
    url = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{text}"}}
    assert media_part(url)[:2] == ("image/jpeg", data)
    assert media_part(url).suffix == ".jpg"
    assert media_part({"kind": "binary", "data": data, "media_type": "audio/wav"})[:2] == ("audio/wav", data)
    link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert media_part(link)[1:] == (None, link)
    odd = {"type": "thing", "value": 7}
    assert json.loads(media_part(odd).data) == odd
