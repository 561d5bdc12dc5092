"""Flow matching, DDPM, DDIM and regression as generators of action chunks, against plain versions."""

import math

import pytest
import torch
from pydantic import ValidationError

from paddock.components.generators.diffusion import Diffusion, DiffusionConfig, kept_shares
from paddock.components.generators.flow_matching import FlowMatching, FlowMatchingConfig, flow_times
from paddock.components.generators.protocol import Committed
from paddock.components.generators.regression import Regression, RegressionConfig

B, T, A = 6, 4, 2


def flow(**options):
    return FlowMatching(
        FlowMatchingConfig(_target_="paddock.components.generators.flow_matching.FlowMatching", **options)
    )


def diffusion(**options):
    return Diffusion(DiffusionConfig(_target_="paddock.components.generators.diffusion.Diffusion", **options))


def nothing_committed(batch=B):
    return Committed(torch.zeros(batch, T, A), torch.zeros(batch, T, 1, dtype=torch.bool))


def test_flow_matching_lesson_is_a_point_on_the_line_and_its_velocity():
    actions = torch.rand(B, T, A) * 2 - 1
    lesson = flow().lesson(actions)
    for one in range(B):
        t = float(lesson.time[one])
        noise = actions[one] - lesson.target[one]
        assert torch.allclose(lesson.inputs[one], (1 - t) * noise + t * actions[one], atol=1e-6)
    assert lesson.time.min() >= 0
    assert lesson.time.max() <= 1


@pytest.mark.parametrize("steps", [1, 5, 10])
def test_flow_matching_integration_equals_a_plain_euler_loop(steps):
    torch.manual_seed(0)
    weight = torch.randn(A, A)
    noise = torch.randn(B, T, A)

    def velocity(chunk, time):
        return 0.1 * chunk @ weight + time.view(-1, 1, 1)

    plain = noise.clone()
    for step in range(steps):
        plain += (0.1 * plain @ weight + step / steps) / steps
    found = flow(steps=steps).generate(velocity, noise, nothing_committed())
    assert torch.allclose(found, plain.clamp(-1, 1), atol=1e-6)


def test_flow_matching_with_the_true_velocity_arrives_at_the_actions_in_one_step():
    actions, noise = torch.rand(B, T, A) - 0.5, torch.randn(B, T, A)
    found = flow(steps=1).generate(lambda chunk, time: actions - noise, noise, nothing_committed())
    assert torch.allclose(found, actions, atol=1e-6)


def test_flow_matching_beta_times_lie_towards_the_noise():
    torch.manual_seed(0)
    times = flow_times(200_000, "beta")
    # The mean of Beta(1.5, 1) is 0.6; time 1 is without noise.
    assert abs(float(times.mean()) - (1 - 0.999 * 0.6)) < 2e-3
    assert abs(float((times < 0.5).float().mean()) - (1 - (0.5 / 0.999) ** 1.5)) < 5e-3
    assert abs(float(flow_times(200_000, "uniform").mean()) - 0.5) < 2e-3


def plain_alpha_bars(count):
    def alpha_bar(t):
        return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

    product, found = 1.0, []
    for i in range(count):
        product *= 1 - min(1 - alpha_bar((i + 1) / count) / alpha_bar(i / count), 0.999)
        found.append(product)
    return found


def test_ddpm_schedule_is_the_published_squared_cosine():
    assert kept_shares(100).tolist() == pytest.approx(plain_alpha_bars(100))


def test_ddpm_lesson_mixes_actions_and_noise_by_the_schedule():
    actions = torch.rand(B, T, A) * 2 - 1
    lesson, kept = diffusion().lesson(actions), plain_alpha_bars(100)
    for one in range(B):
        share = kept[round(float(lesson.time[one]) * 100)]
        expected = math.sqrt(share) * actions[one] + math.sqrt(1 - share) * lesson.target[one]
        assert torch.allclose(lesson.inputs[one], expected, atol=1e-5)


def plain_ddpm(predict, noise, count):
    """Algorithm 2 of arXiv:2006.11239 with x0 clipped, number by number."""
    bars, chunk = plain_alpha_bars(count), noise.clone()
    for k in reversed(range(count)):
        bar, before = bars[k], bars[k - 1] if k else 1.0
        beta = 1 - bar / before
        found = predict(chunk, torch.full((len(noise),), k / count))
        x0 = ((chunk - math.sqrt(1 - bar) * found) / math.sqrt(bar)).clamp(-1, 1)
        chunk = math.sqrt(before) * beta / (1 - bar) * x0 + math.sqrt(bar / before) * (1 - before) / (1 - bar) * chunk
        if k:
            chunk = chunk + math.sqrt(beta * (1 - before) / (1 - bar)) * torch.randn_like(chunk)
    return chunk


def shrinking(chunk, time):
    return 0.5 * chunk + 0.1 * time.view(-1, 1, 1)


def test_ddpm_sampling_equals_the_plain_algorithm():
    noise = torch.randn(B, T, A)
    torch.manual_seed(7)
    found = diffusion(noise_steps=20, sampler="ddpm").generate(shrinking, noise, nothing_committed())
    torch.manual_seed(7)
    assert torch.allclose(found, plain_ddpm(shrinking, noise, 20).clamp(-1, 1), atol=1e-5)


def test_ddim_sampling_equals_the_plain_algorithm():
    noise, bars = torch.randn(B, T, A), plain_alpha_bars(100)
    chunk = noise.clone()
    for k in range(90, -1, -10):
        before = bars[k - 10] if k else 1.0
        found = shrinking(chunk, torch.full((B,), k / 100))
        x0 = ((chunk - math.sqrt(1 - bars[k]) * found) / math.sqrt(bars[k])).clamp(-1, 1)
        noise_of = (chunk - math.sqrt(bars[k]) * x0) / math.sqrt(1 - bars[k])
        chunk = math.sqrt(before) * x0 + math.sqrt(1 - before) * noise_of
    found = diffusion(sampler="ddim", steps=10).generate(shrinking, noise, nothing_committed())
    assert torch.allclose(found, chunk, atol=1e-5)


def test_ddim_refuses_more_steps_than_there_are():
    with pytest.raises(ValidationError, match="more than noise_steps"):
        diffusion(noise_steps=10, sampler="ddim", steps=11)


@pytest.mark.parametrize(
    "generator",
    [
        flow(),
        diffusion(sampler="ddpm", noise_steps=10),
        diffusion(),
        Regression(RegressionConfig(_target_="paddock.x")),
    ],
    ids=["flow", "ddpm", "ddim", "regression"],
)
def test_committed_actions_are_seen_at_every_step_and_never_change(generator):
    given = torch.rand(B, T, A) * 2 - 1
    mask = torch.zeros(B, T, 1, dtype=torch.bool)
    mask[:, :2] = True
    shown = []

    def predict(chunk, time):
        shown.append(chunk.clone())
        return 0.3 * torch.randn_like(chunk)

    found = generator.generate(predict, torch.randn(B, T, A), Committed(given, mask))
    assert torch.equal(found[:, :2], given[:, :2])
    assert all(torch.equal(one[:, :2], given[:, :2]) for one in shown)
    assert not torch.equal(found[:, 2:], given[:, 2:])
