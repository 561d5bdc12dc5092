from pathlib import Path

import pytest
import yaml

from paddock.config.migrate import MIGRATIONS, SCHEMA_VERSION, migrate
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.schema import ExperimentConfig

OLD = yaml.safe_load((Path(__file__).parent / "fixtures" / "version_1.yaml").read_text())


def test_an_old_configuration_becomes_a_valid_new_one():
    with pytest.raises(InputError):
        validate(OLD, ExperimentConfig)
    config = validate(migrate(OLD), ExperimentConfig)
    assert config.schema_version == SCHEMA_VERSION
    assert config.controllers.default == "policy"
    assert config.checkpoint.every_steps == 64


def test_the_original_is_left_alone():
    migrate(OLD)
    assert OLD["schema_version"] == 1
    assert "controller" in OLD


def test_a_world_model_of_version_2_says_once_how_it_reads_numbers():
    encoder = {"layers": 1, "symlog": False}
    old = {
        "schema_version": 2,
        "components": {"world_model": {"encoder": encoder, "decoder": {"layers": 1, "symlog": False}}},
    }
    assert migrate(old)["components"]["world_model"] == {"encoder": encoder, "decoder": {"layers": 1}}


def test_every_version_has_a_way_up():
    assert set(MIGRATIONS) == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("version", [None, 0, "2", True, SCHEMA_VERSION + 1])
def test_versions_that_cannot_be_read_are_refused(version):
    with pytest.raises(InputError, match="schema_version"):
        migrate({"schema_version": version})
