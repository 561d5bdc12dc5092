"""Networks over chunks of actions: FiLM MLP, U-Net, transformer, and their convolutions against torch's own."""

import copy

import pytest
import torch
from torch import nn

from paddock.components.networks.chunk_transformer import ChunkTransformer, ChunkTransformerConfig
from paddock.components.networks.chunks import ChunkSizes, SinusoidalEmbedding
from paddock.components.networks.film_mlp import FilmMLP, FilmMLPConfig
from paddock.components.networks.time_convolution import TimeConvolution, TimeGroupNorm, TimeUpsampling
from paddock.components.networks.unet import UNet, UNetConfig
from paddock.core.errors import InputError

SIZES = ChunkSizes(horizon=8, inputs=3, outputs=2, history=2, features=5)


def film_mlp(sizes=SIZES, **options):
    return FilmMLP(FilmMLPConfig(_target_="paddock.x", **{"width": 32, "blocks": 2, **options}), sizes)


def unet(sizes=SIZES, **options):
    return UNet(UNetConfig(_target_="paddock.x", **{"channels": [16, 32], "time_size": 16, **options}), sizes)


def transformer(sizes=SIZES, **options):
    config = ChunkTransformerConfig(_target_="paddock.x", **{"width": 16, "layers": 2, "heads": 2, **options})
    return ChunkTransformer(config, sizes).eval()


@pytest.mark.parametrize("make", [film_mlp, unet, transformer])
def test_chunk_network_depends_on_chunk_time_and_every_observation(make):
    torch.manual_seed(0)
    network = make()
    for parameter in network.parameters():  # Some begin as zeros, which depend on nothing.
        nn.init.normal_(parameter, 0.0, 0.2)
    chunk, time, condition = torch.randn(4, 8, 3), torch.rand(4), torch.randn(4, 2, 5)
    answer = network(chunk, time, condition)
    assert answer.shape == (4, 8, 2)
    assert not torch.allclose(network(chunk + 1, time, condition), answer)
    assert not torch.allclose(network(chunk, time + 0.3, condition), answer)
    for one in range(2):
        other = condition.clone()
        other[:, one] += 1.0
        assert not torch.allclose(network(chunk, time, other), answer)


def test_film_mlp_equals_a_plain_version():
    torch.manual_seed(0)
    network = film_mlp(time_size=8, condition_size=12)
    nn.init.normal_(network.film.weight, 0.0, 0.3)
    chunk, time, condition = torch.randn(3, 8, 3), torch.rand(3), torch.randn(3, 2, 5)
    frequencies = [100 * 10_000 ** (-i / 3) for i in range(4)]
    for one in range(3):
        angles = torch.tensor([float(time[one]) * f for f in frequencies])
        times = network.time[1](torch.cat([angles.sin(), angles.cos()]))
        seen = nn.functional.silu(network.condition(condition[one].flatten()) + times)
        film = network.film(seen).view(2, 2, 32)
        features = network.first(chunk[one].flatten())
        for index, block in enumerate(network.blocks):
            normed = (features - features.mean()) / (features.var(correction=0) + 1e-5).sqrt()
            hidden = block.first(nn.functional.silu(normed * (1 + film[index, 0]) + film[index, 1]))
            features = features + block.second(nn.functional.silu(hidden))
        assert torch.allclose(network.last(features).view(8, 2), network(chunk, time, condition)[one], atol=1e-4)


@pytest.mark.parametrize(("kernel", "stride", "steps"), [(5, 1, 16), (3, 2, 16), (3, 2, 7), (1, 1, 4)])
def test_time_convolution_equals_conv1d(kernel, stride, steps):
    plain = nn.Conv1d(6, 9, kernel, stride, padding=kernel // 2)
    ours = TimeConvolution(6, 9, kernel, stride=stride)
    ours.load_convolution(plain.weight, plain.bias)
    sequence = torch.randn(3, steps, 6)
    assert torch.allclose(ours(sequence), plain(sequence.transpose(1, 2)).transpose(1, 2), atol=1e-5)


def test_time_upsampling_equals_conv_transpose1d():
    plain = nn.ConvTranspose1d(6, 6, 4, 2, 1)
    ours = TimeUpsampling(6)
    ours.load_convolution(plain.weight, plain.bias)
    sequence = torch.randn(3, 5, 6)
    assert torch.allclose(ours(sequence), plain(sequence.transpose(1, 2)).transpose(1, 2), atol=1e-5)


@pytest.mark.parametrize("make", [lambda: TimeConvolution(6, 9, 5), lambda: TimeUpsampling(6)])
def test_weights_of_one_output_stay_side_by_side(make):
    """Also in a copy, and once weights were loaded that lay otherwise: products of few rows are faster so."""
    ours = make()
    saved = {name: value.contiguous() for name, value in ours.state_dict().items()}
    loaded = make()
    loaded.load_state_dict(saved)
    for one in (ours, copy.deepcopy(ours), loaded):
        assert one.weight.stride(-2) == 1
        assert torch.equal(one.weight, ours.weight)
    assert ours.weight.shape == make().weight.shape == saved["weight"].shape


def test_time_group_norm_equals_group_norm():
    plain, ours = nn.GroupNorm(4, 12), TimeGroupNorm(4, 12)
    for one in (plain, ours):
        nn.init.normal_(one.weight, generator=torch.Generator().manual_seed(1))
        nn.init.normal_(one.bias, generator=torch.Generator().manual_seed(2))
    sequence = torch.randn(3, 5, 12) * 3 + 1
    assert torch.allclose(ours(sequence), plain(sequence.transpose(1, 2)).transpose(1, 2), atol=1e-5)


def test_published_unet_has_as_many_parameters_as_published():
    sizes = ChunkSizes(horizon=16, inputs=2, outputs=2, history=2, features=20)
    with torch.device("meta"):
        network = UNet(UNetConfig(_target_="paddock.x"), sizes)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == pytest.approx(65.8e6, rel=0.01)


def test_unet_refuses_a_horizon_that_cannot_be_halved():
    with pytest.raises(InputError, match="multiple of 4"):
        unet(ChunkSizes(horizon=10, inputs=3, outputs=2, history=2, features=5), channels=[16, 32, 64])


def test_transformer_steps_do_not_see_later_ones():
    torch.manual_seed(0)
    network = transformer()
    chunk, time, condition = torch.randn(2, 8, 3), torch.rand(2), torch.randn(2, 2, 5)
    before = network(chunk, time, condition)
    chunk[:, 5:] += 1.0
    after = network(chunk, time, condition)
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_sinusoidal_embedding_tells_times_apart():
    times = torch.linspace(0, 1, 101)
    distances = torch.cdist(SinusoidalEmbedding(64)(times), SinusoidalEmbedding(64)(times))
    assert distances[~torch.eye(101, dtype=torch.bool)].min() > 0.1
