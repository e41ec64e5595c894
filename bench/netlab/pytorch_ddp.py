#!/usr/bin/env python3
"""The peer of netlab.py: one rank of PyTorch's DistributedDataParallel over Gloo, with the time of each step.

Rank 0 prints {"version", "step_ms": [...]}. The networks are those of bench/pytorch_networks.py. The settings follow
PyTorch's manual: gradients are views of the buckets, the graph is static, glibc keeps freed memory. --hook selects a
communication hook: fp16 halves the bytes, powersgd sends low-rank factors (rank 2, from the third step on). PowerSGD
has one bucket: with several, ranks send in different orders, and Gloo ends the job.
"""
import argparse
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 36))
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 36))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402

import pytorch_networks  # noqa: E402

FORMATS = {"alexnet": torch.contiguous_format, "vgg11": torch.channels_last, "resnet50": torch.channels_last}


ONE_BUCKET_MB = 4096
UNCOMPRESSED_STEPS = 2  # the least that PowerSGD permits


def add_hook(parallel, hook):
    if hook == "fp16":
        parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2,
                                            start_powerSGD_iter=UNCOMPRESSED_STEPS)
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--master", required=True)
    parser.add_argument("--hook", choices=["none", "fp16", "powersgd"], default="none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{options.master}:7100", rank=options.rank,
                                   world_size=options.world)
    layout = FORMATS[options.network]
    model = pytorch_networks.Network(options.network).to(memory_format=layout)
    bucket = {"bucket_cap_mb": ONE_BUCKET_MB} if options.hook == "powersgd" else {}
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True, **bucket)
    add_hook(parallel, options.hook)
    first = UNCOMPRESSED_STEPS + 1 if options.hook == "powersgd" else 1
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9, weight_decay=0.0005, fused=True)
    images = torch.randn(options.batch, *model.shape).to(memory_format=layout)
    labels = torch.randint(0, model.classes, (options.batch,))
    times = []
    for _ in range(first + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        model.loss(parallel(images), labels).backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - start))
    distributed.barrier()
    if options.rank == 0:
        print(json.dumps({"version": torch.__version__, "step_ms": times[first:]}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
