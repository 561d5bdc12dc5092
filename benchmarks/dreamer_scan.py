"""The recurrent parts of a DreamerV3 update in JAX, compiled as scans, at the shapes of Paddock's 1M size.

Run by benchmarks/dreamer_throughput.py --jax PYTHON, in an environment with `jax`; speaks over pipes: each line it gets
is a number of rounds, each line it writes the seconds of every part.
"""

import json
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp

B, T, H, DETER, HIDDEN, GROUPS, CLASSES, ACTION, UNITS = 16, 64, 15, 512, 64, 32, 4, 6, 64
STOCH = GROUPS * CLASSES


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-3)


def layer(w, x):
    return jax.nn.silu(norm(x @ w))


def probabilities(logits):
    return 0.99 * jax.nn.softmax(logits.reshape(*logits.shape[:-1], GROUPS, CLASSES)) + 0.01 / CLASSES


def draw(key, logits):
    p = probabilities(logits)
    hard = jax.nn.one_hot(jax.random.categorical(key, jnp.log(p)), CLASSES)
    return (hard + p - jax.lax.stop_gradient(p)).reshape(*logits.shape)


def memory(w, deter, stoch, action):
    shared = jnp.concatenate([layer(w["d"], deter), layer(w["s"], stoch), layer(w["a"], action)], -1)
    blocks = deter.reshape(-1, 8, DETER // 8)
    own = jnp.einsum("bgi,gio->bgo", blocks, w["own"]).reshape(deter.shape)
    hidden = jax.nn.silu(norm(own + shared @ w["shared"])).reshape(-1, 8, DETER // 8)
    gates = jnp.einsum("bgi,gio->bgo", hidden, w["gates"])
    reset, candidate, update = (part.reshape(deter.shape) for part in jnp.split(gates, 3, -1))
    update = jax.nn.sigmoid(update - 1)
    return update * jnp.tanh(jax.nn.sigmoid(reset) * candidate) + (1 - update) * deter


def model_loss(w, key, seen, action):
    """The posterior along sequences and its divergence from the prior, everything else hoisted."""

    def step(carry, inputs):
        deter, stoch = carry
        seen, action, key = inputs
        deter = memory(w, deter, stoch, action)
        posterior = layer(w["post"], jnp.concatenate([deter, seen], -1)) @ w["post_out"]
        stoch = draw(key, posterior)
        return (deter, stoch), (deter, posterior)

    start = jnp.zeros((B, DETER)), jnp.zeros((B, STOCH))
    _, (deter, posterior) = jax.lax.scan(step, start, (seen, action, jax.random.split(key, T)))
    prior = layer(w["prior2"], layer(w["prior"], deter)) @ w["prior_out"]
    p, q = probabilities(posterior), probabilities(prior)
    return (p * (jnp.log(p) - jnp.log(q))).sum((-1, -2)).mean()


def imagine(w, key, deter, stoch):
    def step(carry, key):
        deter, stoch = carry
        first, second = jax.random.split(key)
        hidden = jnp.concatenate([deter, stoch], -1)
        for name in ("pi", "pi2", "pi3"):
            hidden = layer(w[name], hidden)
        mean, raw = jnp.split(hidden @ w["pi_out"], 2, -1)
        action = jnp.tanh(mean) + (0.1 + 0.9 * jax.nn.sigmoid(raw + 2)) * jax.random.normal(first, mean.shape)
        deter = memory(w, deter, stoch, jnp.clip(action, -1, 1))
        prior = layer(w["prior2"], layer(w["prior"], deter)) @ w["prior_out"]
        stoch = draw(second, prior)
        return (deter, stoch), jnp.concatenate([deter, stoch], -1)

    return jax.lax.scan(step, (deter, stoch), jax.random.split(key, H))[1]


def weights(key):
    shapes = {
        "d": (DETER, HIDDEN), "s": (STOCH, HIDDEN), "a": (ACTION, HIDDEN), "own": (8, DETER // 8, DETER // 8),
        "shared": (3 * HIDDEN, DETER), "gates": (8, DETER // 8, 3 * DETER // 8), "post": (DETER + UNITS, HIDDEN),
        "post_out": (HIDDEN, STOCH), "prior": (DETER, HIDDEN), "prior2": (HIDDEN, HIDDEN), "prior_out": (HIDDEN, STOCH),
        "pi": (DETER + STOCH, UNITS), "pi2": (UNITS, UNITS), "pi3": (UNITS, UNITS), "pi_out": (UNITS, 2 * ACTION),
    }  # fmt: skip
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(one, shape) / shape[-2] ** 0.5
        for one, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def main():
    key = jax.random.key(0)
    w = weights(key)
    seen, action = jax.random.normal(key, (T, B, UNITS)), jax.random.normal(key, (T, B, ACTION))
    deter, stoch = jax.random.normal(key, (B * T, DETER)), jax.random.normal(key, (B * T, STOCH))
    parts = {
        "model": partial(jax.jit(jax.value_and_grad(model_loss)), w, key, seen, action),
        "imagine": partial(jax.jit(imagine), w, key, deter, stoch),
    }
    for work in parts.values():
        jax.block_until_ready(work())
    print("ready", flush=True)
    for line in sys.stdin:
        spent = {}
        for name, work in parts.items():
            started, used = time.perf_counter(), time.process_time()
            for _ in range(int(line)):
                jax.block_until_ready(work())
            spent[name] = [(time.perf_counter() - started) / int(line), (time.process_time() - used) / int(line)]
        print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    main()
