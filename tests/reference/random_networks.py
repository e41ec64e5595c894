"""Random networks and jobs: a pure function of a seed. They use every layer type except those that read files. They use
nearly every field of a network file: blocks, defaults, branches, repeated inputs, auxiliary inputs, shared parameters,
frozen and unread layers, layers of one phase, several losses. They use every optimizer and schedule, clipping, weight
decay, EMA, logical shards and staleness.

A case consists of the two files for poseidon-train, and the expanded lists of training and test layers, for a program
that computes the same without Poseidon.
"""

import random
from dataclasses import dataclass, field

STEPS = 5


@dataclass
class Case:
    seed: int
    network: dict = field(default_factory=dict)
    job: dict = field(default_factory=dict)
    layers: list = field(default_factory=list)  # of training, expanded, each with "inputs"
    test_layers: list = field(default_factory=list)  # of tests, expanded


def both_sides(padding, axis):
    """Padding before and after along an axis: 0 for rows, 1 for columns."""
    if not isinstance(padding, list):
        return [padding, padding]
    return padding[2 * axis:2 * axis + 2] if len(padding) == 4 else [padding[axis], padding[axis]]


def pooled(extent, kernel, stride, padding, ceil):
    """The number of windows, by Caffe's rule: no window starts after the input and its leading padding."""
    windows = (extent + 2 * padding - kernel + (stride - 1 if ceil else 0)) // stride + 1
    return windows - 1 if (windows - 1) * stride >= extent + padding else windows


