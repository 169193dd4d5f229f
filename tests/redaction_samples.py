"""A bundle whose lines name machines, people, places and secrets, and what of it must not be left in a redacted output."""

from __future__ import annotations

from pathlib import Path

SECRETS = (
    # hosts and domains
    "gpu-ams-07", "gpu-ams-08", "leaf-ams-2", "ams.megacorp.example", "megacorp",
    # people
    "mallory", "j.doe", "trudy", "zelda",
    # addresses
    "10.77.3.21", "10.77.3.22", "192.0.2.77", "fd00:77:3::21", "b8:59:9f:aa:bb:01",
    # mails, secrets
    "zelda@megacorp.example", "hf_abcdefghijKLMNOPqrstuv0123", "correct-horse-battery", "deadbeefcafe1234567890",
    # parts of paths
    "secret-llm", "pretrain_moonshot", "vault7",
    # hardware
    "8b2f0d16-53c1-7f0a-9e44-2d1c7a60b3e5",
)  # fmt: skip
"""Each is a name of its own: none of them may be left, in any case of letters."""

TRAIN = """\
[2026-02-03 15:40:00] launch by mallory@gpu-ams-07: torchrun /home/mallory/secret-llm/pretrain_moonshot.py --data /vault7/mallory/tokens
[2026-02-03 15:40:01] export HF_TOKEN=hf_abcdefghijKLMNOPqrstuv0123 WANDB_API_KEY="deadbeefcafe1234567890"
[2026-02-03 15:40:02] store password: correct-horse-battery, mail to zelda@megacorp.example, host GPU-AMS-08.ams.megacorp.example
[2026-02-03 15:40:03] tracking at https://tracker.megacorp.example/zelda/secret-llm?id=1
gpu-ams-07:4242:4242 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.77.3.21<0>
gpu-ams-07:4242:4300 [0] NCCL INFO comm 0x55aa rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc - Init COMPLETE
gpu-ams-08:4343:4343 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.77.3.22<0>
gpu-ams-08:4343:4400 [0] NCCL INFO comm 0x55bb rank 8 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc - Init COMPLETE
 [2026-02-03 15:41:00] iteration       10/    1000 | consumed samples:         2560 | elapsed time per iteration (ms): 1000.0 | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 2.0E+00 | loss scale: 1.0 | grad norm: 0.1 | number of skipped iterations:   0 | number of nan iterations:   0 |
 [2026-02-03 15:41:01] iteration       11/    1000 | consumed samples:         2816 | elapsed time per iteration (ms): 1000.0 | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 2.0E+00 | loss scale: 1.0 | grad norm: 0.1 | number of skipped iterations:   0 | number of nan iterations:   0 |
[rank8]: Traceback (most recent call last):
[rank8]:   File "/home/mallory/secret-llm/pretrain_moonshot.py", line 10, in main
[rank8]:   File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1532, in _wrapped_call_impl
[rank8]: FileNotFoundError: [Errno 2] No such file or directory: '/vault7/mallory/shard-3.bin'
"""
KERN = """\
2026-02-03T15:41:02.000000+00:00 gpu-ams-08 sshd[99]: Accepted publickey for trudy from 192.0.2.77 port 22 ssh2
2026-02-03T15:41:02.100000+00:00 gpu-ams-08 kernel: mlx5_core 0000:9d:00.0 eth0: Link down
2026-02-03T15:41:02.300000+00:00 gpu-ams-08 kernel: NVRM: GPU at PCI:0000:1b:00: GPU-8b2f0d16-53c1-7f0a-9e44-2d1c7a60b3e5
2026-02-03T15:41:02.318000+00:00 gpu-ams-08 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4343, name=pretrain_moonshot, GPU has fallen off the bus.
2026-02-03T15:41:02.400000+00:00 gpu-ams-08 kernel: EXT4-fs error (device sda1): ext4_lookup:1: inode #2: comm j.doe-job: path /vault7/mallory: bad entry for user j.doe
2026-02-03T15:41:02.500000+00:00 gpu-ams-08 kernel: nfs: server gpu-ams-07.ams.megacorp.example not responding, timed out, fd00:77:3::21 b8:59:9f:aa:bb:01
"""
SWITCH = """\
Feb  3 15:41:01 leaf-ams-2 : %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/7 is down (Link failure) to gpu-ams-08
"""


def write_bundle(folder: Path) -> Path:
    """The bundle below `folder`, which is itself called by names."""
    bundle = folder / "trudy-gpu-ams-08"
    for name, text in (
        ("trudy/train-secret-llm.log", TRAIN),
        ("hosts/gpu-ams-08/kern.log", KERN),
        ("switches/leaf-ams-2.log", SWITCH),
    ):
        path = bundle / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return bundle
