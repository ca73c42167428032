"""JSON Schema of a whole `stead.toml`, with the options of every installed backend."""

from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from stead.config.options import OptionTable
from stead.config.reducing import plain_fields
from stead.errors import SteadError

__all__ = ["config_schema"]

_REFERENCE = {
    "description": "A value named instead of written down: an environment variable, or a file",
    "oneOf": [
        {
            "type": "object",
            "properties": {kind: {"type": "string", "minLength": 1}},
            "required": [kind],
            "additionalProperties": False,
        }
        for kind in ("env", "file")
    ],
}


def config_schema() -> dict[str, Any]:
    """Makes the schema (draft 2020-12). Under a backend that is not installed, or is broken, any key is allowed."""
    definitions: dict[str, Any] = {"reference": _REFERENCE}
    variants = []
    for name, table in _tables().items():
        options, shared = _of_model(name, table.model) if table.model else _of_signature(table)
        definitions.update(shared)
        variants.append(_backend(name, table, options))
    known = [variant["properties"]["backend"]["const"] for variant in variants]
    other = {"type": "string", "minLength": 1, "not": {"enum": known}}
    variants.append({"type": "object", "properties": {"backend": other}, "required": ["backend"]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "stead.toml",
        "type": "object",
        "properties": {
            "environments": {"type": "object", "additionalProperties": {"anyOf": variants}},
            "reducer": _reducer(),
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def _tables() -> dict[str, OptionTable]:
    from stead.registry import backend_names, option_table

    tables = {}
    for name in backend_names():
        try:
            tables[name] = option_table(name)
        except SteadError:
            continue  # `stead backends` says what is wrong with it
    return tables


def _of_model(backend: str, model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = model.model_json_schema(ref_template=f"#/$defs/{backend}.{{model}}")
    shared = {f"{backend}.{name}": definition for name, definition in schema.get("$defs", {}).items()}
    return schema.get("properties", {}), shared


def _of_signature(table: OptionTable) -> tuple[dict[str, Any], dict[str, Any]]:
    return {option.name: _of_type(option.annotation) for option in table.options.values()}, {}


def _of_type(annotation: Any) -> dict[str, Any]:
    try:
        schema = TypeAdapter(annotation).json_schema()
    except (PydanticUserError, TypeError, NameError):
        return {}
    return {} if "$defs" in schema else schema


def _backend(name: str, table: OptionTable, options: dict[str, Any]) -> dict[str, Any]:
    properties = {key: _or_reference(schema, table.options[key].is_table) for key, schema in options.items()}
    return {
        "type": "object",
        "title": name,
        "properties": {"backend": {"const": name}, **properties},
        # An option that the backend needs may also come from a variable.
        "required": ["backend"],
        "additionalProperties": table.takes_any,
    }


def _or_reference(schema: dict[str, Any], is_table: bool) -> dict[str, Any]:
    reference = {"$ref": "#/$defs/reference"}
    shown: dict[str, Any] = {key: schema[key] for key in ("description", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in ("description", "default", "title")}
    if not is_table:
        return {**shown, "anyOf": [rest, reference]}
    if isinstance(rest.get("additionalProperties"), dict):
        rest["additionalProperties"] = {"anyOf": [rest["additionalProperties"], reference]}
    return {**shown, **rest}


def _reducer() -> dict[str, Any]:
    from stead.reducer import ReducerConfig, ToolConfig

    environment = {"type": "string", "description": "Where full texts are stored: a name as for create_environment"}
    tool = {name: _of_type(kind) for name, kind in plain_fields(ToolConfig).items()}
    settings = {name: _of_type(kind) for name, kind in plain_fields(ReducerConfig).items()}
    return {
        "type": "object",
        "properties": {
            "environment": environment,
            **settings,
            "tool_config": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"environment": environment, **tool},
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    }
