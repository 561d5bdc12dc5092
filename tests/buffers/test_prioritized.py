import numpy as np
import pytest
import torch
from test_uniform import SPEC, stream

from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
from paddock.buffers.sum_tree import SumTree
from paddock.components.return_computers.bootstrap import importance_weights
from paddock.core.trees import load_tree, save_tree


def make(capacity=40, copies=2, batch_size=32, **values):
    config = PrioritizedConfig(_target_="it", capacity=capacity, batch_size=batch_size, segment_steps=10, **values)
    return PrioritizedBuffer(config, SPEC, copies)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_sum_tree_finds_what_a_cumulative_sum_finds(size):
    random = np.random.default_rng(size)
    tree, priority = SumTree(size), np.zeros(size)
    for _ in range(30):
        leaves = random.integers(0, size, 20)
        values = random.random(20) * (random.random(20) < 0.7)
        tree.assign(leaves, values)
        for leaf, value in zip(leaves, values, strict=True):
            priority[leaf] = value
        assert tree.total == pytest.approx(priority.sum())
        assert (tree[np.arange(size)] == priority).all()
        if priority.sum() > 0:
            heights = random.random(200) * priority.sum()
            assert (tree.find(heights) == np.searchsorted(np.cumsum(priority), heights, side="right")).all()
            assert (priority[tree.find(np.array([0.0, tree.total]))] > 0).all()


def test_a_rebuilt_tree_is_the_same_to_the_last_bit():
    random = np.random.default_rng(0)
    tree = SumTree(777)
    for _ in range(50):
        tree.assign(random.integers(0, 777, 64), random.random(64).astype(np.float32).astype(np.float64))
    other = SumTree(777)
    other.fill(tree[slice(777)].copy())
    assert other._nodes.tobytes() == tree._nodes.tobytes()


def test_transitions_are_drawn_in_proportion_to_their_priority_and_weighted_back():
    buffer = make(capacity=20, copies=1, batch_size=10, alpha=0.7, eps=0.01)
    for step in stream(20, copies=1):
        step["valid"][:] = True
        buffer.add(step)
    error = torch.linspace(0, 3, 20)
    buffer.update_priorities(torch.arange(20), error)
    expected = (error.abs() + 0.01) ** 0.7
    expected = expected / expected.sum()
    torch.manual_seed(0)
    batches = [buffer.sample() for _ in range(4_000)]
    drawn = torch.cat([batch["index"] for batch in batches]).bincount(minlength=20) / 40_000
    assert torch.allclose(drawn, expected, atol=0.004)
    batch = batches[0]
    assert torch.allclose(batch["probability"], expected[batch["index"]], rtol=1e-5)
    weight = importance_weights(batch["probability"], len(buffer), 0.4)
    naive = torch.tensor([(1 / (20 * expected[i])) ** 0.4 for i in batch["index"].tolist()])
    assert torch.allclose(weight, naive / naive.max(), rtol=1e-4)
    # Weighted by a beta of 1, the mean over draws is the plain mean over all transitions.
    rewards = torch.cat([batch["reward"] / (20 * batch["probability"]) for batch in batches])
    everything = buffer.gather(np.arange(20), np.zeros(20, np.int64))["reward"]
    assert rewards.mean().item() == pytest.approx(everything.mean().item(), abs=0.02)


def test_what_is_new_is_most_urgent_and_what_is_overwritten_or_invalid_is_never_drawn():
    buffer = make(capacity=16, copies=2, batch_size=16)
    steps = list(stream(50, seed=3))
    for step in steps[:8]:
        buffer.add(step)
    buffer.update_priorities(torch.tensor([0, 1]), torch.tensor([9.0, 2.0]))
    highest = 9.0**0.6
    for count, step in enumerate(steps[8:], start=8):
        if count == 30:
            buffer.mark_discontinuity()
        buffer.add(step)
        newest = (buffer.total - 1) % buffer.rows * 2 + np.arange(2)
        assert np.allclose(buffer._tree[newest], step["valid"] * highest, rtol=1e-5)
        batch = buffer.sample()
        row, copy = np.divmod(batch["index"].numpy(), 2)
        assert buffer._arrays["valid"][row, copy].all()
    rewards = {float(r) for step in steps[-8:] for r in step["reward"]}
    assert set(buffer.sample()["reward"].tolist()) <= rewards


def test_a_saved_buffer_draws_and_learns_on_to_the_last_bit(tmp_path):
    buffer = make(n_step=3, gamma=0.9)
    feed = stream(80, seed=5)
    torch.manual_seed(0)
    for _ in range(55):
        buffer.add(next(feed))
        if buffer.can_sample():
            batch = buffer.sample()
            buffer.update_priorities(batch["index"], torch.rand(32) * 5)
    save_tree(tmp_path, "state", buffer.get_state())
    copy = make(n_step=3, gamma=0.9)
    copy.set_state(load_tree(tmp_path, "state"))
    for segment in buffer.segments():
        save_tree(tmp_path, segment.name, segment.read())
        copy.load_segment(load_tree(tmp_path, segment.name))
    random = torch.get_rng_state()
    for step in feed:
        results = []
        for each in (buffer, copy):
            torch.set_rng_state(random)
            each.add(step)
            batch = each.sample()
            each.update_priorities(batch["index"], torch.rand(32) * 5)
            results.append(batch)
        random = torch.get_rng_state()
        for name in ("index", "probability", "reward", "steps"):
            assert torch.equal(results[0][name], results[1][name])
        assert torch.equal(*(batch["next_observation"]["observation"] for batch in results))
    assert buffer._tree._nodes.tobytes() == copy._tree._nodes.tobytes()