class Maker:
    """Adds layers one by one. Knows the shape of each output: (channels, height, width) or (features,)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.case = Case(seed)
        self.shapes, self.alias = {}, {}
        self.last = "input"
        self.phase, self.named = None, 0  # phase of added layers, None: both; number of layers with a name
        self.shard_batch = self.choice(2, 2, 3, 4)

    def choice(self, *values):
        return self.random.choice(values)

    def sometimes(self, probability):
        return self.random.random() < probability

    def number(self, low, high):
        return float("%.3g" % self.random.uniform(low, high))

    def name(self):
        self.named += 1
        return "l%d" % (self.named - 1)

    def add(self, fields, inputs, shape, name=None):
        """Adds the layer to the file and to the expanded lists. Returns its name."""
        name = name or self.name()
        if not fields.get("bias", True):  # only one parameter, so only one multiplier
            fields = {key: value[:1] if key.endswith("_multipliers") else value for key, value in fields.items()}
        for phase, layers in (("train", self.case.layers), ("test", self.case.test_layers)):
            if self.phase in (phase, None):
                layers.append({"name": name, **fields, "inputs": list(inputs)})
        written = {"name": name, **({"phase": self.phase} if self.phase else {}), **fields}
        if inputs != [self.last] or self.sometimes(0.2):
            key = self.choice("input", "inputs") if len(inputs) == 1 else "inputs"
            written[key] = inputs[0] if key == "input" else list(inputs)
        self.case.network["layers"].append(written)
        self.shapes[name] = shape
        self.last = name
        return name

    # ---- parts of layers

    def filler(self):
        return self.choice({"type": "xavier"}, {"type": "he"}, {"type": "gaussian", "deviation": 0.2},
                           {"type": "uniform", "minimum": -0.3, "maximum": 0.3})

    def parameters(self, weight, bias):
        """Random fillers and multipliers."""
        fields = {weight: self.filler() if weight == "weight_filler" else
                  {"type": "uniform", "minimum": 0.5, "maximum": 1.5}}
        if self.sometimes(0.5):
            fields[bias] = self.choice({"type": "constant", "value": self.number(-0.3, 0.3)},
                                       {"type": "uniform", "minimum": -0.2, "maximum": 0.2})
        if self.sometimes(0.35):
            fields["learning_rate_multipliers"] = self.choice([1, 2], [0, 0], [1, 0], [0, 1], [0.5], [0])
        if self.sometimes(0.3):
            fields["decay_multipliers"] = self.choice([1, 0], [0, 0], [2], [0.5, 1])
        return fields

    def extent(self, low, high):
        """One number for both axes, or one for each axis."""
        return self.random.randint(low, high) if self.sometimes(0.7) else \
            [self.random.randint(low, high), self.random.randint(low, high)]

    def image(self, value):
        return len(self.shapes[value]) == 3

    def normalizable(self, value):
        """Whether a channel has enough values to normalize. With few values, the digits of the gradient cancel in any
        program."""
        cells = 1
        for extent in self.shapes[value][1:]:
            cells *= extent
        return cells * self.shard_batch >= 8

    # ---- layers: each method takes the name of its input and returns its name, or None if the input does not fit

    def convolution(self, value):
        channels, height, width = self.shapes[value]
        groups = self.choice(*[g for g in (1, 1, 1, 2, 3, 4, channels) if channels % g == 0])
        outputs = groups * self.random.randint(1, max(1, self.choice(4, 8, 20, 33) // groups))
        kernel, stride = self.extent(1, 4), self.extent(1, 2)
        padding, dilation = self.extent(0, 2), self.choice(1, 1, 1, 2, [1, 2])
        if self.sometimes(0.3):  # a geometry for Winograd's algorithm
            kernel, stride, padding, dilation, groups = 3, 1, 1, 1, 1
            outputs = self.choice(16, 32)
        if self.sometimes(0.2):
            padding = [self.random.randint(0, 2) for _ in range(4)]
        shape = [outputs]
        for axis, extent in enumerate((height, width)):
            k, s, d = (v[axis] if isinstance(v, list) else v for v in (kernel, stride, dilation))
            room = extent + sum(both_sides(padding, axis)) - d * (k - 1) - 1
            if room < 0:
                return None
            shape.append(room // s + 1)
        fields = {"type": "convolution", "outputs": outputs, "kernel": kernel,
                  **self.parameters("weight_filler", "bias_filler")}
        fields.update({key: v for key, v, usual in (("stride", stride, 1), ("padding", padding, 0),
                                                    ("dilation", dilation, 1), ("groups", groups, 1)) if v != usual})
        if self.sometimes(0.3):
            fields["bias"] = False
        return self.add(fields, [value], tuple(shape))

    def linear(self, value, outputs=None):
        outputs = outputs or self.choice(1, 5, 16, 40)
        fields = {"type": "linear", "outputs": outputs, **self.parameters("weight_filler", "bias_filler")}
        if self.sometimes(0.25):
            fields["bias"] = False
        if self.sometimes(0.15):
            fields["scheme"] = "ps"
        return self.add(fields, [value], (outputs,))

    def pooling(self, value):
        channels, *extents = self.shapes[value]
        fields = {"type": "pooling", "method": self.choice("max", "max", "average", "average", "stochastic")}
        if fields["method"] == "stochastic":  # its values must not be negative
            value = self.add({"type": "relu"}, [value], self.shapes[value])
        if self.sometimes(0.15):
            return self.add({**fields, "global": True}, [value], (channels, 1, 1))
        if self.sometimes(0.15):
            windows = [self.random.randint(1, min(4, extent)) for extent in extents]
            return self.add({"type": "pooling", "method": "average", "windows": windows}, [value],
                            (channels, *windows))
        kernel = self.extent(1, 4)
        least = min(kernel) if isinstance(kernel, list) else kernel
        stride, padding = self.extent(1, 3), self.random.randint(0, min(2, least - 1))
        rounding = self.choice("ceil", "floor", None)
        shape = [channels]
        for axis, extent in enumerate(extents):
            k, s = (v[axis] if isinstance(v, list) else v for v in (kernel, stride))
            if k > extent + 2 * padding:
                return None
            shape.append(pooled(extent, k, s, padding, rounding != "floor"))
        fields.update({"kernel": kernel, "stride": stride})
        if padding:
            fields["padding"] = padding
        if rounding:
            fields["rounding"] = rounding
        return self.add(fields, [value], tuple(shape))

    def batch_norm(self, value):
        if not self.normalizable(value):
            return None
        fields = {"type": "batch_norm", **self.parameters("scale_filler", "shift_filler")}
        if self.sometimes(0.3):
            fields["epsilon"] = self.choice(1e-3, 1e-4)
        if self.sometimes(0.3):
            fields["momentum"] = self.choice(0.01, 0.5, 1.0)
        return self.add(fields, [value], self.shapes[value])

    def relu(self, value):
        return self.add({"type": "relu", **self.choice({}, {}, {"slope": 0.1})}, [value], self.shapes[value])

    def activation(self, value):
        return self.add({"type": self.choice("sigmoid", "tanh")}, [value], self.shapes[value])

    def function(self, value):
        fields = self.choice({"type": "absval"}, {"type": "bnll"}, {"type": "clip", "minimum": -0.5, "maximum": 1.0},
                             {"type": "elu"}, {"type": "elu", "alpha": 0.5}, {"type": "swish"},
                             {"type": "swish", "beta": 0.5}, {"type": "threshold", "threshold": 0.1})
        return self.add(fields, [value], self.shapes[value])

    def bounded_function(self, value):
        """A function of a tanh's output, so that nothing overflows and no logarithm gets 0."""
        bounded = self.add({"type": "tanh"}, [value], self.shapes[value])
        fields = self.choice({"type": "exp", "scale": 0.5}, {"type": "exp", "base": 2.0, "shift": 0.1},
                             {"type": "log", "shift": 2.0}, {"type": "log", "base": 10.0, "scale": 0.5, "shift": 1.5},
                             {"type": "power", "power": 2.0, "shift": 0.1},
                             {"type": "power", "power": 1.5, "scale": 0.5, "shift": 2.0})
        return self.add(fields, [bounded], self.shapes[value])

    def prelu(self, value):
        fields = {"type": "prelu", **self.choice({}, {"shared": True})}
        if self.sometimes(0.5):
            fields["slope_filler"] = {"type": "uniform", "minimum": 0.0, "maximum": 0.5}
        return self.add(fields, [value], self.shapes[value])

    def scale(self, value):
        fields = {"type": "scale", **self.parameters("scale_filler", "bias_filler"), "bias": self.sometimes(0.5)}
        if not fields["bias"]:
            fields.pop("bias_filler", None)
        return self.add(fields, [value], self.shapes[value])

    def bias(self, value):
        filler = {"type": "uniform", "minimum": -0.2, "maximum": 0.2}
        return self.add({"type": "bias", **self.choice({}, {"filler": filler})}, [value], self.shapes[value])

    def gated(self, value):
        """Multiplies each channel by a gate that depends on the channel's mean."""
        channels = self.shapes[value][0]
        pooled_cells = self.add({"type": "pooling", "method": "average", "global": True}, [value], (channels, 1, 1))
        gate = self.add({"type": "sigmoid"}, [pooled_cells], (channels, 1, 1))
        return self.add({"type": "scale", "bias": False}, [value, gate], self.shapes[value])

    def mvn(self, value):
        cells = self.shapes[value][1] * self.shapes[value][2]
        fields = {"type": "mvn", "epsilon": 0.01, **self.choice({}, {"across_channels": True}, {"variance": False})}
        return self.add(fields, [value], self.shapes[value]) if cells >= 8 else None

    def deconvolution(self, value):
        channels, *extents = self.shapes[value]
        if max(extents) > 8:
            return None
        groups = self.choice(*[g for g in (1, 1, 2, channels) if channels % g == 0])
        kernel, stride, padding = self.extent(2, 4), self.extent(1, 2), self.choice(0, 0, 1)
        outputs = groups * self.random.randint(1, 4)
        sizes = [(extent - 1) * s + k - 2 * padding for extent, s, k in zip(
            extents, *(v if isinstance(v, list) else [v, v] for v in (stride, kernel)))]
        if min(sizes) < 1:
            return None
        fields = {"type": "deconvolution", "outputs": outputs, "kernel": kernel, "stride": stride, "padding": padding,
                  "groups": groups, **self.parameters("weight_filler", "bias_filler")}
        return self.add(fields, [value], (outputs, *sizes))

    def crop(self, value):
        channels, height, width = self.shapes[value]
        smaller = [name for name, shape in self.shapes.items()
                   if len(shape) == 3 and shape[1] <= height and shape[2] <= width]
        other = self.random.choice(smaller)
        rows, columns = self.shapes[other][1:]
        offset = [self.random.randint(0, height - rows), self.random.randint(0, width - columns)]
        return self.add({"type": "crop", "offset": offset}, [value, other], (channels, rows, columns))

    def slice(self, value):
        channels = self.shapes[value][0]
        begin = self.random.randint(0, channels - 1)
        end = self.random.randint(begin + 1, channels)
        return self.add({"type": "slice", "begin": begin, "end": end}, [value], (end - begin, *self.shapes[value][1:]))

    def tile(self, value):
        channels, *others = self.shapes[value]
        tiles = self.choice(1, 2, 3)
        return self.add({"type": "tile", "tiles": tiles}, [value], (tiles * channels, *others)) \
            if tiles * channels <= 80 else None

    def reshape(self, value):
        channels, height, width = self.shapes[value]
        return self.add({"type": "reshape", "shape": [-1, 1, 0]}, [value], (channels * height, 1, width)) \
            if channels * height <= 80 else None

    def reduction(self, value):
        fields = {"type": "reduction", "operation": self.choice("sum", "asum", "sumsq", "mean"),
                  "coefficient": self.choice(0.01, 0.1)}
        return self.add(fields, [value], (1,))

    def shared_linear(self, value):
        """Two linear layers in sequence with a shared weight."""
        fields = {"type": "linear", "outputs": self.shapes[value][0]}
        first = self.add({**fields, "weight_filler": {"type": "xavier"}}, [value], self.shapes[value])
        return self.add({**fields, "shares": first}, [first], self.shapes[value])

    def phased(self, value):
        """A training layer and a test layer with the same name."""
        self.phase = "train"
        name = self.add({"type": "dropout", "probability": 0.3}, [value], self.shapes[value])
        self.phase = "test"
        self.add({"type": "relu", "slope": 0.5}, [value], self.shapes[value], name)
        return self.end_phase(name)

    def end_phase(self, value):
        """The next layer must name its inputs, because the layer before it can differ between phases."""
        self.phase, self.last = None, ""
        return value

    def shared(self, value):
        """Two convolutions in sequence with a shared weight."""
        channels = self.shapes[value][0]
        fields = {"type": "convolution", "outputs": channels, "kernel": 3, "padding": 1}
        first = self.add({**fields, "weight_filler": {"type": "xavier"}}, [value], self.shapes[value])
        return self.add({**fields, "shares": first}, [first], self.shapes[value])

    def unread(self, value):
        """An argmax that no layer trains on. Returns the value unchanged."""
        best = self.add({"type": "argmax", "values": True}, [value], (2,))
        self.add({"type": "silence"}, [best], ())
        for name in list(self.shapes)[-2:]:
            del self.shapes[name]
        return value

    def softmax(self, value):
        return self.add({"type": "softmax"}, [value], self.shapes[value])

    def flatten(self, value):
        features = 1
        for extent in self.shapes[value]:
            features *= extent
        return self.add({"type": "flatten"}, [value], (features,))

    def dropout(self, value):
        return self.add({"type": "dropout", "probability": self.choice(0.2, 0.5)}, [value], self.shapes[value])

    def lrn(self, value):
        fields = {"type": "lrn", "size": self.choice(3, 5), "alpha": self.number(0.1, 1.5),
                  "beta": self.choice(0.75, 0.5), "k": self.choice(1.0, 2.0)}
        if self.image(value) and self.sometimes(0.5):
            fields["region"] = "within_channel"
        return self.add(fields, [value], self.shapes[value])

    def eltwise(self, value):
        alike = [name for name, shape in self.shapes.items() if shape == self.shapes[value]]
        inputs = [value] + [self.random.choice(alike) for _ in range(self.choice(1, 1, 2, 3))]
        self.random.shuffle(inputs)
        fields = {"type": "eltwise", **self.choice({}, {}, {"operation": "product"}, {"operation": "maximum"})}
        return self.add(fields, inputs, self.shapes[value])

    def concat(self, value):
        alike = [name for name, shape in self.shapes.items() if shape[1:] == self.shapes[value][1:] and
                 len(shape) == len(self.shapes[value])]
        inputs = [value] + [self.random.choice(alike) for _ in range(self.choice(0, 1, 1, 2))]
        self.random.shuffle(inputs)
        channels = sum(self.shapes[name][0] for name in inputs)
        return None if channels > 80 else self.add({"type": "concat"}, inputs, (channels, *self.shapes[value][1:]))

    def residual(self, value):
        """batch_norm(convolution(x)) + x, which the net fuses."""
        if not self.normalizable(value):
            return None
        channels = self.shapes[value][0]
        convolution = self.add({"type": "convolution", "outputs": channels, "kernel": 3, "padding": 1, "bias": False,
                                "weight_filler": {"type": "he"}}, [value], self.shapes[value])
        normalized = self.batch_norm(convolution)
        total = self.add({"type": "eltwise"}, self.choice([normalized, value], [value, normalized]), self.shapes[value])
        return self.relu(total) if self.sometimes(0.7) else total

    def block(self, value):
        """Uses the block "cell", which keeps height and width."""
        if not self.normalizable(value):
            return None
        planes, repeat = self.choice(4, 8), self.choice(None, 1, 2)
        self.case.network.setdefault("blocks", {})["cell"] = {"parameters": {"planes": None, "slope": 0.0}, "layers": [
            {"name": "c", "type": "convolution", "outputs": "$planes * 2", "kernel": 3, "padding": 1,
             "weight_filler": {"type": "he"}},
            {"name": "n", "type": "batch_norm"},
            {"name": "r", "type": "relu", "slope": "$slope"},
            {"name": "s", "type": "convolution", "input": "input", "outputs": "$planes * 2", "kernel": 1,
             "weight_filler": {"type": "xavier"}},
            {"name": "sum", "type": "eltwise", "inputs": ["r", "s", "r"]}]}
        slope, name, outputs = self.choice(None, 0.2), self.name(), planes * 2
        written = {"name": name, "type": "block", "block": "cell", "with": {"planes": planes}, "input": value}
        if slope is not None:
            written["with"]["slope"] = slope
        if repeat is not None:
            written["repeat"] = repeat
        self.case.network["layers"].append(written)
        for number in range(repeat or 1):
            prefix = name + (".%d." % number if repeat is not None else ".")
            for layer in ({"name": "c", "type": "convolution", "outputs": outputs, "kernel": 3, "padding": 1,
                           "weight_filler": {"type": "he"}, "inputs": [value]},
                          {"name": "n", "type": "batch_norm", "inputs": [prefix + "c"]},
                          {"name": "r", "type": "relu", "slope": slope or 0.0, "inputs": [prefix + "n"]},
                          {"name": "s", "type": "convolution", "outputs": outputs, "kernel": 1,
                           "weight_filler": {"type": "xavier"}, "inputs": [value]},
                          {"name": "sum", "type": "eltwise", "inputs": [prefix + n for n in ("r", "s", "r")]}):
                for layers in (self.case.layers, self.case.test_layers):
                    layers.append({**layer, "name": prefix + layer["name"]})
            value = prefix + "sum"
        self.shapes[name] = (outputs, *self.shapes[written["input"]][1:])
        self.alias[name] = value
        self.last = name
        return name

    # ---- a whole network

    def network(self):
        rand = self.random.randint
        shape = (rand(1, 6), rand(4, 12), rand(4, 12)) if self.sometimes(0.85) else (rand(2, 30), 1, 1)
        self.case.network = {"name": "random%d" % self.case.seed, "layers": [],
                             "input": dict(zip(("channels", "height", "width"), shape))}
        self.shapes = {"input": shape}
        value = self.auxiliary_inputs()
        images = [self.convolution, self.convolution, self.pooling, self.batch_norm, self.relu, self.relu,
                  self.activation, self.lrn, self.eltwise, self.concat, self.dropout, self.softmax, self.residual,
                  self.block, self.flatten, self.linear, self.function, self.function, self.bounded_function,
                  self.prelu, self.scale, self.bias, self.gated, self.mvn, self.deconvolution, self.crop, self.slice,
                  self.tile, self.reshape, self.reduction, self.shared, self.phased, self.unread]
        features = [self.linear, self.linear, self.batch_norm, self.relu, self.activation, self.lrn, self.eltwise,
                    self.concat, self.dropout, self.softmax, self.function, self.bounded_function, self.prelu,
                    self.scale, self.bias, self.slice, self.tile, self.reduction, self.shared_linear,
                    self.phased, self.unread]
        for _ in range(rand(1, 12)):
            if self.sometimes(0.2):  # another branch
                value = self.random.choice(list(self.shapes))
            made = self.random.choice(images if self.image(value) else features)(value)
            value = made or value
        classes = rand(2, 7)
        self.loss(value, classes, {})
        if self.sometimes(0.25):
            self.further_loss(self.random.choice(list(self.shapes)), classes)
        if self.sometimes(0.2):
            self.test_alone(self.random.choice(list(self.shapes)))
        if self.sometimes(0.3):  # no other layer reads these
            value = self.random.choice(list(self.shapes))
            made = self.random.choice(images if self.image(value) else features)(value)
            if made and self.sometimes(0.5):
                self.linear(made)
        for layer in self.case.layers + self.case.test_layers:
            layer["inputs"] = [self.alias.get(name, name) for name in layer["inputs"]]
        if self.sometimes(0.15):
            self.shuffle_layers()
        return classes

    def auxiliary_inputs(self):
        """Auxiliary inputs of the network. Each is read by a layer or a loss. Returns the value to start with."""
        value = "input"
        if self.sometimes(0.25):
            shape = (self.random.randint(1, 3), *self.shapes["input"][1:])
            self.auxiliary("map", shape)
            channels = shape[0] + self.shapes["input"][0]
            value = self.add({"type": "concat"}, ["input", "map"], (channels, *shape[1:]))
        if self.sometimes(0.25):
            self.auxiliary("target", (self.random.randint(1, 6),))
        return value

    def auxiliary(self, name, shape):
        self.case.network.setdefault("inputs", []).append({"name": name, "shape": list(shape)})
        self.shapes[name] = shape

    def target_loss(self, value):
        guess = self.linear(value, self.shapes["target"][0])
        self.add_loss({"type": "euclidean_loss", "weight": 0.1}, [guess, "target"])

    def further_loss(self, value, classes):
        """Another loss, sometimes for training only. Then no layer of both phases reads its layers."""
        shapes = dict(self.shapes)
        self.phase = "train" if self.sometimes(0.4) else None
        self.loss(value, classes, {"weight": self.choice(0.3, 1.0)})
        if self.phase:
            self.shapes = shapes
            self.end_phase(value)

    def test_alone(self, value):
        """Test layers without parameters."""
        shapes = dict(self.shapes)
        self.phase = "test"
        for function in (self.relu, self.tile if self.image(value) else self.softmax):
            value = function(value) or value
        self.shapes = shapes
        self.end_phase(value)

    def loss(self, value, classes, fields):
        scores = self.linear(value, classes)
        if "target" in self.shapes and not self.phase:
            self.target_loss(value)
        if self.sometimes(0.3):
            fields = {**fields, "label_smoothing": self.choice(0.1, 0.3)}
        self.add_loss({"type": "softmax_loss", **fields}, [scores])
        if self.sometimes(0.2):
            self.add_loss({"type": "accuracy", "top_k": self.choice([1], [1, 2], [2])}, [scores])
        if self.sometimes(0.3):
            self.other_loss(value, scores)

    def other_loss(self, value, scores):
        """A loss on the same scores, or on their distance from other scores."""
        other = self.linear(value, self.shapes[scores][0])
        weight = {"weight": self.choice(0.1, 0.5)}
        made = self.choice("hinge_loss", "multinomial_loss", "euclidean_loss", "sigmoid_loss", "contrastive_loss",
                           "infogain_loss")
        if made == "hinge_loss":
            return self.add_loss({"type": made, **weight, "norm": self.choice("l1", "l2")}, [scores])
        if made == "infogain_loss":
            matrix = [self.number(0, 1) for _ in range(self.shapes[scores][0] ** 2)]
            return self.add_loss({"type": made, **weight, "matrix": matrix}, [scores])
        if made == "multinomial_loss":
            return self.add_loss({"type": made, **weight}, [self.softmax(scores)])
        if made == "sigmoid_loss":
            other = self.add({"type": "sigmoid"}, [other], self.shapes[other])
        if made == "contrastive_loss":
            weight.update({"margin": self.choice(1.0, 3.0), "legacy": self.sometimes(0.5)})
        return self.add_loss({"type": made, **weight}, [scores, other])

    def add_loss(self, fields, inputs):
        shapes = dict(self.shapes)
        self.add(fields, inputs, ())
        self.shapes = shapes  # no layer reads a loss

    def shuffle_layers(self):
        """Shuffles the layers. Each layer then names its inputs."""
        previous = "input"
        for layer in self.case.network["layers"]:
            if "input" not in layer and "inputs" not in layer:
                layer["input"] = previous
            previous = layer["name"]
        self.random.shuffle(self.case.network["layers"])

    # ---- a job

    def optimizer(self):
        rule = self.choice("sgd", "sgd", "nesterov", "adagrad", "rmsprop", "adadelta", "adam", "adamw", "lars")
        rate = {"sgd": 0.02, "nesterov": 0.02, "adagrad": 0.01, "rmsprop": 0.001, "adadelta": 0.5, "adam": 0.002,
                "adamw": 0.002, "lars": 2.0}[rule]
        fields = {"type": rule, "learning_rate": float("%.3g" % (rate * self.random.uniform(0.3, 1.5)))}
        if rule in ("sgd", "nesterov", "lars") and self.sometimes(0.7):
            fields["momentum"] = self.choice(0.0, 0.5, 0.95) if rule == "sgd" else self.choice(0.5, 0.95)
        if rule == "rmsprop":
            fields.update(self.choice({}, {"momentum": 0.9}, {"smoothing": 0.9, "epsilon": 1e-4}))
        if rule == "adadelta":
            fields.update(self.choice({}, {"smoothing": 0.99}, {"epsilon": 1e-4}))
        if rule in ("adam", "adamw"):
            fields.update(self.choice({}, {"beta2": 0.99999}, {"beta1": 0.5, "beta2": 0.99, "epsilon": 1e-4}))
        for key, values in (("weight_decay", (0.01, 0.1)), ("l1_decay", (0.001,)), ("clip_norm", (0.5, 2.0, 100.0))):
            if self.sometimes(0.3):
                fields[key] = self.choice(*values)
        if self.sometimes(0.35):
            fields["average_decay"] = self.choice(0.1, 0.5, 0.9)
        if self.sometimes(0.6):
            fields["schedule"] = self.choice(
                {"type": "step", "step_size": 2, "gamma": 0.5},
                {"type": "multistep", "milestones": [1, 3], "gamma": 0.3}, {"type": "exp", "gamma": 0.8},
                {"type": "inv", "gamma": 0.3, "power": 0.75}, {"type": "poly", "power": 2, "minimum": 0.1},
                {"type": "sigmoid", "gamma": -1.5, "step_size": 3}, {"type": "cosine"}, {"type": "fixed"})
            if self.sometimes(0.4):
                fields["schedule"].update({"warmup": self.choice(1, 2.5, 4), "warmup_start": self.choice(0.0, 0.2)})
        return fields

    def make(self):
        classes = self.network()
        shards = self.choice(1, 2, 3, 3, 4, 6)
        batch = shards * self.shard_batch
        samples = self.random.randint(batch, 4 * batch)
        staleness = self.choice(0, 0, 0, 0, 0, 1, 2)
        transform = self.choice({}, {}, {"scale": 0.5}, {"mean": 0.25, "std": 2})
        train = {"type": "random", **self.case.network["input"], "classes": classes, "samples": samples,
                 "seed": self.random.randint(0, 99), "shuffle": False, "transform": transform,
                 "extras": self.case.network.get("inputs", [])}
        self.case.job = {
            "name": "random%d" % self.case.seed, "network": "network.json",
            "data": {"train": train, "test": {**train, "samples": 7, "seed": 100}, "global_batch": batch},
            "optimizer": self.optimizer(),
            "train": {"steps": STEPS, "seed": self.random.randint(1, 1000), "log_every": 1},
            "device": {"threads": 1},
            "comm": {"scheme": self.choice("ps", "sfb"), "staleness": staleness,
                     "overlap": "priority" if staleness else self.choice("priority", "barrier", "none")},
            "cluster": {"logical_shards": shards}}
        return self.case


def use_factors_of_convolutions(network, numbers):
    """Lets about half of the convolutions that share no parameters use factors."""
    shared = {layer.get("shares") for layer in network["layers"]}
    for layer in network["layers"]:
        if layer["type"] == "convolution" and "shares" not in layer and layer["name"] not in shared:
            layer["scheme"] = numbers.choice(["sfb", "auto"])


def make_case(seed):
    return Maker(seed).make()
