"""A policy's and a value's perceptron in one compiled kernel: forward, and the gradient of PPO's loss by hand.

Samples go through both networks in blocks that stay in a core's first caches, from the observation to the gradient,
without the interpreter and without its lock. Matrix products are those of BLAS. All functions are in this one file:
numba's cache notices changes in the file of the outermost function alone.

Shapes: M samples, D numbers of an observation, A outputs of the policy, P numbers of a network end to end; a layer's
weights are [outputs, inputs]. `layers` is int64 [L, 4]: of each layer inputs, outputs, and where its weights and its
bias begin among the P. `scaling` is float32 [3, D]: what is taken from an observation, what it is times then, and how
large it may become; observations are stored as they were seen.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from paddock.sim.kernels.compile import kernel
from paddock.sim.kernels.compiling import announced

_part: Any = numba.njit(error_model="numpy")
BLOCK = 64  # samples
LARGEST_PRODUCT = 64**3  # multiplications of a matrix product that BLAS never shares among threads of its own
TANH, RELU = 0, 1
LOG_SQRT_TWO_PI = np.float32(0.9189385332046727)

LEARNING = "the kernel of learning", "about 15 s"

# Where options of the loss lie in its array.
VALUE_COEF, ENTROPY_COEF, VALUE_CLIP, LOG_STD_GAIN, WHOLE = range(5)


@_part
def _activate(kind: int, array: Any) -> None:
    """In place, [n]. The hyperbolic tangent is a ratio of polynomials (the minimax one of Eigen), to within 3e-7."""
    if kind == RELU:
        for i in range(array.size):
            array[i] = array[i] if array[i] > 0 else np.float32(0)
        return
    for i in range(array.size):
        x = array[i]
        x = np.float32(7.9) if x > np.float32(7.9) else x
        x = np.float32(-7.9) if x < np.float32(-7.9) else x
        s = x * x
        p = np.float32(-2.76076847742355e-16) * s + np.float32(2.00018790482477e-13)
        p = p * s + np.float32(-8.60467152213735e-11)
        p = p * s + np.float32(5.12229709037114e-08)
        p = p * s + np.float32(1.48572235717979e-05)
        p = p * s + np.float32(6.37261928875436e-04)
        p = p * s + np.float32(4.89352455891786e-03)
        q = np.float32(1.19825839466702e-06) * s + np.float32(1.18534705686654e-04)
        q = q * s + np.float32(2.26843463243900e-03)
        q = q * s + np.float32(4.89352518554385e-03)
        array[i] = x * p / q


@_part
def _times_slope(kind: int, slope: Any, activated: Any) -> None:
    """`slope` [n] times the derivative of the activation, known by its result."""
    if kind == RELU:
        for i in range(slope.size):
            slope[i] = slope[i] if activated[i] > 0 else np.float32(0)
        return
    for i in range(slope.size):
        slope[i] *= np.float32(1) - activated[i] * activated[i]


@_part
def _weights(values: Any, layer: Any) -> Any:
    return values[layer[2] : layer[2] + layer[0] * layer[1]].reshape(layer[1], layer[0])


@_part
def _forward(values: Any, layers: Any, kind: int, inputs: Any, kept: Any) -> None:
    """What each layer gives for a block [m, D], activated but for the last, into `kept` [L, ...]."""
    m = len(inputs)
    for number in range(len(layers)):
        layer = layers[number]
        outputs = layer[1]
        flat = kept[number, : m * outputs]
        result = flat.reshape(m, outputs)
        weights = _weights(values, layer)
        if number == 0:
            np.dot(inputs, weights.T, result)
        else:
            np.dot(kept[number - 1, : m * layer[0]].reshape(m, layer[0]), weights.T, result)
        bias = values[layer[3] : layer[3] + outputs]
        for i in range(m):
            for j in range(outputs):
                result[i, j] += bias[j]
        if number < len(layers) - 1:
            _activate(kind, flat)


@_part
def _backward(values: Any, layers: Any, kind: int, inputs: Any, kept: Any, room: Any, product: Any, found: Any) -> None:
    """Add to `found` [P] the gradient of a loss whose slope at the last layer's results is in `room[L - 1]`.

    room [L, ...]: slopes at the layers' results; product: room for the largest layer's weights.
    """
    m = len(inputs)
    for back in range(len(layers)):
        number = len(layers) - 1 - back
        layer = layers[number]
        before, outputs = layer[0], layer[1]
        slope = room[number, : m * outputs].reshape(m, outputs)
        if number < len(layers) - 1:
            _times_slope(kind, room[number, : m * outputs], kept[number, : m * outputs])
        part = product[: outputs * before].reshape(outputs, before)
        if number == 0:
            np.dot(slope.T, inputs, part)
        else:
            np.dot(slope.T, kept[number - 1, : m * before].reshape(m, before), part)
        place = found[layer[2] : layer[2] + outputs * before]
        flat = product[: outputs * before]
        for i in range(place.size):
            place[i] += flat[i]
        bias = found[layer[3] : layer[3] + outputs]
        for i in range(m):
            for j in range(outputs):
                bias[j] += slope[i, j]
        if number > 0:
            np.dot(slope, _weights(values, layer), room[number - 1, : m * before].reshape(m, before))


@_part
def _widest(layers: Any) -> int:
    return max(layers[:, 1].max(), layers[:, 0].max())


@_part
def _scale(scaling: Any, seen: Any, scaled: Any) -> None:
    """One observation [D], normalised."""
    for j in range(len(seen)):
        value = (seen[j] - scaling[0, j]) * scaling[1, j]
        limit = scaling[2, j]
        value = limit if value > limit else value
        scaled[j] = -limit if value < -limit else value


@kernel()
def evaluate(values: Any, layers: Any, kind: int, scaling: Any, observation: Any, result: Any) -> None:
    """The last layer's results [M, outputs] for observations [M, D]."""
    kept = np.empty((len(layers), BLOCK * _widest(layers)), np.float32)
    outputs, last = layers[-1, 1], len(layers) - 1
    room = np.empty((BLOCK, observation.shape[1]), np.float32)
    for start in range(0, len(observation), BLOCK):
        block = room[: min(BLOCK, len(observation) - start)]
        for i in range(len(block)):
            _scale(scaling, observation[start + i], block[i])
        _forward(values, layers, kind, block, kept)
        result[start : start + BLOCK] = kept[last, : len(block) * outputs].reshape(len(block), outputs)


