#!/usr/bin/env python3
"""Times training steps of PyTorch on a GPU in its fastest modes: channels_last, cudnn.benchmark, autocast, compiled.

Prints one JSON object. The batch is on the GPU from the start. --matrix measures products of large matrices instead.
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
    """The median seconds of a step. Waits for each step. Five warm-up steps select algorithms and compile."""
    times = []
    for i in range(5 + steps):
        begin = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= 5:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def training(options):
    torch.manual_seed(1)
    model = pytorch_networks.Network(options.network).to(options.device).to(memory_format=torch.channels_last)
    batch = torch.randn(options.batch, *model.shape, device=options.device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, model.classes, (options.batch,), device=options.device)
    net = torch.compile(model) if options.compile else model
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model.loss(net(batch), labels)
        loss.backward()
        optimizer.step()

    seconds = seconds_of_steps(step, options.steps, options.device)
    result = {"samples_per_second": options.batch / seconds, "step_ms": 1e3 * seconds}
    if options.device == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    return result


def matrices(options):
    rows = 8192 if options.device == "cuda" else 256
    kind = torch.bfloat16 if options.precision == "bf16" else torch.float32
    a, b = (torch.randn(rows, rows, device=options.device, dtype=kind) for _ in range(2))
    seconds = seconds_of_steps(lambda: a @ b, options.steps, options.device)
    return {"tflops": 2 * rows**3 / seconds / 1e12}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", nargs="?", choices=pytorch_networks.NAMES)
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    set_precision(options.precision)
    result = matrices(options) if options.matrix else training(options)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(json.dumps({"version": torch.__version__, "gpu": name, **result}))


if __name__ == "__main__":
    main()
