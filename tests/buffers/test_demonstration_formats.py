"""Minari and LeRobot: there and back, bit for bit; LeRobot's own rules; and broken datasets."""

import json

import numpy as np
import pytest

from demonstration_cases import SPEC, assert_same_episode, make_episode, write_set
from paddock.buffers import lerobot_sets
from paddock.buffers.demonstration_files import find_sets
from paddock.buffers.demonstrations import load_episodes
from paddock.buffers.episodes import Description, Episode, read_description
from paddock.buffers.lerobot_reading import read_lerobot
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.demonstration_sets import details, export_set, import_set, merge, summary

parquet = pytest.importorskip("pyarrow.parquet")
PLAIN = Spec(
    observation={"observation": ArraySpec(shape=(3,), dtype="float32")},
    action=ArraySpec(shape=(), dtype="int64", choices=4),
)


def plain_episode(steps, seed):
    random = np.random.default_rng(seed)
    flags = np.arange(steps) == steps - 1
    return Episode(
        observations={"observation": random.normal(size=(steps + 1, 3)).astype(np.float32)},
        actions=random.integers(0, 4, steps),
        rewards=random.normal(size=steps).astype(np.float32),
        terminations=flags,
        truncations=~flags & False,
        information={"driver": "me", "seed": seed},
    )


