"""The words by which a name is told from the name of a machine."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SOURCES = _words("nccl torch trainer kernel switch scheduler profiler host unknown")
"""Sources of the vocabulary: `<source>-<number>` is a numbered file, not a host."""

HOST_FOLDERS = _words("hosts nodes machines servers")
SWITCH_FOLDERS = _words("switches leaves leafs spines")

MACHINE_KINDS = _words(
    """
    dmesg uptime-s uptime who-b hwclock serial console bmc sel nvidia-bug-report lspci ibstat ibstatus host-dmesg
    kernel-dmesg
    """
)
"""Logs that are one machine's by nature and are kept under its name: any word behind them is a host."""

SYSTEM_KINDS = _words(
    """
    dmesg messages syslog kern kernel journal journalctl switch console serial uptime-s uptime nvidia-smi
    nvidia-bug-report rasdaemon mcelog slurmd kubelet fabricmanager nv-fabricmanager dcgm ethtool hwclock date
    var-log-messages ibstat ibstatus lspci host-ibstatus host-dmesg
    """
)
PROGRAM_KINDS = _words("torchrun stdout stderr deepspeed accelerate mpirun")
DUMP_KINDS = _words(
    """
    nccl rccl ncclprof nccl-inspector nccl-profiler nccl-debug nccl_debug rccl-debug
    """
)
"""Files a process writes under its host's name, its process id often behind it."""
WEAK_KINDS = _words(
    """
    train trainer training log logs output out err error host node-log console-log worker-log
    """
)

MACHINE_WORDS = _words(
    """
    node nodes host worker master head headnode login compute server srv gpu gpuhost gpunode gpuserver gpuworker dgx
    hgx leaf spine superspine tor sw switch rack blade pod vm vmss cn nid launcher hpc instance machine chassis
    tray ib leafsw bastion controller mgmt storage oss mds nfs
    """
)

# Parts of a job or of a process.
_JOB_PARTS = _words(
    """
    rank ranks localrank attempt restart retry run runs job jobs step steps epoch iter iteration phase stage part
    chunk shard pid tid thread task tasks session boot boots group replica stream device dev xid sxid lane port
    """
)
# What a file may hold.
_CONTENTS = _words(
    """
    log logs dmesg messages message syslog kern kernel journal journalctl stdout stderr stdin output out err error
    errors warn warning warnings info debug trace traces dump dumps events event status summary report all full raw
    combined merged tail current previous latest last first before after old new copy backup tmp temp test tests
    sample samples example case cases bug issue ticket incident crash panic timeout timeouts failure failed failing
    fail hang hung lost fault faults quiet healthy boottime human readable stamp stamps time times date dates follow
    stall sigkill sigterm sigabrt oom uptime history snapshot config cfg env conf topology topo
    """
)
# Programs and sources.
_PROGRAMS = _words(
    """
    nccl rccl torch torchrun deepspeed megatron trainer train training scheduler slurm slurmctld slurmd slurmdbd
    opensm ufm profiler flight recorder sonic nxos eos junos iosxr cumulus onyx kubelet containerd docker nvidia
    nvrm mlx network systemd audit auth cron daemon mail user secure lldp snmp python pytorch cuda driver firmware
    fw
    """
)
# Words of folders.
_FOLDERS = _words(
    """
    var etc proc sys usr home opt run lib sos_commands commands hosts ranks switches bundle archive data
    results checkpoint checkpoints ckpt outputs version release
    """
)

NEVER_WORDS = _JOB_PARTS | _CONTENTS | _PROGRAMS | _FOLDERS
"""Words that no host name holds; one of them in a name is enough."""

POD_WORDS = _words("job run test train training trainer torch pytorch opt nccl deepspeed megatron data")
"""Of those, the ones a job may be called after whose pods are hosts: `my-training-job-worker-0`."""

JOB_WORDS = _words(
    """
    gpt llama bert bloom opt moe mixtral mistral qwen gemma falcon t llm zero pretrain pretraining finetune sft rlhf
    exp experiment model demo project cluster team build
    """
)
"""Words of a job's name: a pod may be called `gpt-7b-worker-3`, but `gpt2` is no host."""

GPU_MODELS = _words(
    """
    v100 a10 a30 a40 a100 a800 h100 h200 h800 h20 b100 b200 b300 gb200 gb300 gh200 l4 l40 l40s mi210 mi250 mi300
    mi325 mi350 mi355 p100 t4
    """
)
"""A host may be called after them (`h200-0017`); alone, or in front of a word, they name the kind of GPU."""
