#!/usr/bin/env python3
"""The peer of bench/training.py: trains one network in PyTorch and times each step.

Prints one JSON object: {"version", "step_ms": [...], "peak_rss_mib"}. The networks are those of
bench/pytorch_networks.py. The optimizer is PyTorch's fused SGD with momentum and weight decay. All steps use the same
batch, so the measurement contains no input pipeline.
"""
import argparse
import json
import resource
import time

import torch

import pytorch_networks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=pytorch_networks.NAMES)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = pytorch_networks.Network(options.network)
    batch = torch.randn(options.batch, *model.shape)
    labels = torch.randint(0, model.classes, (options.batch,))
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
        batch = batch.contiguous(memory_format=torch.channels_last)
    net = torch.compile(model) if options.compile else model
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)
    times = []
    for _ in range(options.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            loss = model.loss(net(batch), labels)
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"version": torch.__version__, "step_ms": times[1:],
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
