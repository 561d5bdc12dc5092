"""The base of every configuration record, and the field type for parts named by a `_target_`.

Each schema lives beside its owner: the owner is a callable whose first parameter, `config`, is annotated
with the schema (or a class with an annotated attribute `config`), and `_target_` names the owner. Nothing here knows
any owner.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationError
from pydantic_core import PydanticCustomError

from paddock.config.moved import current_name
from paddock.config.plugins import load_plugin
from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.lazy import load
from paddock.core.trust import OWN, plugins
from paddock.core.trust import PLUGINS_VARIABLE as PLUGINS_VARIABLE


class Schema(BaseModel):
    """A frozen record; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def _on_or_off(value: Any) -> Any:
    """YAML reads a bare on or off as true or false, and older configurations hold those."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Switch = Annotated[Literal["off", "on", "auto"], BeforeValidator(_on_or_off)]
"""Not at all, in any case, or where it can be."""

Target = Annotated[str, AfterValidator(current_name)]
"""A dotted name of what is to be built; names from before a move become today's."""


class TargetSchema(Schema):
    """The schema of something that is built from configuration: `_target_` says by whom."""

    target_: Target = Field(alias="_target_")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, `_target_` included: what is saved and loaded again."""
        return self.model_dump(mode="json", by_alias=True)


def allowed_packages() -> list[str]:
    """Packages that a `_target_` may name: `paddock`, those the user registered in PADDOCK_PLUGINS, and those that a
    trusted run was made with."""
    return [OWN, *plugins(), *permission.current().packages]


def load_target(target: str) -> Any:
    """The callable that a `_target_` names, if it may be named at all. Names from before a move are known."""
    target = current_name(target)
    allowed, package = allowed_packages(), target.split(".")[0]
    if package != OWN:
        permission.demand(f"the package '{package}'")
    if package not in allowed:
        raise InputError(
            f"_target_ '{target}' is outside the packages that a configuration may name ({', '.join(allowed)}). "
            f"To allow a package of yours, pass --plugin PACKAGE or set {PLUGINS_VARIABLE}=PACKAGE."
        )
    return load(target) if package == OWN else load_plugin(target)


def schema_of(target: str) -> type[TargetSchema]:
    """The schema beside the owner named by `target`: the annotation of its `config`."""
    annotation = _config_annotation(load_target(target))
    if not (inspect.isclass(annotation) and issubclass(annotation, TargetSchema)):
        raise InputError(
            f"_target_ '{target}' cannot be configured: it needs a parameter `config` annotated with a TargetSchema."
        )
    return annotation


def _config_annotation(owner: Any) -> Any:
    """Of a function's parameter; of a class, whichever comes first in its line of ancestors: the parameter of an
    `__init__`, or the class attribute `config` of one that needs no `__init__` of its own."""
    if not inspect.isclass(owner):
        return typing.get_type_hints(owner).get("config") if callable(owner) else None
    for ancestor in owner.__mro__:
        if "__init__" in vars(ancestor):
            return typing.get_type_hints(vars(ancestor)["__init__"]).get("config")
        if "config" in inspect.get_annotations(ancestor):
            return typing.get_type_hints(ancestor)["config"]
    return None


def instantiate(config: TargetSchema, *args: Any, **kwargs: Any) -> Any:
    """Build what `config` describes: its owner is called with the config, then the arguments."""
    return load_target(config.target_)(config, *args, **kwargs)


def validate_target(value: Any) -> TargetSchema:
    """Validate a mapping with a `_target_` by the schema of its owner."""
    if isinstance(value, TargetSchema):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("_target_"), str):
        raise PydanticCustomError("target", "needs a mapping with a _target_ that names what to build")
    try:
        schema = schema_of(value["_target_"])
    except ValidationError:
        raise
    except InputError as error:
        raise PydanticCustomError("target", "{message}", {"message": str(error)}) from error
    return schema.model_validate(value)


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"'{name}' cannot name a part; use letters, digits, '-' and '_'")
    return name


Name = Annotated[str, AfterValidator(_plain_name)]
"""The name of a part, which also names files."""
Part = Annotated[SerializeAsAny[TargetSchema], BeforeValidator(validate_target)]
"""A field that holds any part which a `_target_` can name."""
