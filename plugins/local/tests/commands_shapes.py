"""Trees of processes that are hard to end, each as a shell script that prints `begin` first.

`{mark}` is the number of seconds that each of them sleeps.
"""

from pathlib import Path

__all__ = ["SHAPES", "prepare", "script"]

SHAPES = {
    "plain": "echo begin; sleep {mark}; sleep {mark}",
    "children": "echo begin; sleep {mark} & sleep {mark} & wait",
    "new session": "echo begin; setsid sleep {mark} & sleep {mark}",
    "no environment": "echo begin; env -i setsid sleep {mark} & sleep {mark}",
    "double fork": "echo begin; (env -i setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &); sleep {mark}",
    "ignores TERM": "trap '' TERM; echo begin; while :; do sleep {mark}; done",
    "stopped": "echo begin; sleep {mark} & kill -STOP $!; kill -STOP $$",
    "pipeline": "echo begin; mkfifo p; (while :; do echo child; sleep 0.2; done) > p & cat p; sleep {mark}",
    "hopper": "echo begin; sh hop.sh {mark} & sleep {mark}",
    "fork loop": "echo begin; while :; do sleep {mark} & sleep 0.01; done",
    "storm": "echo begin; sh storm.sh 6 {mark} & sleep {mark}",
    "noisy": "echo begin; (yes & yes >&2 & sleep {mark})",
}

# Leaves its parent again and again, so that whoever looks for it is too late. `$1` marks it.
_HOP = "sleep 0.01\nsetsid sh hop.sh $1 &\n"
# A hundred processes that their parents leave at once.
_STORM = '[ $1 -gt 0 ] && for _ in 1 2; do setsid sh storm.sh $(($1 - 1)) $2 & done\nexec sleep "$2"\n'


def prepare(root: Path) -> None:
    """Puts the scripts that shapes call into the root."""
    (root / "hop.sh").write_text(_HOP)
    (root / "storm.sh").write_text(_STORM)


def script(shape: str, mark: int) -> str:
    """The command of a shape."""
    return SHAPES[shape].format(mark=mark)
