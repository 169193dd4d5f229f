"""The training loop of which the recorded runs in `sample_logs` are the output.

A character model on CPU, data parallel over gloo, printing what nanoGPT prints. Each rank reads its own shard of JSON
lines (`{"text": …, "labels": …}`) round and round, which is where the recorded runs went wrong: a cache without a bound
(`--cache`), a record without `labels`, a shard that is a pipe nobody writes to any more.

    torchrun --standalone --nproc-per-node 4 --log-dir logs --tee 3 train.py --data data --out out
"""

import argparse
import datetime
import faulthandler
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

CONTEXT = 64
VOCABULARY = 128


def read_shard(path: Path) -> Iterator[dict[str, str]]:
    """Yield the shard's records without end; a pipe is opened once and read as it comes."""
    while True:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def encode(text: str) -> torch.Tensor:
    codes = text.encode("ascii", "replace")[:CONTEXT].ljust(CONTEXT)
    return torch.tensor(list(codes)) % VOCABULARY


def batches(path: Path, size: int, cache: list[torch.Tensor] | None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches of (inputs, labels); with a cache every batch is kept in a decoded form, for ever."""
    records = read_shard(path)
    while True:
        rows = [next(records) for _ in range(size)]
        inputs = torch.stack([encode(row["text"]) for row in rows])
        labels = torch.stack([encode(row["labels"]) for row in rows])
        if cache is not None:
            cache.append(F.one_hot(inputs, VOCABULARY).repeat(8, 1, 1).float())
        yield inputs, labels


class CharacterModel(nn.Module):
    """Embedding, two recurrent layers, one head: small enough for a CPU, large enough for a step to take time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.layers(self.embedding(inputs))
        return self.head(hidden)


def save(model: nn.Module, out: Path, step: int) -> None:
    """Write the weights, then the file that names them: it never names weights that are not there in full."""
    print(f"saving checkpoint to {out}", flush=True)
    out.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), out / f"ckpt-{step:06d}.pt")
    (out / "latest_checkpointed_iteration.txt").write_text(f"{step}\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, default=Path("metrics.jsonl"))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--cache", type=int, default=-1, help="rank that keeps every batch it has seen")
    parser.add_argument("--stacks", action="store_true", help="print every thread's stack on SIGTERM, then end")
    parser.add_argument("--timeout", type=int, default=600, help="seconds until a collective is given up")
    return parser.parse_args()


@record
def main() -> None:
    arguments = parse_arguments()
    if arguments.stacks:
        faulthandler.register(signal.SIGTERM, chain=True)
    torch.set_num_threads(1)
    torch.manual_seed(1337)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=arguments.timeout))
    rank = dist.get_rank()
    model = DistributedDataParallel(CharacterModel(arguments.width))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cache: list[torch.Tensor] | None = [] if rank == arguments.cache else None
    source = batches(arguments.data / f"shard-{rank:02d}.jsonl", arguments.batch, cache)
    if rank == 0:
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"number of parameters: {size / 1e6:.2f}M", flush=True)
    for step in range(1, arguments.steps + 1):
        begin = time.perf_counter()
        inputs, labels = next(source)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if rank == 0:
            elapsed_ms = (time.perf_counter() - begin) * 1000
            print(f"iter {step}: loss {loss.item():.4f}, time {elapsed_ms:.2f}ms, mfu -100.00%", flush=True)
            row = {"step": step, "step_time_ms": round(elapsed_ms, 2), "loss": round(loss.item(), 4)}
            with arguments.metrics.open("a", encoding="utf-8") as metrics:
                print(json.dumps({"time": round(time.time(), 3), **row}), file=metrics)
            if step % arguments.save_every == 0:
                save(model.module, arguments.out, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
