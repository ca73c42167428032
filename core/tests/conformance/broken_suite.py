"""The laws on every broken environment: one test class each, run by `test_broken.py` in processes of their own."""

import asyncio

import broken_commands
import broken_files
import broken_reading
import pytest

from stead import ExecutionResult
from stead.conformance import EnvironmentLaws
from stead.errors import FileMissing

CAUGHT = {
    "ReadsAfterClose": "life-closed-refuses-files",
    "StartsTwice": "life-ten-first-uses",
    "ConstructorReads": "life-construction-does-no-io",
    "ShowsSecret": "life-no-secret-shown",
    "ClosesTwiceBadly": "life-close-twice",
    "TranslatesNewlines": "write-newlines-untouched",
    "TornWrite": "write-atomic",
    "LosesOldOnFailure": "write-failed-keeps-old",
    "LeavesTemporaries": "write-leaves-no-temporaries",
    "IgnoresIfAbsent": "write-create-only",
    "RacesIfAbsent": "write-create-only-one-winner",
    "IgnoresIfVersion": "write-if-version",
    "LosesMode": "write-keeps-mode",
    "CollectsStream": "write-stream-bounded-memory",
    "ReplacesLinks": "write-through-link",
    "DirectoryIsMissing": "read-directory",
    "PlainError": "read-missing-parent",
    "OutageIsMissing": "read-unavailable",
    "ShortStream": "stream-equals-read",
    "SwallowsMissing": "stream-missing",
    "SwallowsCut": "stream-cut",
    "WholeFileStream": "stream-bounded-memory",
    "LeaksHandle": "stream-early-close",
    "MixedVersions": "stream-replaced-midway",
    "SlowRange": "stream-range-cost",
    "SplitLines": "lines-end-at-newline-only",
    "StopsCounting": "lines-total",
    "CutsCharacters": "lines-budget-in-characters",
    "EscapesByDots": "path-dotdot-escape",
    "EscapesByLink": "path-link-out",
    "PrefixIsInside": "path-sibling-outside",
    "FoldsCase": "path-case",
    "ExpandsGlobs": "path-glob-literal",
    "DecodesPercent": "path-url-characters",
    "ListsSiblings": "list-sibling-prefix",
    "Unsorted": "list-sorted",
    "DeletesNothing": "delete-missing",
    "HidesStat": "declares-stat",
    "HidesDelete": "declares-delete-file",
    "LeavesDescriptor": "leaves-nothing",
    "KillsShellOnly": "execute-timeout-kills-children",
    "KillsGroupOnly": "execute-timeout-kills-escaped",
    "KillsLate": "execute-timeout-kills-stubborn",
    "IgnoresCancel": "execute-cancel",
    "WaitsForPipes": "execute-background-returns",
    "KillsBackground": "execute-background-lives",
    "MergesStreams": "execute-streams-apart",
    "MixesOutputs": "execute-parallel",
    "CallsItTimeout": "execute-no-false-timeout",
    "CutsOutput": "execute-500-kib",
    "HandsOverStdin": "execute-stdin-at-end",
    "HandsOverVariables": "execute-host-secrets-hidden",
    "MissingProgramRaises": "execute-missing-program",
    "RecreatesSilently": "execute-lost",
    "EndsStreamAtOnce": "execute-stream-live",
    "NeverAnswers": "execute-silent",
}
"""Broken environment -> the law that is meant for it."""

HONEST = ("OnMemory", "OnLocal")
"""The same, not broken."""


class Broken(EnvironmentLaws):
    """Laws that fit into a busy machine."""

    large_file = 64 << 20
    margin = 5.0
    kind: type

    @pytest.fixture
    def environment(self, tmp_path):
        return self.kind(tmp_path)


class _Faulty(Broken):
    """Broken when what lies behind it is."""

    @pytest.fixture
    def faulty(self, tmp_path):
        def make(fault):
            env = self.kind(tmp_path / "faulty")

            async def missing(*_, **__):
                raise FileMissing("not found")

            async def short(*_, **__):
                return b"short"

            async def made_up(*_, **__):
                return ExecutionResult(exit_code=0, stdout="", stderr="")

            async def never(*_, **__):
                await asyncio.sleep(60)

            broken = {
                ("OutageIsMissing", "unavailable"): ("read_file", missing),
                ("SwallowsCut", "cut"): ("read_file", short),
                ("RecreatesSilently", "lost"): ("execute", made_up),
                ("NeverAnswers", "silent"): ("execute", never),
            }.get((self.kind.__name__, fault))
            if broken is None:
                return None
            setattr(env, *broken)
            return env

        return make


def _classes():
    for name in (*CAUGHT, *HONEST):
        kind = next(vars(m)[name] for m in (broken_files, broken_reading, broken_commands) if name in vars(m))
        base = _Faulty if name in ("OutageIsMissing", "SwallowsCut", "RecreatesSilently", "NeverAnswers") else Broken
        yield f"Test{name}", type(f"Test{name}", (base,), {"kind": kind})


globals().update(_classes())
