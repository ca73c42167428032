"""The page of `stead reduce --report`: one HTML file that needs no network, no server and no script."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from stead.cli.transcript import Replay, Turn
from stead.reducer.messages.blocks import block_media, block_text, json_text
from stead.reducer.messages.codec import Call, Content, Result, View

__all__ = ["report_page"]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --old: #b3541e; --new: #1e6fb3; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
article { border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; padding: .4rem .8rem; }
article > header { font-size: .85rem; opacity: .8; }
article.reduced { border-left: 4px solid var(--new); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0; font: 13px/1.4 ui-monospace, monospace; }
pre.call { opacity: .85; } details { background: var(--soft); border-radius: 4px; padding: .2rem .6rem; margin: .4rem 0; }
summary { cursor: pointer; } svg { width: 100%; height: auto; } svg text { font: 11px system-ui; fill: currentColor; }
.before { stroke: var(--old); fill: none; stroke-width: 2; stroke-dasharray: 5 3; }
.after { stroke: var(--new); fill: none; stroke-width: 2; } .axis { stroke: var(--line); }
.key-before { color: var(--old); } .key-after { color: var(--new); }
"""
WIDTH, HEIGHT, LEFT, BOTTOM = 900, 260, 70, 30


def report_page(replay: Replay, *, title: str) -> str:
    """The page.

    Args:
        replay: What was done.
        title: Names the conversation.
    """
    body = [
        f"<h1>{escape(title)}</h1>",
        _summary(replay),
        "<h2>Tokens of each request</h2>",
        _plot(replay.turns),
        "<h2>Conversation, as the model would see it next</h2>",
        "<p>A blue edge marks what was reduced; its full content opens on a click.</p>",
        *_conversation(replay),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    page = f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n' + "\n".join(
        [*body, "</body></html>\n"]
    )
    # A lone surrogate, wherever it stands, cannot be written as UTF-8.
    return page.encode("utf-8", "replace").decode()


def _summary(replay: Replay) -> str:
    last, turns = replay.turns[-1], replay.turns
    reduced = sum(decision.action == "reduced" for decision in replay.decisions)
    rows = (
        ("Format", replay.codec.name),
        ("Messages", f"{len(replay.originals):,}"),
        ("Calls of the model", f"{len(turns):,}"),
        ("Next request, tokens", f"{last.before:,} → {last.after:,}"),
        ("All requests, tokens", f"{sum(t.before for t in turns):,} → {sum(t.after for t in turns):,}"),
        ("Reduced", f"{reduced:,} results and calls"),
        *(("Warning", line) for line in replay.warnings),
    )
    return "<table>" + "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows) + "</table>"


# ---- the plot ----------------------------------------------------------------------------------------------------


def _plot(turns: Sequence[Turn]) -> str:
    most = max([1, *(turn.before for turn in turns), *(turn.after for turn in turns)])
    ticks = "".join(_tick(most * part // 4, most) for part in range(5))
    lines = "".join(
        f'<polyline class="{name}" points="{_points([getattr(turn, name) for turn in turns], most)}"/>'
        for name in ("before", "after")
    )
    label = (
        f'<text x="{LEFT}" y="{HEIGHT - 8}">call 1</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 8}" text-anchor="end">call {len(turns)}</text>'
    )
    described = (
        f"Tokens of {len(turns)} requests: {turns[-1].before:,} before and {turns[-1].after:,} after at the end."
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(described)}">{ticks}{lines}{label}</svg>'
        '<p><span class="key-before">▬ before</span> <span class="key-after">▬ after</span></p>'
    )


def _height(tokens: int, most: int) -> float:
    return round(HEIGHT - BOTTOM - tokens / most * (HEIGHT - BOTTOM - 10), 1)


def _points(values: Sequence[int], most: int) -> str:
    step = (WIDTH - LEFT) / max(1, len(values) - 1)
    return " ".join(f"{LEFT + i * step:.1f},{_height(value, most)}" for i, value in enumerate(values))


def _tick(tokens: int, most: int) -> str:
    y = _height(tokens, most)
    line = f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
    return f'{line}<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tokens:,}</text>'


# ---- the conversation --------------------------------------------------------------------------------------------


def _conversation(replay: Replay) -> Iterable[str]:
    same_length = len(replay.originals) == len(replay.reduced)
    originals = replay.originals if same_length else replay.reduced
    for index, (old, new) in enumerate(zip(originals, replay.reduced, strict=True)):
        yield _entry(index, replay.codec.view(old), replay.codec.view(new))
    if not same_length:
        yield "<p>Entries were removed, so the full contents cannot be shown beside the notices.</p>"


def _entry(index: int, old: View, new: View) -> str:
    parts = [_pre(text) for text in new.texts]
    parts += [f"<details><summary>thinking</summary>{_pre(text)}</details>" for text in new.reasoning]
    parts += [f"<p>[{escape(media.kind)}, {media.size:,} bytes]</p>" for media in new.media]
    parts += [_call(before, after) for before, after in zip(old.calls, new.calls, strict=True)]
    parts += [_result(before, after) for before, after in zip(old.results, new.results, strict=True)]
    changed = old.calls != new.calls or old.results != new.results
    kind = ' class="reduced"' if changed else ""
    return f'<article id="m{index}"{kind}><header>{index + 1} · {new.role}</header>{"".join(parts)}</article>'


def _call(old: Call, new: Call) -> str:
    shown = f'<pre class="call">{escape(new.name)}({escape(_arguments(new.arguments))})</pre>'
    return shown if old == new else shown + _full("arguments", _arguments(old.arguments))


def _result(old: Result, new: Result) -> str:
    mark = "<strong>error</strong> " if new.is_error else ""
    shown = f"<header>{mark}result of {escape(new.id or new.name or 'a call')}</header>{_pre(_text(new.content))}"
    return shown if old == new else shown + _full("result", _text(old.content))


def _full(what: str, text: str) -> str:
    return f"<details><summary>full {what}, {len(text):,} characters</summary>{_pre(text)}</details>"


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json_text(arguments)


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "\n".join(_block(block) for block in content)


def _block(block: Any) -> str:
    text, media = block_text(block), block_media(block)
    if text is not None:
        return text
    return json_text(block) if media is None else f"[{media.kind}, {media.size:,} bytes]"