@_part
def _gaussian(mean: Any, log_std: Any, action: Any, slope: Any) -> Any:
    """The log-probability of an action [A]; its derivatives by the mean into `slope` [A]."""
    log_prob = np.float32(0)
    for j in range(len(mean)):
        inverse = np.exp(-log_std[j])
        standard = (action[j] - mean[j]) * inverse
        log_prob += np.float32(-0.5) * standard * standard - log_std[j] - LOG_SQRT_TWO_PI
        slope[j] = standard * inverse
    return log_prob


@_part
def _categorical(logits: Any, choice: int, slope: Any, share: Any) -> Any:
    """The log-probability of a choice and the entropy; by the logits [A] derivatives of the first into `slope`,
    probabilities into `share`."""
    largest = logits[0]
    for j in range(1, len(logits)):
        largest = max(largest, logits[j])
    total = np.float32(0)
    for j in range(len(logits)):
        share[j] = np.exp(logits[j] - largest)
        total += share[j]
    log_total = np.log(total) + largest
    entropy = np.float32(0)
    for j in range(len(logits)):
        share[j] /= total
        slope[j] = -share[j]
        entropy -= share[j] * (logits[j] - log_total)
    slope[choice] += np.float32(1)
    return logits[choice] - log_total, entropy


@_part
def _value_slope(value: Any, target: Any, old: Any, clip: Any) -> Any:
    """The squared error of a value and its derivative; clipped ones learn no further (`clip` < 0 for not at all)."""
    error = value - target
    if clip >= 0:
        moved = min(max(value - old, -clip), clip)
        near = old + moved - target
        if near * near > error * error:
            return near * near, np.float32(2) * near * np.float32(moved == value - old)
    return error * error, np.float32(2) * error


