#!/usr/bin/env python3
"""Writes tests/reference/golden/*.txt: what every layer computes, according to PyTorch.

Run it with any PyTorch from 1.13 on: python3 make_golden.py. Everything is computed in double
precision and written rounded to single. The files are committed; the tests need no PyTorch.

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
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import philox

FOLDER = pathlib.Path(__file__).parent / "golden"
SEED, STEP = 7, 3  # of the tests' step; dropout depends on them


def convolution(inputs, p, f):
    return F.conv2d(inputs[0], p[0], p[1] if len(p) > 1 else None, f.get("stride", 1), f.get("padding", 0),
                    f.get("dilation", 1), f.get("groups", 1))


def linear(inputs, p, f):
    return F.linear(inputs[0].flatten(1), p[0], p[1] if len(p) > 1 else None)


def pooling(inputs, p, f):
    x = inputs[0]
    kernel = x.shape[2:] if f.get("global") else f["kernel"]
    stride = 1 if f.get("global") else f.get("stride", 1)
    padding, ceil = f.get("padding", 0), f.get("rounding", "ceil") == "ceil"
    if f.get("method", "max") == "max":
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)
    # count_include_pad divides by the window clipped to the padded input: Caffe's rule.
    return F.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil, count_include_pad=True)


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


LAYERS = {
    "batch_norm": batch_norm, "convolution": convolution, "dropout": dropout, "eltwise": eltwise,
    "linear": linear, "lrn": lrn, "pooling": pooling,
    "concat": lambda inputs, p, f: torch.cat(inputs, 1),
    "flatten": lambda inputs, p, f: inputs[0].flatten(1),
    "relu": lambda inputs, p, f: F.leaky_relu(inputs[0], f.get("slope", 0.0)),
    "sigmoid": lambda inputs, p, f: torch.sigmoid(inputs[0]),
    "softmax": lambda inputs, p, f: torch.softmax(inputs[0], 1),
    "tanh": lambda inputs, p, f: torch.tanh(inputs[0]),
}


def number_text(value):
    """The shortest text that reads back as the same float."""
    return np.format_float_scientific(np.float32(value), trim="-") if abs(value) < 1e-4 else str(np.float32(value))


class Case:
    def __init__(self, name, fields, inputs, parameters=(), relu=None, residual=False, labels=None):
        self.name, self.fields, self.relu, self.residual, self.labels = name, fields, relu, residual, labels
        self.generator = np.random.default_rng(philox.name_hash(name))
        self.inputs = [self.tensor(shape) for shape in inputs]
        self.parameters = [self.tensor(shape) for shape in parameters]
        self.lines = ["json " + json.dumps(fields)]

    def tensor(self, shape):
        """Random, of three decimals: short in the file."""
        values = self.generator.uniform(-1, 1, shape).round(3).astype(np.float32).astype(np.float64)
        return torch.from_numpy(values).requires_grad_()

    def put(self, name, tensor):
        values = tensor.detach().numpy()
        self.lines.append(" ".join([name, "x".join(map(str, values.shape))] + [number_text(v) for v in values.flat]))

    def compute(self):
        """Output, and the scalar that is differentiated."""
        if self.fields["type"] == "softmax_loss":
            return self.loss()
        layer_inputs = self.inputs[:-1] if self.residual else self.inputs
        output = LAYERS[self.fields["type"]](layer_inputs, self.parameters, self.fields)
        if self.residual:
            output = output + self.inputs[-1]
        if self.relu is not None:
            output = F.leaky_relu(output, self.relu)
        gradient = self.tensor(tuple(output.shape))
        self.put("gradient", gradient)
        return output, (output * gradient.detach()).sum()

    def loss(self):
        scores, labels = self.inputs[0].flatten(1), torch.tensor(self.labels)
        losses = F.cross_entropy(scores, labels, reduction="none",
                                 label_smoothing=self.fields.get("label_smoothing", 0.0))
        own = scores.gather(1, labels[:, None])
        rank = (scores > own).sum(1).to(losses.dtype)
        return torch.stack([losses, rank], 1), losses.sum() * self.fields.get("weight", 1.0)

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
    yield Case("relu", {"type": "relu"}, [(2, 5, 3, 4)])
    yield Case("relu_leaky", {"type": "relu", "slope": 0.1}, [(2, 5, 3, 4)])
    yield Case("sigmoid", {"type": "sigmoid"}, [(2, 5, 3, 4)])
    yield Case("tanh", {"type": "tanh"}, [(2, 5, 3, 4)])
    yield Case("dropout", {"type": "dropout", "probability": 0.3}, [(2, 5, 3, 5)])
    yield Case("softmax_features", {"type": "softmax"}, [(3, 7)])
    yield Case("softmax_image", {"type": "softmax"}, [(2, 5, 3, 4)])
    yield Case("softmax_loss", {"type": "softmax_loss"}, [(4, 7)], labels=[2, 0, 6, 3])
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
