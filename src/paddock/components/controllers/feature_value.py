"""A value over the features of any world model."""

from __future__ import annotations

from pydantic import Field

from paddock.components.networks.heads import NumberHead, NumberHeadConfig
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec


class FeatureValueConfig(NumberHeadConfig, TargetSchema):
    """Options of a value; `inputs` is the number of features."""

    inputs: int = Field(ge=1)


class FeatureValue(NumberHead):
    """Features [..., F] to what describes the expected return; see NumberHead."""

    def __init__(self, config: FeatureValueConfig, spec: Spec) -> None:
        super().__init__(config, config.inputs)
        self.config = config
