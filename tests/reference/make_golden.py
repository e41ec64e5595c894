#!/usr/bin/env python3
"""Writes tests/reference/golden/*.txt: the results of every layer, computed by PyTorch.

Works with PyTorch from 1.13 on: python3 make_golden.py. All computation is in double precision; the results are rounded
to single. The files are committed, so the tests need no PyTorch.

A file is lines of text:
    json {...}                the layer as in a network file
    relu SLOPE                a relu is fused into the layer (optional)
    residual                  the last input is a fused residual (optional)
    labels L...               for a loss (optional)
    NAME EXTENTxEXTENT V...   a tensor in canonical order: input0.., parameter0.., gradient (of the
                              output; input), output, input_gradient0.., parameter_gradient0..,
                              statistic0.. (contributions)
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import philox

FOLDER = pathlib.Path(__file__).parent / "golden"
SEED, STEP = 7, 3  # of the tests' step; dropout depends on them


def convolution(inputs, p, f):
    x, padding = inputs[0], f.get("padding", 0)
    if isinstance(padding, list) and len(padding) == 4:
        top, bottom, left, right = padding
        x, padding = F.pad(x, [left, right, top, bottom]), 0
    return F.conv2d(x, p[0], p[1] if len(p) > 1 else None, f.get("stride", 1), padding, f.get("dilation", 1),
                    f.get("groups", 1))


def deconvolution(inputs, p, f):
    return F.conv_transpose2d(inputs[0], p[0], p[1] if len(p) > 1 else None, f.get("stride", 1), f.get("padding", 0),
                              0, f.get("groups", 1), f.get("dilation", 1))


def linear(inputs, p, f):
    return F.linear(inputs[0].flatten(1), p[0], p[1] if len(p) > 1 else None)


def pooling(inputs, p, f):
    x = inputs[0]
    if "windows" in f:
        return F.adaptive_avg_pool2d(x, f["windows"])
    kernel = x.shape[2:] if f.get("global") else f["kernel"]
    stride = 1 if f.get("global") else f.get("stride", 1)
    padding, ceil = f.get("padding", 0), f.get("rounding", "ceil") == "ceil"
    if f.get("method") == "stochastic":
        return stochastic_pooling(x, kernel, stride)
    if f.get("method", "max") == "max":
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)
    # count_include_pad divides by the window clipped to the padded input, which is Caffe's rule.
    return F.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil, count_include_pad=True)


def stochastic_pooling(x, kernel, stride):
    """Training: for windows inside x, takes the first cell k for which the sum of cells 0..k reaches chance * sum."""
    samples, channels = x.shape[:2]
    windows = F.unfold(x, kernel, stride=stride)
    windows = windows.reshape(samples, channels, kernel * kernel, -1)
    positions = windows.shape[3]
    stream = philox.name_hash("layer") ^ ((STEP * 0x9E3779B97F4A7C15) & philox.MASK64)
    words = np.stack([philox.words(SEED, philox.POOLING, stream, n, positions * channels) for n in range(samples)])
    chance = torch.from_numpy(1 - (words >> 8) / 2.0 ** 24).reshape(samples, positions, channels).transpose(1, 2)
    reached = windows.cumsum(2) >= (chance * windows.sum(2))[:, :, None]
    taken = torch.argmax(reached.to(torch.int8), 2, keepdim=True)
    return windows.gather(2, taken).reshape(samples, channels, (x.shape[2] - kernel) // stride + 1, -1)


def argmax(inputs, p, f):
    values, places = torch.topk(inputs[0].flatten(1), f["top_k"])
    output = torch.cat([places, values.detach()], 1) if f.get("values") else places
    return output + 0 * inputs[0].sum()


def crop(inputs, p, f):
    (y, x), (height, width) = f["offset"], inputs[1].shape[2:]
    return inputs[0][:, :, y:y + height, x:x + width] + 0 * inputs[1].sum()


def reduction(inputs, p, f):
    x = inputs[0].flatten(1)
    sums = {"sum": x, "asum": x.abs(), "sumsq": x * x, "mean": x / x.shape[1]}[f["operation"]]
    return f.get("coefficient", 1.0) * sums.sum(1, keepdim=True)


def reshape(inputs, p, f):
    x = inputs[0]
    return x.reshape(len(x), *[x.shape[i + 1] if n == 0 else n for i, n in enumerate(f["shape"])])


def batch_norm(inputs, p, f):
    return F.batch_norm(inputs[0], None, None, p[0], p[1], training=True, eps=f.get("epsilon", 1e-5))


def lrn(inputs, p, f):
    x, size = inputs[0], f.get("size", 5)
    alpha, beta, k = f.get("alpha", 1.0), f.get("beta", 0.75), f.get("k", 1.0)
    if f.get("region") == "within_channel":
        mean = F.avg_pool2d(x * x, size, 1, size // 2, count_include_pad=True)
        return x / (k + alpha * mean) ** beta
    return F.local_response_norm(x, size, alpha, beta, k)


def eltwise(inputs, p, f):
    join = {"sum": torch.add, "product": torch.mul, "maximum": lambda a, b: torch.where(b > a, b, a)}[f.get("operation", "sum")]
    result = inputs[0]
    for other in inputs[1:]:
        result = join(result, other)
    return result


def dropout(inputs, p, f):
    x = inputs[0]
    stream = philox.name_hash("layer") ^ ((STEP * 0x9E3779B97F4A7C15) & philox.MASK64)
    threshold = int(f["probability"] * 2.0 ** 32)
    words = np.stack([philox.words(SEED, philox.DROPOUT, stream, n, x[0].numel()) for n in range(len(x))])
    kept = torch.from_numpy((words >= threshold).astype(np.float64)).reshape(x.shape)
    return x * kept / (1 - f["probability"])


def scaled(x, f):
    return f.get("scale", 1.0) * x + f.get("shift", 0.0)


def of_channels(values, x):
    return values.reshape([1, -1] + [1] * (x.dim() - 2))


def scale(inputs, p, f):
    x, p = inputs[0], list(p)
    factor = inputs[1] if len(inputs) == 2 else of_channels(p.pop(0), x)
    return x * factor + (of_channels(p[0], x) if p else 0)


def mvn(inputs, p, f):
    x = inputs[0]
    together = x.flatten(1) if f.get("across_channels") else x.flatten(2)
    centered = together - together.mean(-1, keepdim=True)
    if f.get("variance", True):
        centered = centered / (together.std(-1, keepdim=True, unbiased=False) + f.get("epsilon", 1e-9))
    return centered.reshape(x.shape)


LAYERS = {
    "absval": lambda inputs, p, f: inputs[0].abs(),
    "argmax": argmax,
    "batch_norm": batch_norm,
    "bias": lambda inputs, p, f: inputs[0] + of_channels(p[0], inputs[0]),
    "bnll": lambda inputs, p, f: F.softplus(inputs[0]),
    "clip": lambda inputs, p, f: inputs[0].clamp(f["minimum"], f["maximum"]),
    "concat": lambda inputs, p, f: torch.cat(inputs, 1),
    "convolution": convolution,
    "crop": crop,
    "deconvolution": deconvolution,
    "dropout": dropout,
    "eltwise": eltwise,
    "elu": lambda inputs, p, f: F.elu(inputs[0], f.get("alpha", 1.0)),
    "exp": lambda inputs, p, f: f.get("base", math.e) ** scaled(inputs[0], f),
    "flatten": lambda inputs, p, f: inputs[0].flatten(1),
    "linear": linear,
    "log": lambda inputs, p, f: scaled(inputs[0], f).log() / math.log(f.get("base", math.e)),
    "lrn": lrn,
    "mvn": mvn,
    "pooling": pooling,
    "power": lambda inputs, p, f: scaled(inputs[0], f) ** f.get("power", 1.0),
    "prelu": lambda inputs, p, f: F.prelu(inputs[0], p[0]),
    "reduction": reduction,
    "relu": lambda inputs, p, f: F.leaky_relu(inputs[0], f.get("slope", 0.0)),
    "reshape": reshape,
    "scale": scale,
    "sigmoid": lambda inputs, p, f: torch.sigmoid(inputs[0]),
    "silence": lambda inputs, p, f: 0 * sum(x.flatten(1).sum(1, keepdim=True) for x in inputs),
    "slice": lambda inputs, p, f: inputs[0][:, f.get("begin"):f.get("end")],
    "softmax": lambda inputs, p, f: torch.softmax(inputs[0], 1),
    "swish": lambda inputs, p, f: inputs[0] * torch.sigmoid(f.get("beta", 1.0) * inputs[0]),
    "tanh": lambda inputs, p, f: torch.tanh(inputs[0]),
    # The gradient is 0. The second term makes PyTorch track it.
    "threshold": lambda inputs, p, f: (inputs[0] > f.get("threshold", 0.0)).double() + 0 * inputs[0],
    "tile": lambda inputs, p, f: torch.cat([inputs[0]] * f["tiles"], 1),
}


def number_text(value):
    """The shortest text that reads back as the same float."""
    return np.format_float_scientific(np.float32(value), trim="-") if abs(value) < 1e-4 else str(np.float32(value))


def among_best(scores, labels, k):
    own = scores.gather(1, labels[:, None])
    return ((scores > own).sum(1) < k).to(scores.dtype)


def contrastive_loss(rows, labels, fields):
    distances = (rows[0] - rows[1]).square().sum(1)
    margin = fields.get("margin", 1.0)
    apart = (margin - distances).clamp(min=0) if fields.get("legacy") else (margin - distances.sqrt()).clamp(min=0) ** 2
    return torch.where(labels != 0, distances, apart) / 2


def hinge_loss(rows, labels, fields):
    signs = 1 - 2 * F.one_hot(labels, rows[0].shape[1])
    lacking = (1 + signs * rows[0]).clamp(min=0)
    return (lacking ** 2 if fields.get("norm") == "l2" else lacking).sum(1)


def infogain_loss(rows, labels, fields):
    matrix = torch.tensor(fields["matrix"], dtype=rows[0].dtype).reshape(2 * [rows[0].shape[1]])
    return -(matrix[labels] * F.log_softmax(rows[0], 1)).sum(1)


# The loss of each sample, from its rows of values and targets.
LOSSES = {
    "contrastive_loss": contrastive_loss,
    "euclidean_loss": lambda rows, labels, fields: F.mse_loss(*rows, reduction="none").sum(1) / 2,
    "hinge_loss": hinge_loss,
    "infogain_loss": infogain_loss,
    "multinomial_loss": lambda rows, labels, fields: F.nll_loss(rows[0].clamp(min=1e-20).log(), labels, reduction="none"),
    "sigmoid_loss": lambda rows, labels, fields: F.binary_cross_entropy_with_logits(*rows, reduction="none").sum(1),
    "softmax_loss": lambda rows, labels, fields: F.cross_entropy(
        rows[0], labels, reduction="none", label_smoothing=fields.get("label_smoothing", 0.0)),
}


class Case:
    def __init__(self, name, fields, inputs, parameters=(), relu=None, residual=False, labels=None,
                 positive=False):
        self.name, self.fields, self.relu, self.residual, self.labels = name, fields, relu, residual, labels
        self.generator = np.random.default_rng(philox.name_hash(name))
        self.inputs = [self.tensor(shape, 0 if positive else -1) for shape in inputs]
        self.parameters = [self.tensor(shape) for shape in parameters]
        self.lines = ["json " + json.dumps(fields)]

    def tensor(self, shape, least=-1):
        """Random values with three decimals, which are short in the file."""
        values = self.generator.uniform(least, 1, shape).round(3).astype(np.float32).astype(np.float64)
        return torch.from_numpy(values).requires_grad_()

    def put(self, name, tensor):
        values = tensor.detach().numpy()
        self.lines.append(" ".join([name, "x".join(map(str, values.shape))] + [number_text(v) for v in values.flat]))

    def compute(self):
        """The output, and the scalar that is differentiated."""
        if self.labels is not None or self.fields["type"] in LOSSES:
            return self.reported()
        layer_inputs = self.inputs[:-1] if self.residual else self.inputs
        output = LAYERS[self.fields["type"]](layer_inputs, self.parameters, self.fields)
        if self.residual:
            output = output + self.inputs[-1]
        if self.relu is not None:
            output = F.leaky_relu(output, self.relu)
        gradient = self.tensor(tuple(output.shape))
        self.put("gradient", gradient)
        return output, (output * gradient.detach()).sum()

    def reported(self):
        """Columns with the results per sample of a loss or accuracy, and the weighted total loss."""
        labels = None if self.labels is None else torch.tensor(self.labels)
        rows = [tensor.flatten(1) for tensor in self.inputs]
        if self.fields["type"] == "accuracy":
            columns = [among_best(rows[0], labels, k) for k in self.fields.get("top_k", [1])]
            return torch.stack(columns, 1), 0 * rows[0].sum()
        losses = LOSSES[self.fields["type"]](rows, labels, self.fields)
        columns = [losses]
        if self.fields["type"] == "softmax_loss":
            columns += [among_best(rows[0], labels, k) for k in (1, 5)]
        return torch.stack(columns, 1), losses.sum() * self.fields.get("weight", 1.0)

    def write(self):
        if self.relu is not None:
            self.lines.append("relu " + number_text(self.relu))
        if self.residual:
            self.lines.append("residual")
        if self.labels is not None:
            self.lines.append("labels " + " ".join(map(str, self.labels)))
        for i, tensor in enumerate(self.inputs):
            self.put("input%d" % i, tensor)
        for i, tensor in enumerate(self.parameters):
            self.put("parameter%d" % i, tensor)
        output, scalar = self.compute()
        scalar.backward()
        self.put("output", output)
        for i, tensor in enumerate(self.inputs):
            self.put("input_gradient%d" % i, tensor.grad)
        for i, tensor in enumerate(self.parameters):
            self.put("parameter_gradient%d" % i, tensor.grad)
        if self.fields["type"] == "batch_norm":
            axes = [0] + list(range(2, self.inputs[0].dim()))
            self.put("statistic0", self.inputs[0].mean(axes))
            self.put("statistic1", self.inputs[0].var(axes, unbiased=True))
        (FOLDER / (self.name + ".txt")).write_text("\n".join(self.lines) + "\n")


def cases():
    def convolution_case(name, fields, image, **more):
        kernel = fields["kernel"] if isinstance(fields["kernel"], list) else [fields["kernel"]] * 2
        weight = (fields["outputs"], image[1] // fields.get("groups", 1), *kernel)
        parameters = [weight] + ([(fields["outputs"],)] if fields.get("bias", True) else [])
        return Case("convolution_" + name, {"type": "convolution", **fields}, [image], parameters, **more)

    def deconvolution_case(name, fields, image):
        kernel = fields["kernel"] if isinstance(fields["kernel"], list) else [fields["kernel"]] * 2
        weight = (image[1], fields["outputs"] // fields.get("groups", 1), *kernel)
        parameters = [weight] + ([(fields["outputs"],)] if fields.get("bias", True) else [])
        return Case("deconvolution_" + name, {"type": "deconvolution", **fields}, [image], parameters)

    def linear_case(name, fields, image, **more):
        inputs = int(np.prod(image[1:]))
        parameters = [(fields["outputs"], inputs)] + ([(fields["outputs"],)] if fields.get("bias", True) else [])
        return Case("linear_" + name, {"type": "linear", **fields}, [image], parameters, **more)

    def batch_norm_case(name, inputs, fields={}, **more):
        channels = (inputs[0][1],)
        return Case("batch_norm_" + name, {"type": "batch_norm", **fields}, inputs, [channels, channels], **more)

    yield convolution_case("image", {"outputs": 16, "kernel": 3, "padding": 1}, (2, 3, 6, 6))
    yield convolution_case("lenet", {"outputs": 20, "kernel": 5}, (1, 1, 9, 9))
    yield convolution_case("stride", {"outputs": 16, "kernel": 3, "stride": 2, "padding": 1}, (1, 16, 7, 7))
    yield convolution_case("rectangle", {"outputs": 7, "kernel": [3, 2], "stride": [1, 2], "padding": [2, 0],
                                         "dilation": [2, 1]}, (2, 5, 6, 7))
    yield convolution_case("groups", {"outputs": 8, "kernel": 3, "groups": 2}, (1, 6, 5, 5))
    yield convolution_case("depthwise", {"outputs": 16, "kernel": 3, "groups": 16, "padding": 1}, (1, 16, 5, 5))
    yield convolution_case("wide_groups", {"outputs": 32, "kernel": 1, "groups": 2, "bias": False}, (1, 32, 4, 4))
    yield convolution_case("no_bias", {"outputs": 32, "kernel": 1, "stride": 2, "bias": False}, (2, 16, 5, 5))
    yield convolution_case("relu", {"outputs": 16, "kernel": 3, "padding": 1}, (1, 16, 6, 6), relu=0.1)
    yield convolution_case("winograd", {"outputs": 16, "kernel": 3, "padding": 1}, (1, 16, 8, 8))
    yield deconvolution_case("plain", {"outputs": 5, "kernel": 3}, (2, 3, 4, 5))
    yield deconvolution_case("upsampling", {"outputs": 16, "kernel": 4, "stride": 2, "padding": 1}, (1, 16, 4, 5))
    yield deconvolution_case("rectangle", {"outputs": 7, "kernel": [3, 2], "stride": [1, 3], "padding": [2, 0],
                                           "dilation": [2, 1]}, (2, 5, 6, 4))
    yield deconvolution_case("groups", {"outputs": 6, "kernel": 3, "stride": 2, "groups": 2}, (1, 8, 3, 3))
    yield deconvolution_case("depthwise", {"outputs": 16, "kernel": 4, "stride": 2, "padding": 1, "groups": 16,
                                           "bias": False}, (1, 16, 4, 4))
    yield deconvolution_case("image", {"outputs": 3, "kernel": 5, "stride": 2, "padding": 2}, (2, 20, 4, 4))
    yield linear_case("features", {"outputs": 5}, (3, 7))
    yield linear_case("image", {"outputs": 6}, (2, 5, 3, 4))
    yield linear_case("no_bias_relu", {"outputs": 16, "bias": False}, (4, 32), relu=0.0)
    for method in ("max", "average"):
        def pooling_case(name, fields, image, method=method):
            return Case("pooling_%s_%s" % (method, name), {"type": "pooling", "method": method, **fields}, [image])
        yield pooling_case("plain", {"kernel": 2, "stride": 2}, (2, 5, 4, 6))
        yield pooling_case("ceil", {"kernel": 3, "stride": 2}, (1, 17, 6, 8))
        yield pooling_case("floor", {"kernel": 3, "stride": 2, "rounding": "floor"}, (1, 5, 6, 8))
        yield pooling_case("padded_ceil", {"kernel": 3, "stride": 2, "padding": 1}, (1, 5, 6, 7))
        yield pooling_case("rectangle", {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0]}, (1, 5, 6, 5))
        yield pooling_case("global", {"global": True}, (2, 18, 3, 4))
    yield Case("pooling_even", {"type": "pooling", "method": "average", "windows": [4, 3]}, [(2, 17, 14, 7)])
    yield Case("pooling_stochastic", {"type": "pooling", "method": "stochastic", "kernel": 3, "stride": 2},
               [(2, 18, 7, 9)], positive=True)
    yield batch_norm_case("image", [(3, 5, 3, 4)])
    yield batch_norm_case("features", [(6, 7)], {"epsilon": 1e-3})
    yield batch_norm_case("relu", [(2, 17, 3, 3)], relu=0.0)
    yield batch_norm_case("residual_relu", [(2, 5, 3, 3), (2, 5, 3, 3)], relu=0.0, residual=True)
    for region in ("across_channels", "within_channel"):
        for size, beta, k in ((3, 0.75, 1.0), (5, 0.75, 2.0), (5, 0.5, 1.5)):
            fields = {"type": "lrn", "region": region, "size": size, "alpha": 2.0, "beta": beta, "k": k}
            yield Case("lrn_%s_%d_%g" % (region, size, beta), fields, [(2, 18, 4, 5)])
    for operation in ("sum", "product", "maximum"):
        yield Case("eltwise_" + operation, {"type": "eltwise", "operation": operation}, [(2, 5, 3, 4)] * 3)
    yield Case("eltwise_relu", {"type": "eltwise"}, [(2, 17, 2, 3)] * 2, relu=0.0)
    yield Case("concat_image", {"type": "concat"}, [(2, 16, 2, 3), (2, 5, 2, 3)])
    yield Case("concat_features", {"type": "concat"}, [(2, 5), (2, 3), (2, 1)])
    yield Case("flatten", {"type": "flatten"}, [(2, 5, 3, 4)])
    yield Case("argmax", {"type": "argmax", "top_k": 1}, [(3, 7)])
    yield Case("argmax_values", {"type": "argmax", "top_k": 4, "values": True}, [(2, 5, 3, 4)])
    yield Case("crop", {"type": "crop", "offset": [2, 1]}, [(2, 17, 5, 6), (2, 3, 2, 4)])
    for operation in ("sum", "asum", "sumsq", "mean"):
        fields = {"type": "reduction", "operation": operation, "coefficient": 0.5}
        yield Case("reduction_" + operation, fields, [(2, 17, 3, 4)])
    yield Case("reshape", {"type": "reshape", "shape": [-1, 0, 2]}, [(2, 17, 3, 4)])
    yield Case("silence", {"type": "silence"}, [(2, 5, 3, 4), (2, 3)])
    yield Case("slice_image", {"type": "slice", "begin": 8, "end": 24}, [(2, 40, 3, 2)])
    yield Case("slice_features", {"type": "slice", "begin": 2, "end": 7}, [(3, 9)])
    yield Case("tile_features", {"type": "tile", "tiles": 3}, [(3, 7)])
    yield Case("tile_image", {"type": "tile", "tiles": 2}, [(2, 16, 3, 2)])
    yield Case("relu", {"type": "relu"}, [(2, 5, 3, 4)])
    yield Case("relu_leaky", {"type": "relu", "slope": 0.1}, [(2, 5, 3, 4)])
    yield Case("sigmoid", {"type": "sigmoid"}, [(2, 5, 3, 4)])
    yield Case("tanh", {"type": "tanh"}, [(2, 5, 3, 4)])
    for name, fields in {"channels": {}, "samples": {"across_channels": True}, "mean": {"variance": False},
                         "epsilon": {"epsilon": 0.25}}.items():
        yield Case("mvn_" + name, {"type": "mvn", **fields}, [(2, 5, 3, 4)])
    image, features = (2, 5, 3, 4), (3, 7)
    yield Case("prelu", {"type": "prelu"}, [image], [(5,)])
    yield Case("prelu_features", {"type": "prelu"}, [features], [(7,)])
    yield Case("prelu_shared", {"type": "prelu", "shared": True}, [image], [(1,)])
    yield Case("scale", {"type": "scale"}, [image], [(5,)])
    yield Case("scale_features", {"type": "scale", "bias": True}, [features], [(7,), (7,)])
    yield Case("scale_bias", {"type": "scale", "bias": True}, [image], [(5,), (5,)])
    yield Case("scale_input", {"type": "scale"}, [image, (2, 5, 1, 1)])
    yield Case("scale_input_bias", {"type": "scale", "bias": True}, [image, (2, 5, 1, 1)], [(5,)])
    yield Case("scale_sample", {"type": "scale"}, [image, (2, 1, 1, 1)])
    yield Case("bias", {"type": "bias"}, [image], [(5,)])
    for name, fields in {
            "absval": {}, "bnll": {}, "clip": {"minimum": -0.4, "maximum": 0.25}, "elu": {}, "elu_alpha": {"alpha": 0.3},
            "exp": {}, "exp_base": {"base": 2.5, "scale": -2.0, "shift": 0.5}, "log": {"shift": 1.5},
            "log_base": {"base": 10.0, "scale": -0.75, "shift": 1.0}, "power": {"power": 3.0, "scale": 2.0, "shift": 0.5},
            "power_linear": {"scale": -3.0, "shift": 0.5}, "power_square": {"power": 2.0, "scale": 2.0, "shift": 0.5},
            "power_fraction": {"power": -1.25, "scale": 0.5, "shift": 1.0}, "swish": {}, "swish_beta": {"beta": 2.5},
            "threshold": {"threshold": 0.25}}.items():
        yield Case(name, {"type": name.split("_")[0], **fields}, [(2, 5, 3, 4)])
    yield Case("dropout", {"type": "dropout", "probability": 0.3}, [(2, 5, 3, 5)])
    yield Case("softmax_features", {"type": "softmax"}, [(3, 7)])
    yield Case("softmax_image", {"type": "softmax"}, [(2, 5, 3, 4)])
    yield Case("softmax_loss", {"type": "softmax_loss"}, [(4, 7)], labels=[2, 0, 6, 3])
    yield Case("accuracy", {"type": "accuracy", "top_k": [1, 2, 5]}, [(4, 7)], labels=[2, 0, 6, 3])
    for legacy in (False, True):
        yield Case("contrastive_loss" + legacy * "_legacy",
                   {"type": "contrastive_loss", "margin": 2.5, "legacy": legacy, "weight": 0.5}, [(4, 6), (4, 6)],
                   labels=[1, 0, 0, 1])
    yield Case("euclidean_loss", {"type": "euclidean_loss", "weight": 0.3}, [(2, 3, 2, 4), (2, 3, 2, 4)])
    for norm in ("l1", "l2"):
        yield Case("hinge_loss_" + norm, {"type": "hinge_loss", "norm": norm}, [(4, 7)], labels=[2, 0, 6, 3])
    yield Case("infogain_loss", {"type": "infogain_loss", "weight": 0.3, "matrix": [
        1, 0.25, 0, -0.5, 0, 2, 0.125, 0, 0.5, 0.5, 0.75, 0, 0, -1, 0.25, 3]}, [(5, 4)], labels=[2, 0, 3, 1, 0])
    yield Case("multinomial_loss", {"type": "multinomial_loss"}, [(4, 7)], labels=[2, 0, 6, 3], positive=True)
    yield Case("sigmoid_loss", {"type": "sigmoid_loss"}, [(3, 11), (3, 11)])
    yield Case("softmax_loss_smoothed", {"type": "softmax_loss", "weight": 0.3, "label_smoothing": 0.1},
               [(3, 11, 1, 1)], labels=[10, 0, 5])


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for case in cases():
        case.write()


if __name__ == "__main__":
    main()
