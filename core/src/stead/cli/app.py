"""The commands put together, and what an error becomes."""

import signal
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from stead.cli import (
    backends,
    config,
    conformance,
    demo,
    doctor,
    exec,  # noqa: A004 - a file is called as its command
    ls,
    new_backend,
    offloads,
    read,
    reduce,
    sandboxes,
    write,
)
from stead.cli.common import printable
from stead.errors import BackendNotFound, ConfigError, PluginError, SteadError

__all__ = ["app"]

_WRONG_SETUP = (ConfigError, BackendNotFound, PluginError)


class _Group(TyperGroup):
    """Makes one line on stderr of an error, and nothing of a reader that has gone (`stead read a | head`)."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SteadError as error:
            _fail(error.message or type(error).__name__, 2 if isinstance(error, _WRONG_SETUP) else 1)
        except BrokenPipeError:
            raise typer.Exit(128 + 13) from None
        except OSError as error:
            _fail(f"{ctx.invoked_subcommand}: {error}", 1)
        except ValueError as error:  # an argument that the contract refuses, such as a timeout of 0
            _fail(str(error), 2)
        except KeyboardInterrupt:
            raise typer.Exit(128 + signal.SIGINT) from None


def _fail(message: str, code: int) -> NoReturn:
    print(f"stead: {printable(message)}", file=sys.stderr)
    raise typer.Exit(code) from None


app = typer.Typer(
    cls=_Group,
    help="Where an agent's files live and its commands run.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("backends")(backends.backends)
app.command("read")(read.read)
app.command("write")(write.write)
# What follows the first word belongs to the command, also without `--`.
app.command("exec", context_settings={"allow_interspersed_args": False})(exec.exec_command)
app.command("ls")(ls.ls)
app.command("demo")(demo.demo)
app.command("conformance")(conformance.conformance)
app.command("doctor")(doctor.doctor)
app.command("new-backend")(new_backend.new_backend)
app.command("reduce")(reduce.reduce)
app.add_typer(config.app, name="config")
app.add_typer(offloads.app, name="offloads")
app.add_typer(sandboxes.app, name="sandboxes")


@app.callback()
def _end_cleanly_on_term() -> None:
    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), leave)
