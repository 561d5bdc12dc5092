"""How long a chunk of actions takes on one core, and the published U-Net against its plain conv1d form.

    python benchmarks/chunk_latency.py [--repeats 300] [--only-unet]

Times are of the processor as this thread used it, which other programs hardly change; wall-clock times stand beside
them. The plain form is the same network in torch's own layers, [B, C, T], with the same weights; both answers are
compared. The time to read all weights once is what no form of a pass can go below.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from paddock.components.networks.chunks import ChunkSizes
from paddock.components.networks.time_convolution import TimeConvolution, TimeGroupNorm, TimeUpsampling
from paddock.components.networks.unet import GROUPS, ResidualBlock, UNet, UNetConfig
from paddock.config.compose import compose
from paddock.config.inheritance import settle
from paddock.config.schema import instantiate, validate_target
from paddock.core.specs import ArraySpec, Spec

OBSERVED, ACTIONS = 50, 2
GENERATORS = {
    "flow, 5 steps (default)": [],
    "flow, 1 step": ["components.policy.generator.steps=1"],
    "ddim, 10 steps": ["preset=ddim"],
    "ddpm, 100 steps": ["preset=ddpm"],
    "flow, 5 steps, unet_small": ["preset=unet_small"],
    "flow, 5 steps, chunk_transformer": ["preset=chunk_transformer"],
    "flow, 5 steps, unet": ["preset=unet"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--only-unet", action="store_true", help="only one pass of the published U-Net, in its forms")
    options = parser.parse_args()
    repeats = options.repeats
    torch.set_num_threads(1)
    if options.only_unet:
        compare_unet(max(repeats // 10, 5))
        return
    print(f"{'one chunk, one car, one core':36} {'median':>9} {'p99':>9} {'wall median':>12} {'wall p99':>9}")
    for name, overrides in GENERATORS.items():
        slow = 10 if "unet" in name or "100" in name or "transformer" in name else 1
        found = timed(planner(overrides), max(repeats // slow, 5))
        (median, wall_median), (p99, wall_p99) = np.median(found, 0), np.percentile(found, 99, axis=0)
        print(f"{name:36} {median:6.2f} ms {p99:6.2f} ms {wall_median:9.2f} ms {wall_p99:6.2f} ms", flush=True)
    compare_unet(max(repeats // 10, 5))


def planner(overrides: list[str]) -> Callable[[], Tensor]:
    """A call that plans one chunk with the shipped policy, for an observation of 50 numbers."""
    spec = Spec(
        observation={"observation": ArraySpec(shape=(OBSERVED,), dtype="float32")},
        action=ArraySpec(shape=(ACTIONS,), dtype="float32", low=-1.0, high=1.0),
    )
    values = settle(compose(None, overrides=["workflow=diffusion_policy", *overrides])).values
    policy = instantiate(validate_target(values["components"]["policy"]), spec).eval()
    history, horizon = policy.config.history, policy.config.horizon
    seen, given = torch.randn(1, history, OBSERVED), torch.zeros(1, horizon, ACTIONS)
    count = torch.zeros(1, dtype=torch.long)
    return lambda: policy.plan(policy.condition({"observation": seen}), given, count, deterministic=False)


def compare_unet(repeats: int) -> None:
    sizes = ChunkSizes(horizon=16, inputs=ACTIONS, outputs=ACTIONS, history=2, features=20)
    network = UNet(UNetConfig(_target_="paddock.components.networks.unet.UNet"), sizes).eval()
    plain = PlainUNet(network).eval()
    inputs = torch.randn(1, 16, ACTIONS), torch.rand(1), torch.randn(1, 2, 20)
    with torch.inference_mode():
        difference = (network(*inputs) - plain(*inputs)).abs().max()
    assert difference < 1e-3, f"the two forms differ by {difference}"
    count = sum(parameter.numel() for parameter in network.parameters())
    half, halves = copy.deepcopy(network).bfloat16(), tuple(one.bfloat16() for one in inputs)
    forms: dict[str, Callable[[], Tensor]] = {
        "plain conv1d": lambda: plain(*inputs),
        "products": lambda: network(*inputs),
        "products, bfloat16": lambda: half(*halves),
    }
    # In turns, so that all of them meet the same machine.
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(repeats):
        for name, call in forms.items():
            times[name].append(timed(call, 1)[0][0])
    print(f"\nU-Net, {count / 1e6:.1f} M parameters, one pass, batch 1")
    slowest = np.median(times["plain conv1d"])
    for name, found in times.items():
        print(f"{name:36} {np.median(found):6.2f} ms, {slowest / np.median(found):.2f} times as fast as plain")
    weights = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    reading = np.median(timed(lambda: weights.sum(), repeats), 0)[0]
    print(f"reading its weights once: {reading:.1f} ms")


class PlainUNet(nn.Module):
    """The published network in torch's own convolutions, with another one's weights."""

    def __init__(self, like: UNet) -> None:
        super().__init__()
        self.time = like.time
        self.down = nn.ModuleList(nn.ModuleList(PlainBlock(one) for one in pair) for pair in like.down)
        self.halving = nn.ModuleList(convolution(one) for one in like.halving)
        self.middle = nn.ModuleList(PlainBlock(one) for one in like.middle)
        self.up = nn.ModuleList(nn.ModuleList(PlainBlock(one) for one in pair) for pair in like.up)
        self.doubling = nn.ModuleList(upsampling(one) for one in like.doubling)
        self.last = nn.Sequential(convolution_block(like.last[0]), convolution(like.last[1]))

    def forward(self, chunk: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        seen = nn.functional.mish(torch.cat([self.time(time), condition.flatten(1)], -1))
        features, skipped = chunk.transpose(1, 2), []
        for level, pair in enumerate(self.down):
            for block in pair:
                features = block(features, seen)
            skipped.append(features)
            if level < len(self.halving):
                features = self.halving[level](features)
        for block in self.middle:
            features = block(features, seen)
        for pair, double in zip(self.up, self.doubling, strict=True):
            features = torch.cat([features, skipped.pop()], 1)
            for block in pair:
                features = block(features, seen)
            features = double(features)
        return self.last(features).transpose(1, 2)


class PlainBlock(nn.Module):
    def __init__(self, like: ResidualBlock) -> None:
        super().__init__()
        self.first, self.second, self.film = convolution_block(like.first), convolution_block(like.second), like.film
        has_own = isinstance(like.shortcut, TimeConvolution)
        self.shortcut = convolution(like.shortcut) if has_own else nn.Identity()

    def forward(self, features: Tensor, seen: Tensor) -> Tensor:
        scale, offset = self.film(seen).unsqueeze(-1).chunk(2, 1)
        return self.second(scale * self.first(features) + offset) + self.shortcut(features)


def convolution_block(like: nn.Sequential) -> nn.Sequential:
    norm = like[1]
    assert isinstance(norm, TimeGroupNorm)
    plain = nn.GroupNorm(GROUPS, len(norm.weight))
    plain.load_state_dict(norm.state_dict())
    return nn.Sequential(convolution(like[0]), plain, nn.Mish())


def convolution(like: nn.Module) -> nn.Conv1d:
    assert isinstance(like, TimeConvolution)
    inputs, outputs = like.weight.shape[0] // like.kernel, like.weight.shape[1]
    plain = nn.Conv1d(inputs, outputs, like.kernel, like.stride, like.padding)
    weight = like.weight.detach().view(like.kernel, inputs, outputs).permute(2, 1, 0)
    plain.load_state_dict({"weight": weight.contiguous(), "bias": like.bias.detach()})
    return plain


def upsampling(like: nn.Module) -> nn.ConvTranspose1d:
    assert isinstance(like, TimeUpsampling)
    channels = len(like.bias)
    (last, second), (third, first) = (one.split(channels) for one in like.weight.detach())
    plain = nn.ConvTranspose1d(channels, channels, 4, 2, 1)
    plain.load_state_dict({"weight": torch.stack([first, second, third, last], -1), "bias": like.bias.detach()})
    return plain


@torch.inference_mode()
def timed(call: Callable[[], Tensor], repeats: int) -> list[tuple[float, float]]:
    """Milliseconds of each call: of the processor, and of the wall clock."""
    for _ in range(3 if repeats > 1 else 0):
        call()
    found = []
    for _ in range(repeats):
        began, wall = time.thread_time(), time.perf_counter()
        call()
        found.append((1e3 * (time.thread_time() - began), 1e3 * (time.perf_counter() - wall)))
    return found


if __name__ == "__main__":
    main()