@pytest.fixture
def minari_home(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


@pytest.fixture(params=["parts", "plain"])
def kept(request, tmp_path):
    if request.param == "plain":
        episodes, spec = [plain_episode(5, 1), plain_episode(9, 2)], PLAIN
    else:
        episodes, spec = (
            [make_episode(7, 1), make_episode(3, 2, terminates=True), make_episode(6, 3, marked=True)],
            SPEC,
        )
    return write_set(tmp_path / "set", *episodes, spec=spec), episodes


def assert_same_set(one, other):
    for here, there in zip(load_episodes(one), load_episodes(other), strict=True):
        assert_same_episode(here, there)
    assert read_description(one) == read_description(other)


def test_demonstrations_go_through_minari_bit_for_bit(tmp_path, minari_home, kept):
    export_set(kept[0], "minari", "paddock/test-v0", author="me")
    import_set("minari:paddock/test-v0", tmp_path / "back")
    assert_same_set(kept[0], tmp_path / "back")
    for here, there in zip(
        kept[1], load_episodes("minari:paddock/test-v0", read_description(kept[0]).spec), strict=True
    ):
        assert_same_episode(here, there)
    with pytest.raises(InputError, match="already"):
        export_set(kept[0], "minari", "paddock/test-v0")


def test_demonstrations_go_through_lerobot_bit_for_bit(tmp_path, kept):
    export_set(kept[0], "lerobot", str(tmp_path / "lerobot"))
    import_set(str(tmp_path / "lerobot"), tmp_path / "back")
    assert_same_set(kept[0], tmp_path / "back")


def test_lerobot_exports_keep_lerobots_rules(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(lerobot_sets, "FILE_BYTES", 500)  # So that episodes go into several files.
    export_set(kept[0], "lerobot", str(tmp_path / "lerobot"))
    info = json.loads((tmp_path / "lerobot/meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"]) == ("v3.0", 20)
    assert info["total_frames"] == sum(len(episode) for episode in kept[1])
    rows = parquet.read_table(tmp_path / "lerobot/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    ends = [0]
    for number, row in enumerate(rows):
        assert row["episode_index"] == number
        assert row["dataset_from_index"] == ends[-1]
        ends.append(row["dataset_to_index"])
        path = info["data_path"].format(chunk_index=row["data/chunk_index"], file_index=row["data/file_index"])
        frames = parquet.read_table(tmp_path / "lerobot" / path)
        mine = [one for one in frames.to_pylist() if one["episode_index"] == number]
        assert [one["frame_index"] for one in mine] == list(range(row["length"]))
        assert [one["index"] for one in mine] == list(range(row["dataset_from_index"], row["dataset_to_index"]))
        np.testing.assert_allclose([one["timestamp"] for one in mine], np.arange(row["length"]) / 20, atol=1e-6)
        assert set(mine[0]) == set(info["features"])
    assert len({row["data/file_index"] for row in rows}) > 1
    assert ends[-1] == info["total_frames"]
    stats = json.loads((tmp_path / "lerobot/meta/stats.json").read_text())
    state = np.concatenate([episode.rewards for episode in kept[1]]).astype(np.float64)
    assert stats["next.reward"]["mean"] == pytest.approx([state.mean()])
    assert set(stats["next.reward"]) == {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}
    import_set(str(tmp_path / "lerobot"), tmp_path / "back")
    assert_same_set(kept[0], tmp_path / "back")


def test_lerobot_datasets_of_others_are_read_with_their_videos(tmp_path):
    """As LeRobot writes them: no observation after the last step, pictures in an mp4, several episodes in a file."""
    folder = write_others(tmp_path / "theirs", lengths=[6, 4])
    description, episodes = read_lerobot(folder)
    first, second = list(episodes)
    assert (len(first), len(second)) == (5, 3)
    assert list(description.spec.observation) == ["front", "state"]
    np.testing.assert_array_equal(second.observations["state"][:, 0], [6, 7, 8, 9])
    shades = second.observations["front"].mean((1, 2, 3))
    np.testing.assert_allclose(shades, np.arange(6, 10) * 20, atol=6)
    assert second.terminations[-1]


def write_others(folder, lengths):
    import av
    import pyarrow

    for name in ("meta/episodes/chunk-000", "data/chunk-000", "videos/observation.images.front/chunk-000"):
        (folder / name).mkdir(parents=True)
    total = sum(lengths)
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    within = np.concatenate([np.arange(length) for length in lengths])
    columns = {
        "observation.state": [[float(at), 0.5] for at in range(total)],
        "action": [[float(at)] for at in range(total)],
        "next.done": [at + 1 == lengths[number] for number, at in zip(numbers, within, strict=True)],
        "episode_index": numbers,
        "frame_index": within,
    }
    parquet.write_table(pyarrow.table(columns), folder / "data/chunk-000/file-000.parquet")
    ends = np.cumsum(lengths)
    video = "videos/observation.images.front"
    rows = [
        {
            "episode_index": number, "length": length, "data/chunk_index": 0, "data/file_index": 0,
            f"{video}/chunk_index": 0, f"{video}/file_index": 0, f"{video}/from_timestamp": (end - length) / 10,
        }
        for number, (length, end) in enumerate(zip(lengths, ends.tolist(), strict=True))
    ]  # fmt: skip
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "meta/episodes/chunk-000/file-000.parquet")
    features = {
        "observation.state": {"dtype": "float32", "shape": [2]},
        "observation.images.front": {"dtype": "video", "shape": [32, 32, 3]},
        "action": {"dtype": "float32", "shape": [1]},
    }
    info = {"codebase_version": "v3.0", "fps": 10, "features": features, "total_episodes": len(lengths)}
    (folder / "meta/info.json").write_text(json.dumps(info))
    with av.open(folder / f"{video}/chunk-000/file-000.mp4", "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for at in range(total):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), at * 20, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return folder


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda f: (f / "meta/info.json").write_text("{}"), "is of version None"),
        (lambda f: (f / "meta/info.json").unlink(), "is no LeRobot dataset: it has no meta/info.json"),
        (lambda f: _flip_a_bit(f / "data/chunk-000/file-000.parquet"), "checksum"),
        (lambda f: (f / "data/chunk-000/file-000.parquet").write_bytes(b"no table"), "cannot be read"),
        (lambda f: (f / "data/chunk-000/file-000.parquet").unlink(), "cannot be read"),
        (lambda f: (f / "meta/episodes/chunk-000/file-000.parquet").unlink(), "no table of episodes"),
        (lambda f: _edit(f, "length", 5), "frames in place of 5"),
        (lambda f: _edit(f, "data/chunk_index", -1), "no number of a file"),
        (lambda f: _edit(f, "paddock", "[]"), "is damaged"),
    ],
)
def test_broken_lerobot_datasets_get_a_sentence(tmp_path, break_it, sentence):
    folder = write_set(tmp_path / "set", make_episode(7, 1))
    export_set(folder, "lerobot", str(tmp_path / "lerobot"))
    break_it(tmp_path / "lerobot")
    with pytest.raises(InputError, match=sentence) as caught:
        import_set(str(tmp_path / "lerobot"), tmp_path / "back")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "back").exists()


