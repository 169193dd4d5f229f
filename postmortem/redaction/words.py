"""Words that say nothing about anybody: those of our own outputs, of ordinary folders, of systems and public sites."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from postmortem.resources import data_folder

_WORD: Final = re.compile(r"[A-Za-z]+")

FOLDERS: Final = frozenset(
    "home users user root mnt data datasets dataset nfs lustre gpfs beegfs weka fsx efs nvme ssd disk local scratch shared share public "
    "projects project work workspace workdir tmp temp var log logs out output outputs result results run runs job jobs exp experiment "
    "experiments src source code repo repos git bin lib lib64 libexec include build install opt usr etc dev sys proc env envs venv conda "
    "miniconda miniforge anaconda mamba software apps app modules examples example scripts script tests test tools utils train training "
    "trainer pretrain finetune eval infer models model checkpoints checkpoint ckpt ckpts iter step epoch global rank mp tp pp dp ep zero optim "
    "optimizer states latest last final release best weights main launch launcher worker pytorch torch megatron deepspeed nemo slurm core dump "
    "trace nccl rccl flight recorder events config configs conf args requirements cache hub tensorboard wandb lightning version python site dist "
    "packages distributed elastic multiprocessing errors api cuda cudnn nvidia mellanox ofed hpcx rocm amd intel kernel modules firmware host hosts "
    "node nodes gpu gpus cpu net network storage archive backup import export bundle file files name names path paths".split()
)
"""Parts of paths that every cluster has."""

ACCOUNTS: Final = frozenset(
    "root nobody daemon bin sys sync mail www backup proxy operator systemd messagebus dbus polkitd sshd chrony ntp slurm munge gdm lightdm user "
    "users ubuntu debian centos rocky fedora admin administrator ec2 azureuser opc vagrant default none null unknown system anonymous "
    "prometheus postgres docker kube nvidia ray jovyan".split()
)
"""Accounts that systems and clouds make themselves."""

SYSTEM_FOLDERS: Final = (
    "/dev/", "/proc/", "/sys/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/", "/boot/", "/run/", "/var/log/", "/var/run/",
    "/var/lib/", "/var/spool/", "/opt/nvidia/", "/opt/mellanox/", "/opt/hpcx/", "/opt/rocm/", "/opt/conda/", "/opt/pytorch/",
)  # fmt: skip
"""Below these lie the files of systems, drivers and images."""

PACKAGES: Final = ("site-packages", "dist-packages")

PUBLIC_SITES: Final = tuple(
    "pytorch.org nvidia.com github.com githubusercontent.com kernel.org python.org huggingface.co kubernetes.io k8s.io kubeflow.org ray.io "
    "schedmd.com mellanox.com amd.com intel.com redhat.com ubuntu.com debian.org wandb.ai readthedocs.io docker.io nvcr.io pypi.org gnu.org "
    "w3.org cncf.io coreos.com jupyter.org microsoft.com googleapis.com amazonaws.com freedesktop.org openssh.com linux.org".split()
)

SUFFIXES: Final = frozenset(
    "py pyc sh bash so a o c cc cpp cu h hpp cuh go rs js log txt out err json jsonl yaml yml toml ini cfg conf csv tsv pt pth bin idx "
    "safetensors ckpt distcp npy npz h5 pkl pickle parquet arrow tar gz tgz zst xz bz2 zip lock pid sock service slice scope xml html md "
    "sbatch slurm job trace dump img sif sqsh bak old metadata index model local_rank git".split()
)


@cache
def own_words() -> frozenset[str]:
    """Words (lower case) of the text that this program itself prints: one of them gives nobody away, and it stands in every report."""
    package = Path(str(files("postmortem")))
    sources = [
        package / "schema.py",
        *package.glob("report/*.py"),
        *package.glob("analysis/*.py"),
        *package.glob("analysis/*.toml"),
    ]
    sources += [p for p in data_folder("reports").iterdir() if p.suffix in {".html", ".css", ".js", ".toml"}]
    found: set[str] = set()
    for source in sources:
        found.update(word.lower() for word in _WORD.findall(source.read_text(encoding="utf-8")))
    return frozenset(found)


def is_plain(name: str) -> bool:
    """`name` gives nothing away: digits, or only words of ours, of ordinary folders and their numbers."""
    words = _WORD.findall(name.lower())
    return all(word in FOLDERS or len(word) < 3 for word in words)


def is_public(host: str) -> bool:
    """`host` is a site that anybody knows, or lies below one."""
    return any(host == site or host.endswith(f".{site}") for site in PUBLIC_SITES)
