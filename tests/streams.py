"""Made-up experience of several copies, in both of Gymnasium's autoreset modes, and what it is as plain lists."""

import numpy as np

from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={
        "image": ArraySpec(shape=(2, 2, 3), dtype="uint8", low=0, high=255),
        "speed": ArraySpec(shape=(1,), dtype="float32"),
    },
    action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0),
    is_dict=True,
)


def observations(random, count):
    return {
        "image": random.integers(256, size=(count, 2, 2, 3), dtype=np.uint8),
        "speed": random.random((count, 1), np.float32),
    }


def stream(count, copies=3, seed=0, same_step=True, end=0.15):
    """Vector steps as a collector gives them."""
    random = np.random.default_rng(seed)
    observation = observations(random, copies)
    fresh, first = np.zeros(copies, bool), np.ones(copies, bool)
    for _ in range(count):
        valid = ~fresh
        ended = (random.random(copies) < end) & valid
        terminated = ended & (random.random(copies) < 0.5)
        following = observations(random, copies)
        step = {
            "observation": observation,
            "next_observation": following,
            "action": random.random((copies, 2), np.float32),
            "reward": random.random(copies) * valid,
            "terminated": terminated,
            "truncated": ended & ~terminated,
            "valid": valid,
            "is_first": first,
        }
        if same_step and ended.any():
            step["final_rows"] = np.flatnonzero(ended)
            step["final_observation"] = observations(random, int(ended.sum()))
        yield step
        observation = following
        fresh = np.zeros(copies, bool) if same_step else ended
        first = ended if same_step else ~valid


class NaiveRows:
    """Each copy's rows as dicts in a list, built one step and one copy at a time."""

    def __init__(self, copies=3):
        self.streams = [[] for _ in range(copies)]
        self.pending = [(0.0, True)] * copies

    def add(self, step):
        for copy, rows in enumerate(self.streams):
            if not step["valid"][copy]:
                continue
            reward, is_first = self.pending[copy]
            see = {name: part[copy].copy() for name, part in step["observation"].items()}
            rows.append(self.row(see, step["action"][copy], reward, is_first, False, False))
            self.pending[copy] = (float(step["reward"][copy]), False)
            if step["terminated"][copy] or step["truncated"][copy]:
                if "final_rows" in step:
                    at = list(step["final_rows"]).index(copy)
                    last = {name: part[at].copy() for name, part in step["final_observation"].items()}
                else:
                    last = {name: part[copy].copy() for name, part in step["next_observation"].items()}
                flags = bool(step["terminated"][copy]), bool(step["truncated"][copy])
                rows.append(self.row(last, np.zeros(2), self.pending[copy][0], False, *flags))
                self.pending[copy] = (0.0, True)

    def cut(self):
        self.pending = [(0.0, True)] * len(self.streams)

    @staticmethod
    def row(observation, action, reward, is_first, terminated, truncated):
        return {
            **observation,
            "action": np.asarray(action, np.float32),
            "reward": np.float32(reward),
            "is_first": is_first,
            "terminated": terminated,
            "truncated": truncated,
        }

    def window(self, copy, start, length):
        rows = self.streams[copy][start : start + length]
        window = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        cut = window["is_first"][1:] & ~window["terminated"][:-1]
        window["truncated"][:-1] |= cut
        return window


def assert_windows(batch, naive):
    """Every sampled window is the naive one of its place."""
    index = batch["index"].numpy()
    length = index.shape[1]
    for number, (copy, start) in enumerate(index[:, 0]):
        expected = naive.window(copy, start, length)
        assert (index[number, :, 1] == np.arange(start, start + length)).all()
        for name in ("image", "speed"):
            assert np.array_equal(batch["observation"][name][number].numpy(), expected[name]), name
        for name in ("action", "reward", "is_first", "terminated", "truncated"):
            assert np.array_equal(batch[name][number].numpy(), expected[name]), name
