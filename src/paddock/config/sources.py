"""Where Hydra finds the YAML of a person's own: in folders, as ever, with lists of phases marked for merging."""

from __future__ import annotations

from dataclasses import replace

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

from paddock.config.phases import guard_lists

SCHEME = "paddock"


class UserSource(FileConfigSource):
    """A folder of YAML in which `training.phases` may still be a list."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        found = super().load_config(config_path)
        if not isinstance(found.config, DictConfig):
            return found
        return replace(found, config=OmegaConf.create(guard_lists(OmegaConf.to_container(found.config))))


def register() -> None:
    """Let Hydra know the scheme; more than once does no harm."""
    Plugins.instance().register(UserSource)
