"""`stead config`: check, schema, show."""

import math
from typing import Any

import typer
from pydantic import SecretStr

from stead.cli.common import ConfigOption, JsonOption, fits_stdout, print_json, printable
from stead.config import Config, load_config
from stead.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(help="Check, describe or show the configuration.", no_args_is_help=True)


@app.command()
def check(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Look for what is wrong: backends that are missing, values that do not fit, secrets in plain text.

    Exits with 2 if there is an error; warnings change nothing.
    """
    from stead.config.checking import problems

    settings = _load(config)
    found = problems(settings)
    failed = any(problem.level == "error" for problem in found)
    if json:
        listed = [{"level": problem.level, "message": problem.message} for problem in found]
        print_json({"file": str(settings.path), "ok": not failed, "problems": listed})
    else:
        for problem in found:
            print(printable(f"{problem.level}: {problem.message}"))
        if not failed:
            print(printable(f"{settings.path}: ok, {len(settings.environments)} environments"))
    if failed:
        raise typer.Exit(2)


@app.command()
def schema() -> None:
    """Print the JSON Schema of stead.toml, with the options of every installed backend, for an editor to use."""
    from stead.config.schema import config_schema

    print_json(config_schema())


@app.command()
def show(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Print the configuration file that is used, as it is written, secrets masked, as TOML or JSON.

    Environment variables go before it (STEAD_NAME__OPTION); they are not shown.
    """
    settings = _load(config)
    environments = {name: {"backend": e.backend, **_shown(e.options)} for name, e in settings.environments.items()}
    reducer = dict(settings.reducer)
    if json:
        shown = {"file": str(settings.path), "default": settings.default}
        print_json(_finite({**shown, "environments": environments, "reducer": reducer}))
        return
    print(printable(f"# {settings.path}"))
    for name, options in environments.items():
        _print_table(["environments", name], options)
    if reducer:
        _print_table(["reducer"], reducer)


def _load(config: Any) -> Config:
    settings = load_config(config)
    if settings.path is None:
        raise ConfigError("no stead.toml was found here, in a parent folder or in the user's configuration folder")
    return settings


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return str(value)
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list) else value


def _print_table(path: list[str], table: dict[str, Any]) -> None:
    print(f"\n[{'.'.join(map(_key, path))}]")
    for key, value in table.items():
        print(f"{_key(key)} = {_toml(value)}")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return _text(value)
    # Numbers, also `inf` and `nan`, and dates are written as Python does.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(text: str) -> str:
    return f'"{"".join(map(_char, text))}"'


def _char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable() and fits_stdout(char):
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"


def _finite(value: Any) -> Any:
    """Copies a value with texts for the numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
