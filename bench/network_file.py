"""Reads network files as lists of layers, for programs that compute the same networks without Poseidon."""
import math


class Expansion:
    """The layers of a network file in `phase`, with blocks expanded. Each layer has its full name, its inputs and its
    defaults."""

    def __init__(self, network, phase="train"):
        self.blocks, self.defaults = network.get("blocks", {}), network.get("defaults", {})
        self.phase = phase
        self.layers, self.last_of_block = [], {}
        self.expand(network["layers"], "", "input", {})
        for layer in self.layers:
            layer["inputs"] = [self.last_of_block.get(name, name) for name in layer["inputs"]]

    def expand(self, layers, prefix, outer, values, owner=None):
        """Appends the layers of a list. Returns the full name of the layer whose output is the output of the list.
        `owner` is for a list that shares parameters: the name prefix of the layers that own them."""
        before = outer
        for layer in layers:
            layer = substituted(layer, values)
            if layer.pop("phase", "both") not in ("both", self.phase):
                continue
            given = layer.pop("input", None) or layer.pop("inputs", None)
            names = [given] if isinstance(given, str) else given
            inputs = [outer if name == "input" else prefix + name for name in names] if names else [before]
            own_name = layer.pop("name")
            shared = prefix + layer.pop("shares") if "shares" in layer else owner and owner + own_name
            before = self.add(layer, prefix + own_name, inputs, shared)
        return before

    def add(self, layer, name, inputs, shared):
        if layer["type"] != "block":
            self.layers.append({**self.defaults.get(layer["type"], {}), **layer, "name": name, "inputs": inputs,
                                "parameters of": shared or name})
            return name
        block, last = self.blocks[layer["block"]], inputs[0]
        values = {**block.get("parameters", {}), **layer.get("with", {})}
        for count in range(layer.get("repeat", 1)):
            suffix = ".%d." % count if "repeat" in layer else "."
            last = self.expand(block["layers"], name + suffix, last, values, shared and shared + suffix)
        self.last_of_block[name] = last
        return last


def substituted(json_value, values):
    """Returns the JSON value with "$name" and products such as "$name * 4" replaced."""
    if isinstance(json_value, dict):
        return {key: substituted(value, values) for key, value in json_value.items()}
    if isinstance(json_value, list):
        return [substituted(value, values) for value in json_value]
    if not (isinstance(json_value, str) and json_value.startswith("$")):
        return json_value
    factors = [part.strip() for part in json_value.split("*")]
    factors = [values[part[1:]] if part.startswith("$") else int(part) for part in factors]
    return factors[0] if len(factors) == 1 else math.prod(factors)
