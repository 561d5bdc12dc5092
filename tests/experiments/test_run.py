import multiprocessing

import pytest

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder, manifest


def make(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.yaml").write_text("seed: 1\n")


def test_two_that_start_in_the_same_second_get_different_folders(tmp_path):
    runs = {RunFolder.create(tmp_path, "pole", {"seed": 1}).path for _ in range(5)}
    assert len(runs) == 5


def test_a_run_is_found_by_path_name_and_beginning(tmp_path):
    make(tmp_path, "pole-20260101-000000", "pole-20260102-000000", "lander-20260101-000000", "lander_b-20260101-000000")
    assert RunFolder.find(tmp_path, str(tmp_path / "pole-20260101-000000")).name == "pole-20260101-000000"
    assert RunFolder.find(tmp_path, "pole-20260101-000000").name == "pole-20260101-000000"
    assert RunFolder.find(tmp_path, "pole").name == "pole-20260102-000000", "the newest of that name"
    assert RunFolder.find(tmp_path, "lander").name == "lander-20260101-000000"
    assert RunFolder.find(tmp_path, "pole-20260102").name == "pole-20260102-000000"


@pytest.mark.parametrize(
    ("given", "message"),
    [("po", "could be any of"), ("lunar", "there is no run 'lunar'"), ("poel-20260101-000000", "Did you mean 'pole")],
)
def test_what_is_not_found_is_explained(tmp_path, given, message):
    make(tmp_path, "pole-20260101-000000", "pole-20260102-000000")
    with pytest.raises(InputError, match=message):
        RunFolder.find(tmp_path, given)


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path):
    run = RunFolder.create(tmp_path, "pole", {"seed": 1})
    run.event("phase", phase="train")
    with run.events_file.open("a") as file:
        file.write('{"event": "eval')
    assert [event["event"] for event in run.read_events()] == ["phase"]


def test_the_manifest_tells_what_made_the_run(tmp_path):
    run = RunFolder.create(tmp_path, "pole", {"seed": 1})
    run.write_manifest(**manifest({"seed": 1}, seed=1))
    run.write_manifest(status="finished")
    values = run.read_manifest()
    assert values["status"] == "finished"
    assert values["versions"]["torch"]
    assert values["hardware"]["cores"] >= 1
    assert values["config_hash"] == manifest({"seed": 1}, seed=1)["config_hash"]
    assert values["config_hash"] != manifest({"seed": 2}, seed=1)["config_hash"]


def _try_to_lock(path, result):
    try:
        with RunFolder(path).lock():
            result.put("held")
    except InputError as error:
        result.put(str(error))


def test_a_run_is_held_by_one_process(tmp_path):
    run = RunFolder.create(tmp_path, "pole", {"seed": 1})
    context = multiprocessing.get_context("spawn")
    result = context.Queue()
    with run.lock():
        process = context.Process(target=_try_to_lock, args=(run.path, result))
        process.start()
        process.join()
    assert "is being trained by process" in result.get()
    _try_to_lock(run.path, result)
    assert result.get() == "held"
