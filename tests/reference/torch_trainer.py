"""Reference for poseidon-train: trains a case of random_networks.py with PyTorch, in any precision. It is written only
from docs/config.md and the comments of layers/*.h."""

import math

import numpy as np
import torch
import torch.nn.functional as F

import philox
from make_golden import LAYERS, LOSSES
from random_networks import STEPS


def pair(value):
    return value if isinstance(value, list) else [value, value]


def pooling(inputs, p, f):
    x = inputs[0]
    if "windows" in f:
        return F.adaptive_avg_pool2d(x, f["windows"])
    if f.get("global"):
        return x.amax((2, 3), keepdim=True) if f["method"] == "max" else x.mean((2, 3), keepdim=True)
    best = f["method"] == "max"
    windows, area = windows_of(x, f, -math.inf if best else 0.0)
    if best:
        return windows.max(-1).values
    cells = torch.tensor(area[0]).to(x)[:, None] * torch.tensor(area[1]).to(x)[None, :]
    return windows.sum(-1) / cells


def windows_of(x, f, beyond):
    """The cells of each window (samples, channels, rows, columns, cells), and for each axis the numbers of a window's
    cells in the padded input. Supports any padding below the kernel's size, unlike PyTorch. `beyond`: the padding
    value."""
    kernel, stride, padding = pair(f["kernel"]), pair(f["stride"]), f.get("padding", 0)
    ceil = f.get("rounding", "ceil") == "ceil"
    total, area = [], []
    for axis in range(2):
        extent, k, s = x.shape[2 + axis], kernel[axis], stride[axis]
        count = (extent + 2 * padding - k + (s - 1 if ceil else 0)) // s + 1
        if (count - 1) * s >= extent + padding:
            count -= 1
        total.append((count, max(0, (count - 1) * s + k - extent - padding)))
        # A mean divides by the part of the window in the padded input.
        area.append([min(i * s + k, extent + 2 * padding) - i * s for i in range(count)])
    (rows, below), (columns, right) = total
    x = F.pad(x, (padding, right, padding, below), value=beyond)
    windows = x.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1])[:, :, :rows, :columns]
    return windows.flatten(4), area


def stochastic_pooling(x, f, chances):
    """Training: takes for each window the first cell at which the running sum reaches chance * sum, else the last cell.
    `chances`: (samples, channels, rows * columns)."""
    windows, _ = windows_of(x, f, 0.0)
    inside = windows_of(torch.ones_like(x[:1, :1]), f, 0.0)[0] > 0
    wanted = chances.to(x.dtype).reshape(windows.shape[:-1])[..., None] * windows.sum(-1, keepdim=True)
    reached = (windows.detach().cumsum(-1) >= wanted.detach()) & inside
    cells = windows.shape[-1]
    last = (inside * torch.arange(1, cells + 1)).argmax(-1).expand(windows.shape[:-1])
    taken = torch.where(reached.any(-1), reached.to(torch.int8).argmax(-1), last)
    return windows.gather(-1, taken[..., None])[..., 0]


