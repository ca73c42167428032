# ruff: noqa: RUF001 - Chinese text has Chinese punctuation
"""The texts that stand in place of what was stored, in English and Chinese, and the caller's own."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from string import Formatter
from typing import Literal

from stead.errors import ConfigError

__all__ = ["DIGITS", "Language", "Notices", "notices_for"]

Language = Literal["en", "zh"]
DIGITS = 10**12 - 1
"""The largest number a notice is sized for: room for twelve digits is kept."""


@dataclass(frozen=True, slots=True)
class Notices:
    """Templates for `str.format` with named fields; `{{` and `}}` are literal braces."""

    truncated: str
    """In place of a long result. A template may use the fields that the English one of its name uses."""
    shaped: str
    """As `truncated`, with a preview of the text's shape (`preview` is not `"text"`)."""
    streamed: str
    """Ends a stream whose first part was passed on already."""
    unsaved: str
    """As `truncated`, if nothing could be stored and `on_offload_error` is `"truncate"`."""
    streamed_unsaved: str
    cut: str
    """Where the middle of one text block was left out."""
    cleared: str
    """In place of an old result."""
    media: str
    """Added to `cleared` for pictures and files that the result held."""
    full: str
    """Added to `cleared` for texts that the result itself was only a part of: spilled output, truncated results."""
    cleared_unsaved: str
    """As `cleared`, in a reducer without an environment."""
    argument: str
    """In place of one long value in the arguments of a cleared call."""
    argument_unsaved: str
    hint: str
    """How to read on; empty where the reducer knows no reading tool."""
    short_hint: str
    """As `hint`, for `cleared`: a long history has hundreds of these, and pays for them with every request."""
    incomplete: str
    """Added to `streamed` when the source failed or was closed before its end."""


# Without its path a stored text could never be found again.
_NAMES_PATH = ("truncated", "shaped", "streamed", "cleared", "argument")

_ENGLISH = Notices(
    truncated="""<persisted-output>
{tool} returned {characters} characters in {lines} lines, too long to show here. All of it is saved in:
{path}
{hint}
--- first {head_characters} characters:
{head}
--- {omitted} characters left out; last {tail_characters} characters:
{tail}
</persisted-output>""",
    shaped="""<persisted-output>
{tool} returned {characters} characters in {lines} lines, too long to show here. All of it is saved in:
{path}
{hint}
--- its shape:
{shape}
</persisted-output>""",
    streamed="""
<persisted-output>
The output was cut here: {tool} returned {characters} characters in {lines} lines. All of it is saved in:
{path}
{hint}{incomplete}
--- {omitted} characters left out; last {tail_characters} characters:
{tail}
</persisted-output>""",
    unsaved="""<truncated-output>
{tool} returned {characters} characters in {lines} lines, too long to show here. The part left out could not be saved \
and is not available ({error}).
--- first {head_characters} characters:
{head}
--- {omitted} characters left out; last {tail_characters} characters:
{tail}
</truncated-output>""",
    streamed_unsaved="""
<truncated-output>
The output was cut here: {tool} returned {characters} characters in {lines} lines. The part left out could not be saved \
and is not available ({error}).{incomplete}
--- {omitted} characters left out; last {tail_characters} characters:
{tail}
</truncated-output>""",
    cut="\n[... {omitted} characters left out ...]\n",
    cleared="<persisted-output>Old {tool} result cleared, saved in {path} ({characters} characters).{hint}{media}"
    "</persisted-output>",
    media=" Its media: {media_paths}.",
    full=" Full text of what was cut in it: {full_paths}.",
    cleared_unsaved="[Old {tool} result cleared]",
    argument="[{characters} characters cleared; all arguments are saved in: {path}]",
    argument_unsaved="[{characters} characters cleared]",
    hint="Read it with {reader}: path, start_line, end_line; inside one long line also start_column.",
    short_hint=" Read it with {reader}.",
    incomplete=" The tool's output ended early.",
)

_CHINESE = Notices(
    truncated="""<persisted-output>
{tool} 返回了 {characters} 个字符，共 {lines} 行，过长而未全部显示。完整内容已保存到：
{path}
{hint}
--- 前 {head_characters} 个字符：
{head}
--- 省略 {omitted} 个字符；后 {tail_characters} 个字符：
{tail}
</persisted-output>""",
    shaped="""<persisted-output>
{tool} 返回了 {characters} 个字符，共 {lines} 行，过长而未全部显示。完整内容已保存到：
{path}
{hint}
--- 结构：
{shape}
</persisted-output>""",
    streamed="""
<persisted-output>
输出在此截断：{tool} 返回了 {characters} 个字符，共 {lines} 行。完整内容已保存到：
{path}
{hint}{incomplete}
--- 省略 {omitted} 个字符；后 {tail_characters} 个字符：
{tail}
</persisted-output>""",
    unsaved="""<truncated-output>
{tool} 返回了 {characters} 个字符，共 {lines} 行，过长而未全部显示。省略的部分未能保存，无法读取（{error}）。
--- 前 {head_characters} 个字符：
{head}
--- 省略 {omitted} 个字符；后 {tail_characters} 个字符：
{tail}
</truncated-output>""",
    streamed_unsaved="""
<truncated-output>
输出在此截断：{tool} 返回了 {characters} 个字符，共 {lines} 行。省略的部分未能保存，无法读取（{error}）。{incomplete}
--- 省略 {omitted} 个字符；后 {tail_characters} 个字符：
{tail}
</truncated-output>""",
    cut="\n[…… 省略 {omitted} 个字符 ……]\n",
    cleared="<persisted-output>{tool} 的旧结果已清理，保存在 {path}（{characters} 个字符）。{hint}{media}</persisted-output>",
    media="其中的媒体：{media_paths}。",
    full="其中被截断内容的全文：{full_paths}。",
    cleared_unsaved="[{tool} 的旧结果已清理]",
    argument="[已清理 {characters} 个字符；全部参数已保存到：{path}]",
    argument_unsaved="[已清理 {characters} 个字符]",
    hint="用 {reader} 读取：path、start_line、end_line；长行内另用 start_column。",
    short_hint="用 {reader} 读取。",
    incomplete="工具的输出提前结束。",
)

_LANGUAGES: Mapping[str, Notices] = {"en": _ENGLISH, "zh": _CHINESE}


def notices_for(language: str, own: Mapping[str, str]) -> Notices:
    """The templates of a language, with some replaced by the caller's own.

    Args:
        language: `"en"` or `"zh"`.
        own: Template by the name of its field in `Notices`.

    Raises:
        ConfigError: An unknown language, template or field, or a template without a field that it needs.
    """
    if language not in _LANGUAGES:
        raise ConfigError(f"language is {language!r}; choose 'en' or 'zh'")
    if not own:
        return _LANGUAGES[language]
    known = [field.name for field in fields(Notices)]
    for name, template in own.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"there is no template {name!r}; {f'did you mean {near[0]!r}?' if near else known}")
        _check(name, template)
    return replace(_LANGUAGES[language], **own)


def _check(name: str, template: str) -> None:
    try:
        used = _fields_of(template)
    except ValueError as error:
        raise ConfigError(f"template {name!r} is not valid for str.format: {error}") from None
    known = _fields_of(getattr(_ENGLISH, name))
    unknown = sorted(used - known)
    if unknown:
        raise ConfigError(f"template {name!r} has the unknown field {unknown[0]!r}; it may use {sorted(known)}")
    if name in _NAMES_PATH and "path" not in used:
        raise ConfigError(f"template {name!r} must have the field {{path}}, or nobody finds the text again")


def _fields_of(template: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(template) if field is not None}
