"""The autoencoder of World Models against naive losses and the published size; numbers as their own latent."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from paddock.components.representation_learners.conv_vae import (
    ConvVAE,
    ConvVAEConfig,
    kl_to_unit_normal,
    parameter_count,
    sample_latent,
)
from paddock.components.representation_learners.identity import IdentityConfig, IdentityRepresentation
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

TARGET = "paddock.components.representation_learners.conv_vae.ConvVAE"
SMALL = {"latent": 6, "channels": [8, 16], "decoder_kernels": [5, 8]}
ACTION = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)


def picture(size=16, channels=3, first=False):
    shape = (channels, size, size) if first else (size, size, channels)
    return ArraySpec(shape=shape, dtype="uint8", low=0, high=255)


def vae(observation, **options):
    torch.manual_seed(1)
    spec = Spec(observation=observation, action=ACTION, is_dict=True)
    return ConvVAE(ConvVAEConfig(_target_=TARGET, **options), spec)


def bytes_like(shape):
    return torch.randint(256, shape, dtype=torch.uint8)


def test_conv_vae_at_its_defaults_has_the_published_number_of_parameters():
    assert parameter_count(vae({"picture": picture(64)})) == 4_348_547
    assert parameter_count(vae({"picture": picture(64)}, latent=64)) == 4_446_915


def test_conv_vae_of_a_quarter_of_the_channels_paints_pictures_of_the_same_shape():
    small = vae({"picture": picture(64, 1)}, channels=[8, 16, 32, 64])
    mean, log_variance = small.encode({"picture": bytes_like((2, 64, 64, 1))})
    assert mean.shape == log_variance.shape == (2, 32)
    assert small.decode(mean)["picture"].shape == (2, 64, 64, 1)


def test_conv_vae_loss_is_the_naive_one():
    small, pixels = vae({"picture": picture()}, **SMALL, free_nats=0.0), bytes_like((5, 16, 16, 3))
    torch.manual_seed(2)
    losses = small.losses({"picture": pixels})
    torch.manual_seed(2)
    with torch.no_grad():
        mean, log_variance = small.encode({"picture": pixels})
        noise = torch.randn_like(mean)
        errors, divergences = [], []
        for k in range(5):
            latent = mean[k] + (0.5 * log_variance[k]).exp() * noise[k]
            painted = small.decode(latent.unsqueeze(0))["picture"][0] / 255
            errors.append(((painted - pixels[k] / 255) ** 2).sum())
            exact = kl_divergence(Normal(mean[k], (0.5 * log_variance[k]).exp()), Normal(0.0, 1.0))
            divergences.append(exact.sum())
    assert losses["reconstruction"].item() == pytest.approx(float(sum(errors) / 5), rel=1e-4)
    assert losses["kl"].item() == pytest.approx(float(sum(divergences) / 5), rel=1e-4)


def test_free_nats_of_conv_vae_are_of_the_whole_latent_and_have_no_gradient():
    small = vae({"picture": picture()}, **SMALL, free_nats=5.0)
    losses = small.losses({"picture": bytes_like((4, 16, 16, 3))})
    assert losses["kl"].item() == pytest.approx(30.0)
    losses["kl"].backward()
    assert small.mean.weight.grad.abs().sum() == 0


def test_a_drawn_latent_has_the_mean_and_variance_that_were_given():
    mean, log_variance = torch.tensor([1.0, -2.0]), torch.tensor([0.0, 2.0]).log().nan_to_num(neginf=-20)
    torch.manual_seed(0)
    drawn = sample_latent(mean.expand(50_000, 2), log_variance.expand(50_000, 2))
    assert drawn.mean(0).tolist() == pytest.approx([1.0, -2.0], abs=0.03)
    assert drawn[:, 1].var().item() == pytest.approx(2.0, rel=0.05)
    assert kl_to_unit_normal(torch.zeros(3, 2), torch.zeros(3, 2)).tolist() == [0, 0, 0]


def test_conv_vae_learns_to_paint_what_it_sees():
    small = vae({"picture": picture(16, 1)}, **SMALL)
    pixels = torch.zeros(64, 16, 16, 1, dtype=torch.uint8)
    for k in range(64):
        pixels[k, :, max(k % 16 - 2, 0) : k % 16 + 3] = 255  # a bright bar, somewhere
    optimizer = torch.optim.Adam(small.parameters(), 3e-3)
    errors = []
    for _ in range(120):
        losses = small.losses({"picture": pixels})
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        errors.append(losses["reconstruction"].item())
    average = (pixels.float() / 255).var(0, unbiased=False).sum().item()  # the error of the mean picture
    assert errors[-1] < 0.25 * average < errors[0]


@pytest.mark.parametrize("first", [False, True])
def test_numbers_beside_the_picture_are_latents_that_are_known(first):
    parts = {"speed": ArraySpec(shape=(2,), dtype="float32"), "picture": picture(16, 1, first)}
    small = vae(parts, **SMALL)
    shape = (30, 1, 16, 16) if first else (30, 16, 16, 1)
    seen = {"speed": torch.randn(30, 2) * 4 + 7, "picture": bytes_like(shape)}
    small.learn_scale(seen)
    mean, log_variance = small.encode(seen)
    assert mean.shape == (30, 8)
    assert mean[:, 6:].mean().item() == pytest.approx(0, abs=1e-3)
    assert log_variance[:, 6:].max() < -8
    back = small.decode(mean)
    assert list(back) == list(parts)
    assert torch.allclose(back["speed"], seen["speed"], atol=1e-3)
    assert back["picture"].shape == shape


def test_conv_vae_refuses_what_it_cannot_paint_with_a_remedy():
    with pytest.raises(InputError, match="For 64 pixels take"):
        vae({"picture": picture(32)}, **SMALL)
    with pytest.raises(InputError, match="too small"):
        vae({"picture": picture(8)}, latent=4, channels=[4, 4, 4], decoder_kernels=[2, 2, 2])
    with pytest.raises(InputError, match="one picture"):
        vae({"speed": ArraySpec(shape=(2,), dtype="float32")})


def test_identity_representation_is_the_standardized_observation_and_back():
    spec = Spec(observation={"observation": ArraySpec(shape=(3,), dtype="float32")}, action=ACTION)
    same = IdentityRepresentation(IdentityConfig(_target_="x"), spec)
    seen = {"observation": torch.randn(100, 3) * 5 - 2}
    same.learn_scale(seen)
    mean, log_variance = same.encode(seen)
    assert same.latent_size == 3
    assert mean.std(0).tolist() == pytest.approx([1, 1, 1], rel=0.02)
    assert torch.allclose(same.decode(mean)["observation"], seen["observation"], atol=1e-3)
    assert (log_variance < -8).all()
    with pytest.raises(InputError, match="ConvVAE"):
        IdentityRepresentation(IdentityConfig(_target_="x"), Spec(observation={"picture": picture()}, action=ACTION))