@kernel()
def gradients(
    policy: Any,
    policy_layers: Any,
    log_std_at: int,
    value: Any,
    value_layers: Any,
    kind: int,
    scaling: Any,
    observation: Any,
    action: Any,
    choice: Any,
    rows: Any,
    log_prob_then: Any,
    advantage: Any,
    ratio_low: Any,
    ratio_high: Any,
    target: Any,
    value_then: Any,
    options: Any,
    policy_found: Any,
    value_found: Any,
) -> float:
    """The loss of M samples, over `options[WHOLE]` of them, and its gradients [P] of both networks.

    rows: int64 [M], which of N observations [N, D] and actions the samples are. action: float32 [N, A], choice: int64
    [N]; one of them is empty. log_std_at: where the free log std begins, -1 where
    actions are choices. log_prob_then, value_then: of the policy and the value that the update began with. target: the
    return. ratio_low, ratio_high: between which the probability ratio counts. All of them float32 [M].
    """
    policy_found[:] = 0
    value_found[:] = 0
    is_discrete = log_std_at < 0
    outputs = policy_layers[-1, 1]
    p_last, v_last = len(policy_layers) - 1, len(value_layers) - 1
    p_widest, v_widest = _widest(policy_layers), _widest(value_layers)
    p_kept = np.empty((p_last + 1, BLOCK * p_widest), np.float32)
    v_kept = np.empty((v_last + 1, BLOCK * v_widest), np.float32)
    p_room, v_room = np.empty_like(p_kept), np.empty_like(v_kept)
    product = np.empty(max(p_widest, v_widest) ** 2, np.float32)
    share, slope = np.empty(outputs, np.float32), np.empty(outputs, np.float32)
    gain, scale = options[LOG_STD_GAIN], np.float32(1) / options[WHOLE]
    log_std = np.zeros(0 if is_discrete else outputs, np.float32)
    for j in range(len(log_std)):
        log_std[j] = gain * policy[log_std_at + j]
    log_std_slope = np.zeros(len(log_std), np.float32)
    value_coef, entropy_coef = options[VALUE_COEF], options[ENTROPY_COEF]
    loss = 0.0
    room = np.empty((BLOCK, observation.shape[1]), np.float32)
    for start in range(0, len(rows), BLOCK):
        m = min(BLOCK, len(rows) - start)
        block = room[:m]
        for i in range(m):
            _scale(scaling, observation[rows[start + i]], block[i])
        _forward(policy, policy_layers, kind, block, p_kept)
        _forward(value, value_layers, kind, block, v_kept)
        shown = p_kept[p_last, : m * outputs].reshape(m, outputs)
        slopes = p_room[p_last, : m * outputs].reshape(m, outputs)
        for i in range(m):
            at, entropy = start + i, np.float32(0)
            if is_discrete:
                log_prob, entropy = _categorical(shown[i], choice[rows[at]], slope, share)
            else:
                log_prob = _gaussian(shown[i], log_std, action[rows[at]], slope)
            # Eq. 7, arXiv:1707.06347: the advantage times the ratio, bounded on the side where it stops to pay.
            ratio = np.exp(log_prob - log_prob_then[at])
            bounded = min(max(ratio, ratio_low[at]), ratio_high[at])
            loss -= bounded * advantage[at] * scale
            by_log_prob = -ratio * advantage[at] * scale if bounded == ratio else np.float32(0)
            for j in range(outputs):
                slopes[i, j] = by_log_prob * slope[j]
            if is_discrete:
                if entropy_coef != 0:
                    loss -= entropy_coef * entropy * scale
                    for j in range(outputs):
                        log_share = np.log(max(share[j], np.float32(1e-30)))
                        slopes[i, j] += entropy_coef * scale * share[j] * (log_share + entropy)
            else:
                for j in range(outputs):
                    standard = slope[j] * np.exp(log_std[j])
                    log_std_slope[j] += by_log_prob * (standard * standard - np.float32(1))
            error, by_value = _value_slope(v_kept[v_last, i], target[at], value_then[at], options[VALUE_CLIP])
            loss += value_coef * error * scale
            v_room[v_last, i] = value_coef * by_value * scale
        _backward(policy, policy_layers, kind, block, p_kept, p_room, product, policy_found)
        _backward(value, value_layers, kind, block, v_kept, v_room, product, value_found)
    for j in range(len(log_std)):
        of_entropy = entropy_coef * scale * np.float32(len(rows))
        loss -= of_entropy * (np.float32(0.5) + LOG_SQRT_TWO_PI + log_std[j])
        policy_found[log_std_at + j] = gain * (log_std_slope[j] - of_entropy)
    return loss


def warm_up() -> None:
    """Compile the kernels, or take them from the disk; says so where it takes long."""
    layers, numbers = np.array([[1, 1, 0, 1]]), np.zeros(2, np.float32)
    row, scaling, many = np.zeros((1, 1), np.float32), np.ones((3, 1), np.float32), np.zeros(1, np.float32)
    options, rows = np.ones(5, np.float32), np.zeros(1, np.int64)
    with announced(LEARNING):
        evaluate(numbers, layers, TANH, scaling, row, row.copy())
        samples = row, row, rows, rows, many, many, many, many, many, many
        gradients(numbers, layers, 0, numbers, layers, TANH, scaling, *samples, options, numbers.copy(), numbers.copy())