def _flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[300] ^= 1
    file.write_bytes(content)


def _edit(folder, column, value):
    import pyarrow

    file = folder / "meta/episodes/chunk-000/file-000.parquet"
    rows = parquet.read_table(file).to_pylist()
    rows[0][column] = value
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)


def test_a_minari_dataset_that_would_run_code_is_refused(tmp_path, minari_home):
    folder = write_set(tmp_path / "set", plain_episode(5, 1), spec=PLAIN)
    export_set(folder, "minari", "paddock/test-v0")
    file = minari_home / "paddock/test-v0/data/metadata.json"
    metadata = json.loads(file.read_text())
    del metadata["observation_space"]
    file.write_text(json.dumps(metadata))
    with pytest.raises(InputError, match="without running code"):
        import_set("minari:paddock/test-v0", tmp_path / "back")
    with pytest.raises(InputError, match="no Minari dataset"):
        import_set("minari:paddock/other-v0", tmp_path / "back")


@pytest.mark.parametrize("name", ["laps", "group/laps", "laps-v", "bad name-v0"])
def test_a_minari_dataset_has_a_name_with_a_version(tmp_path, minari_home, name):
    folder = write_set(tmp_path / "set", plain_episode(5, 1), spec=PLAIN)
    with pytest.raises(InputError, match="write it as group/name-v0"):
        export_set(folder, "minari", name)
    assert not list(minari_home.glob("**/data"))


def test_a_folder_that_stops_minari_is_told_of(tmp_path, minari_home):
    (minari_home / "laps/data").mkdir(parents=True)  # what Minari leaves behind of a name without a version
    with pytest.raises(InputError, match="Minari cannot list the datasets"):
        import_set("minari:paddock/test-v0", tmp_path / "back")


def test_a_minari_dataset_that_leads_elsewhere_is_refused(tmp_path, minari_home):
    h5py = pytest.importorskip("h5py")
    folder = write_set(tmp_path / "set", plain_episode(5, 1), spec=PLAIN)
    export_set(folder, "minari", "paddock/test-v0")
    with h5py.File(minari_home / "paddock/test-v0/data/main_data.hdf5", "a") as file:
        file["episode_0/more"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(InputError, match="is a link to another place"):
        import_set("minari:paddock/test-v0", tmp_path / "back")


def test_demonstrations_are_merged_listed_and_shown(tmp_path):
    one = write_set(tmp_path / "sets/one", make_episode(7, 1), make_episode(3, 2))
    other = write_set(tmp_path / "sets/deep/other", make_episode(6, 3, marked=True))
    assert list(find_sets(tmp_path / "sets")) == [one, other]
    values = merge([one, other], tmp_path / "merged")
    assert (values["episodes"], values["steps"], values["drivers"]) == (3, 16, ["classical"])
    assert values["seconds"] == pytest.approx(0.8)
    assert summary(other)["corrected"] == int(make_episode(6, 3, marked=True).marks["corrected"].sum())
    shown = details(tmp_path / "merged")
    assert [row["steps"] for row in shown["list"]] == [7, 3, 6]
    assert shown["list"][1]["return"] == pytest.approx(make_episode(3, 2).rewards.sum())
    stranger = write_set(tmp_path / "stranger", plain_episode(5, 1), spec=PLAIN)
    with pytest.raises(InputError, match="another environment"):
        merge([one, stranger], tmp_path / "more")
    with pytest.raises(InputError, match="already"):
        merge([one], other)
    with pytest.raises(InputError, match="format of demonstrations"):
        export_set(one, "zarr", "x")


def test_an_empty_set_is_not_exported(tmp_path, minari_home):
    folder = write_set(tmp_path / "set")
    for format, target in (("minari", "paddock/test-v0"), ("lerobot", str(tmp_path / "lerobot"))):
        with pytest.raises(InputError, match="no whole episode"):
            export_set(folder, format, target)


def test_descriptions_of_demonstrations_are_equal_when_their_values_are():
    assert Description(SPEC, {"a": 1}, 0.1) == Description(SPEC, {"a": 1}, 0.1)
