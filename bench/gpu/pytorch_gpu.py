#!/usr/bin/env python3
"""Times training steps of PyTorch on a GPU in its fastest modes: channels_last, cudnn.benchmark, autocast, compiled.

Prints one JSON object. The batch is on the GPU from the start.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import pytorch_networks  # noqa: E402


def set_precision(precision):
    tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


def seconds_of_steps(step, steps, device):
    """The seconds of a step: the median of five rounds of `steps` steps, after six warm-up steps that select algorithms
    and compile. Waits only at the end of a round, as bench_step does."""
    def round_of(count):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count

    round_of(6)
    return statistics.median(round_of(steps) for _ in range(5))


def training(options):
    torch.manual_seed(1)
    model = pytorch_networks.Network(options.network).to(options.device).to(memory_format=torch.channels_last)
    batch = torch.randn(options.batch, *model.shape, device=options.device)
    batch = batch.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, model.classes, (options.batch,), device=options.device)
    net = torch.compile(model) if options.compile else model
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        kind = options.device.partition(":")[0]
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model.loss(net(batch), labels)
        loss.backward()
        optimizer.step()

    seconds = seconds_of_steps(step, options.steps, options.device)
    result = {"samples_per_second": options.batch / seconds, "step_ms": 1e3 * seconds}
    if options.device.startswith("cuda"):
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=pytorch_networks.NAMES)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10, help="steps of each of five rounds")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    set_precision(options.precision)
    result = training(options)
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else "cpu"
    print(json.dumps({"version": torch.__version__, "gpu": name, **result}))


if __name__ == "__main__":
    main()
