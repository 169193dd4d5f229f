"""What single lines of NCCL, its plugins and other vendors' libraries speak for; all of them in one bundle, a file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
NCCL = "node-01:1000:1002 [2] {} NCCL WARN {}"
SPEAKS_FOR: Mapping[str, str | None] = {
    NCCL.format("transport/net_ib.cc:500", "NET/IB : No IP interface found."): "network_config",
    NCCL.format("bootstrap.cc:90", "no device found matching NCCL_OOB_NET_IFNAME=ib9, ignoring"): None,
    NCCL.format("bootstrap.cc:90", "no device found matching ib9, verify NCCL_OOB_NET_IFNAME"): "network_config",
    NCCL.format("graph/xml.h:101", "Attribute arch of node cpu not found"): "network_config",
    NCCL.format("init.cc:101", "Invalid rank requested : 8/8"): "software_exception",
    NCCL.format("misc/argcheck.cc:9", "AllReduce : comm argument is NULL"): "software_exception",
    NCCL.format("misc/utils.cc:9", "Unrecoverable error detected: malloc(size=8589934592) returned null."): "host_oom",
    NCCL.format("dev_runtime.cc:9", "NCCL library is too old. This application was compiled with NCCL version 2.29.2, but is running with NCCL library version 2.28.9."): "version_mismatch",
    NCCL.format("transport.cc:10", "Cannot initialize CollNet, using point-to-point network instead"): None,
    NCCL.format("create:4", "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument"): "network_config",
    "/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA": "network_config",
    "WARN: init failed for remote transport: ibrc": None,
    "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error": "network_config",
    "EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [unknown].": "collective_hang",
    "EI0005: The arguments for collective communication are inconsistent between ranks: tag [a], parameter [count], local [2], remote [4]": "collective_mismatch",
    "EI0008: The HCCL versions are inconsistent: tag [a], local_version [8.0], remote_version [8.1]": "version_mismatch",
    "EJ0002: The network port is down.Suggest: Check the link of the network port.": "link_flap",
    "RuntimeError: sync:NPUStream.cpp:494 NPU function error: HBM MULTI BIT ECC ERROR, error code is 507054": "gpu_memory",
    "RuntimeError: HCCS LINK ERROR": "nvlink_fault",
    "RuntimeError: init:npu_sys_ctrl.cpp:193 NPU function error: aclInit, error code is 507901": "gpu_fault",
    "RuntimeError: [Rank:2] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::8589934592 (8192)MB": "gpu_oom",
    "RuntimeError: synStatus=20 [Device already acquired] Device acquire failed.": "resource_limit",
    "2m  Warning  UnexpectedAdmissionError  pod/llm-3  Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: error creating nvml.Device 3: nvml: GPU is lost, which is unexpected": "pcie_drop",
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected": "gpu_fault",
    "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested:1, Available: 0, which is unexpected": None,
    "I0601 03:20:11.123456       1 health.go:159] XidCriticalError: Xid=79 on Device=GPU-8f2e51c2-3d1b-44b0-a7d0-54a3f5a1c1d0; marking device as unhealthy.": "pcie_drop",
    "Message:      Pod was terminated in response to imminent node shutdown.": "preempted",
    "  Ready            Unknown   Mon, 01 Jun 2026 03:20:11 +0000   Mon, 01 Jun 2026 03:24:11 +0000   NodeStatusUnknown   Kubelet stopped posting node status.": "host_crash",
    '  Warning  FailedMount  9s (x8 over 73s)  kubelet  MountVolume.SetUp failed for volume "data" : mount failed: mount.nfs: Connection timed out': "storage_stall",
    '  Warning  FailedMount  9s (x8 over 73s)  kubelet  MountVolume.SetUp failed for volume "api" : object "default"/"kube-root-ca.crt" not registered': None,
    "nvidia-container-cli: ldcache error: process /sbin/ldconfig.real failed with error code: 1": None,
    "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory": None,
    "slurmstepd: error: pyxis:     [ERROR] Not enough space left in /tmp/enroot-data": "resource_limit",
    "ssh: Could not resolve hostname node-07: Name or service not known": "network_config",
    "Host key verification failed.": None,
    "[node-01:00123] *** MPI_ERR_TRUNCATE: message truncated": "collective_mismatch",
    '{"protoPayload":{"methodName":"compute.instances.hostError","resourceName":"projects/p/zones/z/instances/node-17"}}': "host_crash",
    "2026-02-03T14:05:00Z maintenance-event: TERMINATE_ON_HOST_MAINTENANCE": "preempted",
    "ERROR:  nhc:  Health check failed:  check_gpu_count: GPU_TEST: Counted 7 GPUs instead of expected 8": "pcie_drop",
    "ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_3:1 is ACTIVE (LinkUp 400 Gb/sec).": "link_flap",
    "   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)": "host_oom",
    "   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)": "job_timeout",
    "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)": None,
    "node-01: Test NCCL failure common.cu:1279 'unhandled system error / Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes'": "resource_limit",
    "[ERROR] [rank_monitor_server.py:498] [Cycle 2] Did not get subsequent heartbeat. Waited 45.00 seconds.": "collective_hang",
    NCCL.format("graph/topo.cc:9", "Add NVLink error : could not find GPU 0x4b000"): "network_config",
    NCCL.format("transport/nvls.cc:9", "rank 3 failed to NVLS register sendbuff 0x7f sendbuffSize 8 recvbuff 0x7f recvbuffSize 8"): None,
    NCCL.format("nccl_net_ofi_init:9", "NET/OFI Failed to deregister flush buffer"): None,
    NCCL.format("misc/socket.cc:9", "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)"): "network_config",
    NCCL.format("bootstrap.cc:9", "Bootstrap Root : rank 3 of 8 ranks has already checked in"): "software_exception",
    NCCL.format("enqueue.cc:9", "cudaArch 890 ncclMaxSharedMem 101376 exceeds device/fn maxSharedMem 99328"): "version_mismatch",
    "jax.errors.JaxRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited or there was a network error.": None,
    "slurmstepd: error: unable to create cgroup '/sys/fs/cgroup/memory/slurm/uid_1000' : No space left on device": "resource_limit",
    "slurmstepd: error: execve(): train.sh: No such file or directory": "software_exception",
    "srun: error: get_addr_info: Unable to resolve \"gpu5\"": "network_config",
    "srun: error: Task launch for StepId=4711.0 failed on node gpu5: Socket timed out on send/recv operation": None,
    "  Warning  Evicted  5s  kubelet  Usage of EmptyDir volume \"shm\" exceeds the limit \"64Mi\".": "resource_limit",
    "  Normal  EvictedDueToClusterQueueStopped  2m5s  kueue-workload-controller  The ClusterQueue is stopped": "cancelled",
    "  Normal  EvictedDueToNodeFailures  2m5s  kueue-workload-controller  Workload was evicted as there was no replacement for a failed node: x3": "host_crash",
    "Failed to modify QP to RTR: Connection timed out": "network_config",
    "e66aa18dc444:3171:3171 [0] include/socket.h:311 WARN Socket creation failed : Address family not supported by protocol": "network_config",
    "RuntimeError: NVSHMEM error: nvshmemx_init failed": None,
    "[gpu1][[1,1],0][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier [[59482,1],3]": "network_config",
    "AzureMLCompute job failed. PreemptionError: Nodes of this job got pre-empted. Check if the run has failed or restarted.": "preempted",
    "ClientError: Please use an instance type with more memory, or reduce the size of training data processed on an instance.": "host_oom",
    "InternalServerError: We encountered an internal error. Please try again.": None,
    "2020-03-11 10:12:13 MaxRuntimeExceeded - Training job runtime exceeded MaxRuntimeInSeconds provided": "job_timeout",
    NCCL.format("allocator.cc:79", "Cuda failure 711 'peer mapping resources exhausted'"): "software_exception",
    "ray.exceptions.OutOfDiskError: Local disk is full": "resource_limit",
    "ray.exceptions.OwnerDiedError: Failed to retrieve object ffff. The object's owner has exited.": None,
    "(pid=119) *** SIGBUS (@0x7f1ca25a2fe0) received by PID 119 (TID 0x7f23680c9740) from PID 2138403808; stack trace: ***": "resource_limit",
    NCCL.format("misc/ibvwrap.cc:280", "Call to ibv_create_qp failed"): "resource_limit",
    "DeepEP timeout for dispatch senders, rank 3, responsible_channel = 2": "collective_hang",
    "12.301s: job.exception ƒABRJ7pf type=node-failure severity=0 lost contact with job shell on broker picl3 (rank 3)": "host_crash",
    "RuntimeError: oneCCL: atl_ofi_comm.cpp:232 init_transport: EXCEPTION: failed to initialize ATL": "network_config",
    "MPIDI_OFI_mpi_init_hook(1580): OFI get address vector map failed": "network_config",
    "srun: error:  mpi/pmix_v5: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx library": "version_mismatch",
    "s05r1b72.304088hfi_userinit_internal: assign_context command failed: Device or resource busy": "resource_limit",
    "bdw-0214.30734PSM2 can't open hfi unit: -1 (err=23)": None,
    "libfabric:58327:1712345678::cxi:core:cxip_cp_get():233<warn> nid005000: Failed to allocate CP, ret: -22 VNI: 1024 TC: BEST_EFFORT TYPE: DEFAULT": "network_config",
    "[0] tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN 0xad:0xae, nic 0, enp12s0, 172.16.0.11<391><-172.16.0.95<467> rx rx ctrl timeout cnt 7331502, nanos 10000000585": None,
    '  Warning  Failed  3m  kubelet  Failed to pull image "r/x:1": rpc error: code = Unknown desc = Head "https://r/v2/x": dial tcp: lookup r: no such host': "network_config",
    '  Warning  Failed  3m  kubelet  Failed to pull image "r/x:1": rpc error: code = NotFound desc = failed to resolve reference': None,
    "  Warning  FailedMount  3m  kubelet  Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition": "storage_stall",
    "    Message:  Preempted to accommodate a workload (UID: 1a2b, JobUID: 3c4d) due to reclamation within the cohort": "preempted",
    "slurmd: error: Credential signature check: Job credential expired": "clock_skew",
    "[2026-03-01T02:03:04.000] update_node: node gpu05 reason set to: Kill task failed": None,
}  # fmt: skip


def test_what_lines_speak_for(analyse: Analyse) -> None:
    incident = analyse({f"{n:03}.log": f"{line}\n" for n, line in enumerate(SPEAKS_FOR)})
    rows = incident.con.execute("SELECT e.file, s.cause FROM signs s JOIN events e USING (event_id)").fetchall()
    said: dict[str, set[str]] = {}
    for file, cause in rows:
        said.setdefault(file.rpartition("/")[2], set()).add(cause)
    for n, (line, cause) in enumerate(SPEAKS_FOR.items()):
        of = said.get(f"{n:03}.log", set())
        assert cause in of if cause else not of, (line, of)


BROKEN = "2026-02-03 14:{}:00 node-01:1000:1002 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.5<40000> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
INIT = "2026-02-03 14:00:30 node-01:1000:1002 [2] NCCL INFO ncclCommInitRank comm 0x55d0c4a2b7f0 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 3b000 commId 0x3a1c5e0f9b7d2468 - Init COMPLETE\n"


@pytest.mark.parametrize(
    ("log", "others", "is_first_try"),
    [(BROKEN.format("05"), 0, True), (INIT + BROKEN.format("05"), 9, True), (INIT + BROKEN.format("45"), 9, False), (BROKEN.format("05"), 9, False)],
    ids=["alone", "soon after the start", "long after the start", "the start not seen"],
)  # fmt: skip
def test_a_broken_connection_is_a_first_try_only_soon_after_the_start(
    analyse: Analyse, log: str, others: int, is_first_try: bool
) -> None:
    quiet = {
        f"node-{n}.log": f"2026-02-03 14:00:00 node-{n}:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{n}<0>\n"
        for n in range(others)
    }
    found = analyse({"nccl.log": log, **quiet})
    rows = found.con.execute(
        "FROM signs s JOIN events e USING (event_id) SELECT s.cause WHERE e.status = '12'"
    ).fetchall()
    assert ("network_config" in {cause for (cause,) in rows}) == is_first_try