def lrn(inputs, p, f):
    x, size, k = inputs[0], f["size"], f["k"]
    if f.get("region") == "within_channel":
        return LAYERS["lrn"](inputs, p, f)
    squares = F.pad((x * x).movedim(1, -1), (size // 2, size // 2)).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (k + f["alpha"] * squares / size) ** f["beta"]


def batch_norm(inputs, p, f):
    x = inputs[0]
    axes = [0] + list(range(2, x.dim()))
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
    shape = [1, -1] + [1] * (x.dim() - 2)
    return (x - mean) / torch.sqrt(variance + f.get("epsilon", 1e-5)) * p[0].view(shape) + p[1].view(shape)


def tested_batch_norm(inputs, p, f, statistics):
    shape = [1, -1] + [1] * (inputs[0].dim() - 2)
    mean, variance, scale, shift = (values.view(shape) for values in [*statistics, *p])
    return (inputs[0] - mean) / torch.sqrt(variance + f.get("epsilon", 1e-5)) * scale + shift


def threshold(inputs, p, f):
    return (inputs[0] > f.get("threshold", 0.0)).to(inputs[0].dtype) + 0 * inputs[0]


OWN_LAYERS = {**LAYERS, "pooling": pooling, "lrn": lrn, "batch_norm": batch_norm, "threshold": threshold}


def specs_of(layer, inputs):
    """For each parameter of a layer: name, shape, key of the filler, and default filler."""
    kind, channels = layer["type"], inputs[0].shape[1]
    zero, one, quarter = ({"type": "constant", "value": value} for value in (0.0, 1.0, 0.25))
    shapes = {"linear": lambda: (layer["outputs"], inputs[0][0].numel()),
              "convolution": lambda: (layer["outputs"], channels // layer.get("groups", 1), *pair(layer["kernel"])),
              "deconvolution": lambda: (channels, layer["outputs"] // layer.get("groups", 1), *pair(layer["kernel"]))}
    if kind in shapes:
        specs = [("weight", shapes[kind](), "weight_filler", zero), ("bias", (layer["outputs"],), "bias_filler", zero)]
        return specs if layer.get("bias", True) else specs[:1]
    if kind == "scale":
        factor = [("scale", (channels,), "scale_filler", one)] if len(inputs) == 1 else []
        return factor + ([("bias", (channels,), "bias_filler", zero)] if layer.get("bias") else [])
    return {"batch_norm": [("scale", (channels,), "scale_filler", one), ("shift", (channels,), "shift_filler", zero)],
            "bias": [("bias", (channels,), "filler", zero)],
            "prelu": [("slope", (1 if layer.get("shared") else channels,), "slope_filler", quarter)]}.get(kind, [])


def stochastic_mean(x, f):
    """Tests: the mean of each window's cells, weighted by their shares of the window's sum."""
    windows, _ = windows_of(x, f, 0.0)
    total = windows.sum(-1)
    return torch.where(total > 0, windows.square().sum(-1) / total, torch.zeros_like(total))


class Model:
    def __init__(self, case, dtype, noise):
        self.case, self.dtype = case, dtype
        self.noise = np.random.default_rng(noise) if noise else None
        self.seed = case.job["train"]["seed"]
        self.parameters = {}  # by name, made at first use
        self.rates, self.decays = {}, {}
        self.statistics, self.momenta = {}, {}  # by name
        self.contributions = {}  # contributions of this step's shards to statistics, by name

    def parameter(self, layer, index, name, shape, filler, usual):
        full = layer["name"] + "." + name
        if full not in self.parameters:
            values = fill(layer.get(filler, usual), int(np.prod(shape)), int(np.prod(shape[1:])), self.seed, full)
            values = values.reshape(shape)
            if self.noise is not None:
                steps = self.noise.integers(-1, 2, values.shape).astype(np.float32)
                values = values * (1 + steps * np.float32(2.0 ** -23))
            self.parameters[full] = torch.from_numpy(values).to(self.dtype).requires_grad_()
            self.rates[full] = float((layer.get("learning_rate_multipliers", []) + [1, 1])[index]
                                     if index < len(layer.get("learning_rate_multipliers", [])) else 1)
            self.decays[full] = float(layer["decay_multipliers"][index]
                                      if index < len(layer.get("decay_multipliers", [])) else 1)
        return self.parameters[full]

    def parameters_of(self, layer, inputs):
        """The parameters of a layer. A layer that shares has those of the other layer."""
        if "shares" in layer:
            layer = next(other for other in self.case.layers if other["name"] == layer["shares"])
        return [self.parameter(layer, index, *spec) for index, spec in enumerate(specs_of(layer, inputs))]

    def words(self, purpose, layer, step, first, samples, count):
        """`count` random words for each sample."""
        stream = philox.name_hash(layer["name"]) ^ ((step * 0x9E3779B97F4A7C15) & philox.MASK64)
        return np.stack([philox.words(self.seed, purpose, stream, first + n, count) for n in range(samples)])

    def stochastic_pooling(self, layer, x, step, first):
        if layer.get("global"):
            layer = {**layer, "kernel": list(x.shape[2:]), "stride": 1}
        samples, channels, rows, columns = windows_of(x, layer, 0.0)[0].shape[:4]
        words = self.words(philox.POOLING, layer, step, first, samples, rows * columns * channels)
        chances = torch.from_numpy(1 - (words >> 8) / 2.0 ** 24).reshape(samples, rows * columns, channels)
        return stochastic_pooling(x, layer, chances.transpose(1, 2))

    def dropout(self, layer, x, step, first):
        words = self.words(philox.DROPOUT, layer, step, first, len(x), x[0].numel())
        kept = torch.from_numpy(words >= int(layer["probability"] * 2.0 ** 32)).reshape(x.shape)
        return x * kept.to(x.dtype) / (1 - layer["probability"])

    def test_loss_sum(self, given, labels, averages):
        """The test loss with EMA in place of the values that have one."""
        parameters, statistics = dict(self.parameters), dict(self.statistics)
        for name, average in averages.items():
            where = self.parameters if name.removesuffix(".average") in self.parameters else self.statistics
            where[name.removesuffix(".average")] = average
        try:
            return float(self.loss_sum(given, labels, None, 0))
        finally:
            self.parameters, self.statistics = parameters, statistics

    def in_test(self, layer, inputs):
        """The output of a layer type that differs between tests and training."""
        if layer["type"] == "dropout":
            return inputs[0]
        if layer["type"] == "batch_norm":
            statistics = [self.statistics[layer["name"] + name] for name in (".running_mean", ".running_var")]
            return tested_batch_norm(inputs, self.parameters_of(layer, inputs), layer, statistics)
        if layer.get("global"):
            layer = {**layer, "kernel": list(inputs[0].shape[2:]), "stride": 1}
        return stochastic_mean(inputs[0], layer)

    def loss_sum(self, given, labels, step, first):
        """The weighted losses of a shard, summed over its samples. `first`: index of its first sample. `given`: inputs
        by name. `step` None: test phase."""
        values, total = dict(given), 0.0
        waiting = list(self.case.test_layers if step is None else self.case.layers)
        while waiting:
            layer = next(l for l in waiting if all(name in values for name in l["inputs"]))
            waiting.remove(layer)
            inputs = [values[name] for name in layer["inputs"]]
            if layer["type"] in LOSSES:
                rows = [values.flatten(1) for values in inputs]
                total = total + layer.get("weight", 1.0) * LOSSES[layer["type"]](rows, labels, layer).sum()
            elif layer["type"] in ("accuracy", "argmax", "silence"):  # no loss depends on these
                values[layer["name"]] = inputs[0]
            elif step is None and (layer["type"] in ("dropout", "batch_norm") or layer.get("method") == "stochastic"):
                values[layer["name"]] = self.in_test(layer, inputs)
            elif layer.get("method") == "stochastic":
                values[layer["name"]] = self.stochastic_pooling(layer, inputs[0], step, first)
            elif layer["type"] == "dropout":
                values[layer["name"]] = self.dropout(layer, inputs[0], step, first)
            else:
                values[layer["name"]] = OWN_LAYERS[layer["type"]](inputs, self.parameters_of(layer, inputs), layer)
            if layer["type"] == "batch_norm" and step is not None:
                self.add_statistics(layer, inputs[0])
        return total

    def add_statistics(self, layer, x):
        """Adds a shard's contribution to the running statistics of a batch norm."""
        channels = x.detach().movedim(1, 0).flatten(1)
        values = {"running_mean": channels.mean(1), "running_var": channels.var(1, unbiased=channels.shape[1] > 1)}
        for name, value in values.items():
            self.contributions.setdefault(layer["name"] + "." + name, []).append(value)
            self.momenta[layer["name"] + "." + name] = layer.get("momentum", 0.1)

    def take_contributions(self):
        """The mean over the shards of a step for each statistic. Clears the contributions."""
        means = {name: torch.stack(values).mean(0) for name, values in self.contributions.items()}
        self.contributions = {}
        return means


def fill(filler, count, fan_in, seed, name):
    """First values (layers/filler.h)."""
    kind = filler["type"]
    if kind == "constant":
        return np.full(count, filler.get("value", 0.0), np.float32)
    bound = math.sqrt(3 / fan_in)
    low, high = {"uniform": (filler.get("minimum", -1), filler.get("maximum", 1)),
                 "xavier": (-bound, bound)}.get(kind, (0, 1))
    uniform = philox.uniform(seed, philox.INITIALIZATION, philox.name_hash(name), 0, count + 1, low, high)
    if kind in ("uniform", "xavier"):
        return uniform[:count]
    uniform = uniform[:count + count % 2].astype(np.float64)
    mean, deviation = (0, math.sqrt(2 / fan_in)) if kind == "he" else \
        (filler.get("mean", 0), filler.get("deviation", 0.01))
    radius, angle = np.sqrt(-2 * np.log(1 - uniform[0::2])), 2 * np.pi * uniform[1::2]
    pairs = mean + deviation * np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    return pairs.reshape(-1)[:count].astype(np.float32)


def uniform_values(words):
    """Two values of variance 1 for each random word after the first four."""
    halves = np.stack([words[4:] & 0xFFFF, words[4:] >> 16], 1).reshape(-1).astype(np.float32)
    return (halves - np.float32(32767.5)) * (np.sqrt(np.float32(12)) / np.float32(65536))


def sample(data, index):
    """A sample of the data set "random": its values, generated pixel by pixel, and its label."""
    shape = (data["height"], data["width"], data["channels"])
    count = int(np.prod(shape))
    words = philox.words(data["seed"], philox.GENERATION, 0, index, 4 + (count + 7) // 8 * 4)
    values = uniform_values(words)[:count]
    transform = data["transform"]
    factor = np.float32(transform.get("scale", 1.0)) / np.float32(transform.get("std", 1.0))
    values = (values - np.float32(transform.get("mean", 0.0))) * factor
    return values.reshape(shape).transpose(2, 0, 1), int(words[0]) * data["classes"] >> 32


def factor_of(schedule, step, steps):
    """The factor of the learning rate by a schedule."""
    kind, gamma = schedule.get("type", "fixed"), schedule.get("gamma", 0.1)
    warmup, least = schedule.get("warmup", 0), schedule.get("minimum", 0.0)
    progress = 0.0 if steps <= warmup else min(max((step - warmup) / (steps - warmup), 0.0), 1.0)
    factor = {
        "fixed": lambda: 1.0, "step": lambda: gamma ** (step // schedule["step_size"]),
        "multistep": lambda: gamma ** sum(step >= place for place in schedule["milestones"]),
        "exp": lambda: gamma ** step, "inv": lambda: (1 + gamma * step) ** -schedule.get("power", 1.0),
        "poly": lambda: least + (1 - least) * (1 - progress) ** schedule.get("power", 1.0),
        "sigmoid": lambda: 1 / (1 + math.exp(-gamma * (step - schedule["step_size"]))),
        "cosine": lambda: least + (1 - least) * 0.5 * (1 + math.cos(math.pi * progress))}[kind]()
    warmed = (step + 1) / warmup if warmup > 0 else 1
    start = schedule.get("warmup_start", 0.0)
    return factor * (start + (1 - start) * warmed if warmed < 1 else 1)


def auxiliary_values(data, index):
    """The auxiliary inputs of a sample of the data set "random", by name."""
    counts = [int(np.prod(extra["shape"])) for extra in data["extras"]]
    values = uniform_values(philox.words(data["seed"], philox.GENERATION, 2, index, 4 + (sum(counts) + 7) // 8 * 4))
    parts = np.split(values, np.cumsum(counts))
    return {extra["name"]: part.reshape(extra["shape"]) for extra, part in zip(data["extras"], parts)}


class Optimizer:
    def __init__(self, fields, model):
        self.fields, self.model, self.state, self.averages = fields, model, {}, {}

    def update_statistics(self, means):
        for name, mean in means.items():
            start = torch.full_like(mean, 1.0 if name.endswith("running_var") else 0.0)
            value = self.model.statistics.setdefault(name, start)
            value.add_(self.model.momenta[name] * (mean - value))

    def follow(self, step, learned):
        """Updates the EMA of learned parameters and of statistics."""
        decay = self.fields.get("average_decay", 0.0)
        if decay == 0:
            return
        rate = max(1 - decay, 10 / (10 + step))
        for name, value in {**{name: self.model.parameters[name].data for name in learned},
                            **self.model.statistics}.items():
            average = self.averages.setdefault(name + ".average", torch.zeros_like(value))
            average.add_(rate * (value - average))

    def update(self, gradients, step):
        fields = self.fields
        rate = fields["learning_rate"] * factor_of(fields.get("schedule", {}), step, STEPS)
        learned = {name: g for name, g in gradients.items() if g is not None and self.model.rates[name] != 0}
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in learned.values()))
        clip = fields.get("clip_norm", 0)
        scale = clip / norm if 0 < clip < norm else 1.0
        for name, gradient in learned.items():
            self.update_one(name, gradient, scale, rate * self.model.rates[name], step + 1)
        return learned

    def update_one(self, name, raw, scale, rate, t):
        f, w = self.fields, self.model.parameters[name].data
        rule = f["type"]
        decay = f.get("weight_decay", 0.0) * self.model.decays[name]
        g = raw * scale + f.get("l1_decay", 0.0) * self.model.decays[name] * torch.sign(w)
        if rule != "adamw":
            g = g + decay * w
        first, second = self.state.setdefault(name, [torch.zeros_like(w), torch.zeros_like(w)])
        momentum = f.get("momentum", 0.0 if rule == "rmsprop" else 0.9)
        smoothing = f.get("smoothing", 0.99 if rule == "rmsprop" else 0.9)
        epsilon = f.get("epsilon", {"adagrad": 1e-10, "adadelta": 1e-6}.get(rule, 1e-8))
        if rule == "lars" and w.dim() > 1:
            value, length = float(w.double().norm()), float(raw.double().norm())
            if value != 0 and length != 0:
                g = g * (f.get("trust", 0.001) * value / (length + decay * value))
        if rule in ("sgd", "lars", "nesterov"):
            first.mul_(momentum).add_(g)
            w.sub_(rate * (g + momentum * first if rule == "nesterov" else first))
        elif rule == "adagrad":
            first.add_(g * g)
            w.sub_(rate * g / (first.sqrt() + epsilon))
        elif rule == "rmsprop":
            first.mul_(smoothing).add_(g * g * (1 - smoothing))
            second.mul_(momentum).add_(g / (first.sqrt() + epsilon))
            w.sub_(rate * second)
        elif rule == "adadelta":
            first.mul_(smoothing).add_(g * g * (1 - smoothing))
            moved = (second + epsilon).sqrt() / (first + epsilon).sqrt() * g
            second.mul_(smoothing).add_(moved * moved * (1 - smoothing))
            w.sub_(rate * moved)
        else:
            beta1, beta2 = f.get("beta1", 0.9), f.get("beta2", 0.999)
            first.mul_(beta1).add_(g * (1 - beta1))
            second.mul_(beta2).add_(g * g * (1 - beta2))
            if rule == "adamw":
                w.mul_(1 - rate * decay)
            w.sub_(rate * (first / (1 - beta1 ** t)) / ((second / (1 - beta2 ** t)).sqrt() + epsilon))


class Run:
    """A training run of STEPS steps. `losses`: of each step, before its update. `test_loss`: after the last update.
    `tensors`: of the last checkpoint, by name."""

    def __init__(self, case, dtype, noise=0):
        """`noise` above 0 is a seed that randomizes the last bits of the first values."""
        self.job, self.dtype = case.job, dtype
        self.model = Model(case, dtype, noise)
        self.optimizer, self.waiting, self.losses = Optimizer(self.job["optimizer"], self.model), [], []
        staleness = self.job["comm"]["staleness"]
        for step in range(STEPS):
            if step > staleness:  # apply the sums of steps up to step - 1 - staleness
                self.update(step - 1 - staleness)
            self.losses.append(self.step(step))
        for step in range(max(0, STEPS - 1 - staleness), STEPS):
            self.update(step)
        self.tensors = {**{name: value.detach() for name, value in self.model.parameters.items()},
                        **self.model.statistics, **self.optimizer.averages}
        data = self.job["data"]["test"]
        with torch.no_grad():
            self.test_loss = self.model.test_loss_sum(*self.batch(data, range(data["samples"])),
                                                      self.optimizer.averages) / data["samples"]

    def update(self, step):
        gradients, statistics = self.waiting[step]
        learned = self.optimizer.update(gradients, step)
        self.optimizer.update_statistics(statistics)
        self.optimizer.follow(step, learned)

    def batch(self, data, indices):
        """The inputs by name, and the labels."""
        samples = [sample(data, index) for index in indices]
        given = {"input": [values for values, _ in samples]}
        if data["extras"]:
            values = [auxiliary_values(data, index) for index in indices]
            given.update({name: [one[name] for one in values] for name in values[0]})
        given = {name: torch.from_numpy(np.stack(values)).to(self.dtype) for name, values in given.items()}
        return given, torch.tensor([label for _, label in samples])

    def step(self, step):
        data, batch, shards = self.job["data"]["train"], self.job["data"]["global_batch"], \
            self.job["cluster"]["logical_shards"]
        total = 0.0
        for shard in range(shards):
            first, count = shard * batch // shards, batch // shards
            indices = [(step * batch + first + n) % data["samples"] for n in range(count)]
            total = total + self.model.loss_sum(*self.batch(data, indices), step, first) / batch
        names = list(self.model.parameters)
        gradients = torch.autograd.grad(total, [self.model.parameters[name] for name in names], allow_unused=True)
        self.waiting.append((dict(zip(names, gradients)), self.model.take_contributions()))
        return total.item()
