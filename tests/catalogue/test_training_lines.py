"""Lines of NCCL, PyTorch and trainers as public issues and the programs' sources have them: each gives what it says.

They are not the samples of the definitions: those hold a definition to its own line, these to its kin.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from postmortem.catalogue.lint import recognise_texts
from postmortem.catalogue.matcher import Matcher

# Text, and what it gives: events with the fields that matter, `;` between events.
Case = tuple[str, str]

NCCL: list[Case] = [
    (
        "node-05:12251:12400 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : Software caused connection abort\nnode-05:12251:12400 [5] NCCL INFO misc/socket.cc:564 -> 2",
        "nccl.socket_error host=node-05 peer=fe80::966d:ae03:a2:8cf0%ib1 value='Software caused connection abort' ; nccl.error_path status=2 value=misc/socket.cc:564",
    ),
    (
        "worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<49892> with status=12 opcode=32616 len=0 vendor err 129 (Recv) localGid fd00:1148:9000:5000:4:200:3:ff22 remoteGidsfd00:1148:9000:5000:4:200:3:ff1f",
        "nccl.ib_completion_error peer=10.216.210.236 status=12 opcode=32616 vendor_err=129",
    ),
    (
        "node-09:984:1257 [4] NCCL INFO comm 0x557fe785f7a0 rank 36 nranks 64 cudaDev 4 nvmlDev 4 busId 9b000 commId 0x5ae77eb5ea4ec1ee - Init COMPLETE",
        "nccl.init_done rank=36 nranks=64 gpu=4 pci=0000:9b:00.0",
    ),
    (
        "node-04:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused connection abort\nnode-04:39964:40075 [0] NCCL INFO transport/net_socket.cc:336 -> 2\n\nnode-04:39964:40075 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2",
        "nccl.socket_error peer=10.0.0.2 ; nccl.error_path value=transport/net_socket.cc:336 status=2 ; nccl.warn rank=0 status=2",
    ),
    (
        "node-04:39964:40049 [5] NCCL INFO Channel 20 : 5[5] -> 4[4] via SHM/direct/direct",
        "nccl.channel rank=5 peer_rank=4 value=SHM/direct/direct channel=20",
    ),
    (
        "node-04:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node1<57557>\nnode-04:39964:40044 [0] NCCL INFO misc/socket.cc:749 -> 6\n\nnode-04:39964:40044 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f6f18cb7f40",
        "nccl.remote_closed peer=node1 ; nccl.error_path status=6 ; nccl.warn host=node-04 gpu=0",
    ),
    (
        "\x1b[0m ip-10-31-0-137:14605:14688 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1|-1->0->1/-1/-1 [1] 1/-1/-1->0->-1|-1->0->1/-1/-1 [2] -1/-1/-1->0->1|1->0->-1/-1/-1 [3] -1/-1/-1->0->1|1->0->-1/-1/-1",
        "nccl.topology host=ip-10-31-0-137 pid=14605",
    ),
    (
        "\x1b[0m ip-10-31-0-137:14605:14688 [0] NCCL INFO Channel 00 : 1[1e0] -> 0[1e0] [receive] via NET/Socket/0",
        "nccl.channel rank=0 value=NET/Socket/0",
    ),
    (
        "[0m ip-10-31-0-137:14605:14673 [0] NCCL INFO Bootstrap : Using [0]ens5:10.31.0.137<0> [1]veth75fa783:fe80::14ad:64ff:fe64:b31e%veth75fa783<0>",
        "nccl.net ifname=ens5 value=10.31.0.137 ; nccl.net ifname=veth75fa783",
    ),
    (
        "[0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 10.10.1.3<36138>\n[0] NCCL INFO misc/socket.cc:80 -> 6\n[0] NCCL INFO group.cc:75 -> 6 [Async thread]",
        "nccl.remote_closed peer=10.10.1.3 gpu=0 ; nccl.error_path status=6 ; nccl.error_path status=6 value=group.cc:75",
    ),
    (
        "node-07:18569:18835 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in",
        "nccl.warn host=node-07",
    ),
    (
        "node-08:21476:21476 [2] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB em1:10.18.28.82<0>",
        "nccl.ib_device dev=mlx5_0 port=1 value=IB",
    ),
    (
        "[1] node2:22555:22555 [0] NCCL INFO Channel 00/0 : 2[1] -> 1[0] [receive] via NET/Socket/0",
        "nccl.channel host=node2 rank=1 value=NET/Socket/0",
    ),
    (
        "[0] node0:13571:13571 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        "nccl.channel host=node0 rank=0",
    ),
    (
        "461 node-06:41449:43711 [6] NCCL INFO Ring 00 : 0 -> 1 [send] via NET/Socket/0",
        "nccl.channel rank=0 value=NET/Socket/0",
    ),
    (
        "node-06:41449:43711 [6] NCCL INFO Ring 00 : 1 -> 0 [receive] via NET/Socket/0",
        "nccl.channel rank=0 value=NET/Socket/0",
    ),
    (
        "node-06:41449:41449 [6] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
        "nccl.env code=NCCL_IB_DISABLE value=1",
    ),
    (
        "[1,26]<stdout>:ip-10-32-36-209:8716:9558 [2] NCCL INFO Ring 00 : 26[2] -> 30[6] via P2P/IPC",
        "nccl.channel host=ip-10-32-36-209 rank=26 value=P2P/IPC gpu=2",
    ),
    (
        "[1,7]<stdout>:ip-10-32-38-1:21471:22316 [7] NCCL INFO Ring 00 : 7 -> 8 [send] via NET/AWS Libfabric/0",
        "nccl.channel rank=7 value='NET/AWS Libfabric/0'",
    ),
    (
        "[1,31]<stdout>:ip-10-32-36-209:8800:9549 [7] NCCL INFO NET/OFI No NIC info for dev 0\n[1,31]<stdout>:ip-10-32-36-209:8800:9549 [7] NCCL INFO include/net.h:24 -> 2",
        "nccl.error_path value=include/net.h:24 status=2",
    ),
    (
        "[1,23]<stdout>:\n[1,23]<stdout>:ip-10-32-45-165:72593:73427 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        "nccl.warn host=ip-10-32-45-165 gpu=7",
    ),
    (
        "nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain 0x7f9befa99380 failed: Invalid argument",
        "nccl.warn",
    ),
    (
        "[1,2]<stdout>:nccl-worker-0:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found\n[1,2]<stdout>:nccl-worker-0:75:95 [2] NCCL INFO graph/topo.cc:493 -> 3\n[1,2]<stdout>:nccl-worker-0:75:95 [2] NCCL INFO group.cc:64 -> 3 [Async thread]",
        "nccl.warn host=nccl-worker-0 ; nccl.error_path status=3 value=graph/topo.cc:493 ; nccl.error_path status=3",
    ),
    (
        "8gpu-2:14630:14695 [1] NCCL INFO Channel 07/0 : 1[1] -> 0[0] [send] via NET/AWS Libfabric/1/GDRDMA",
        "nccl.channel host=8gpu-2 rank=1 value='NET/AWS Libfabric/1/GDRDMA'",
    ),
    ("8gpu-2:14630:14630 [0] NCCL INFO NCCL version 2.23.4+cuda12.4", "nccl.version value=2.23.4+cuda12.4"),
    (
        "\nnode-01:1000:1002 [2] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.9<40000> failed : Connection timed out",
        "nccl.socket_error peer=10.0.0.9 value='Connection timed out'",
    ),
    ("node-01:1000:1002 [2] NCCL INFO [Service thread] Accept failed Success", "nccl.socket_error"),
    (
        "\nnode-01:1000:1002 [2] transport/net_socket.cc:411 NCCL WARN NET/Socket : peer 10.0.0.7<40000> message truncated : receiving 1048576 bytes instead of 65536. If you believe your socket network is in a healthy state,           there may be a mismatch in collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) between ranks",
        "nccl.mismatch peer=10.0.0.7",
    ),
    (
        "node-01:1000:1002 [2] NCCL INFO RAS handling peersUpdate from 10.0.0.7<40000> (peersHash 0x1f, deadPeersHash 0x1f, nPeers 3, nDeadPeers 3)",
        "nccl.ras severity=info peer=10.0.0.7",
    ),
    (
        "node-01:1000:1002 [2] NCCL INFO RAS keep-alive timeout error (60s) on a socket connection with 10.0.0.7<40000>",
        "nccl.ras severity=warning peer=10.0.0.7",
    ),
    (
        "[1,3]<stdout>:node-01:1000:1002 [2] NCCL INFO Ring 00 : 3 -> 4 -> 5 comm 0x7f7 nRanks 16 busId ce000",
        "nccl.topology comm=0x7f7 nranks=16",
    ),
    (
        "[2026-03-13 22:26:02] node-01:1000:1002 [2] NCCL INFO ncclCommSplit comm 0x55d0 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 9b000 parent 0x55c0 splitCount 1 color 7 key 2- Init START",
        "nccl.init_start rank=2 nranks=4 gpu=2",
    ),
    (
        "\nip-10-0-0-4:451707:453373 [4] nccl_net_ofi_rdma_progress:1540 NCCL WARN NET/OFI Request 0x7f14cc5b60c0 completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0",
        "nccl.warn host=ip-10-0-0-4 gpu=4",
    ),
    (
        "node-01:1000:1002 [2] NCCL INFO NCCL_SOCKET_IFNAME set by environment to =eth0",
        "nccl.env code=NCCL_SOCKET_IFNAME value==eth0",
    ),
    (
        "\nnode-01:1000:1002 [2] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "nccl.system_error value='No space left on device'",
    ),
    (
        "\nnode-01:1000:1002 [2] misc/ibvwrap.cc:254 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
        "nccl.ib_verbs_error code=ibv_modify_qp value='Invalid argument'",
    ),
    ("\nnode-01:1000:1002 [2] transport/net_ib.cc:171 NCCL WARN NET/IB : Unable to open device mlx5_3", "nccl.warn"),
    (
        "\nnode-01:1000:1002 [2] proxy.cc:1485 NCCL WARN [Service thread] Error encountered progressing operation=Setup, res=3, closing connection",
        "nccl.warn status=3",
    ),
    (
        "node-01:1000:1002 [2] NCCL INFO AllGather: opCount 3f sendbuff 0x7f1 recvbuff 0x7f2 count 1024 datatype 9 op 0 root 0 comm 0x55 [nranks=16] stream 0x33 task 0 globalrank 5",
        "nccl.collective op=allgather seq=63 numel=1024 nranks=16 rank=5",
    ),
]

TORCH: list[Case] = [
    (
        "(RayWorkerWrapper pid=4009) [rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank 1] Timeout at NCCL work: 158046, last enqueued NCCL work: 158046, last completed NCCL work: 158045.",
        "torch.watchdog_error rank=1 seq=158046",
    ),
    (
        "(RayWorkerWrapper pid=4009) [rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 1 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=158046, OpType=GATHER, NumelIn=2867200, NumelOut=0, Timeout(ms)=600000) ran for 600027 milliseconds before timing out.",
        "torch.watchdog_error rank=1 seq=158046 op=gather elapsed_ms=600027",
    ),
    (
        "[rank5]:[E723 01:58:45.667329643 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 2 and we will try our best to dump the debug info. Last enqueued NCCL work: 136, last completed NCCL work: 136.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks.",
        "torch.fr_dump rank=5 peer_rank=2",
    ),
    (
        "[rank144]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 144] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=1",
        "torch.heartbeat_timeout rank=144",
    ),
    (
        "[rank1]:[W1229 22:06:38.558655037 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=67, addr=[node-10]:36214, remote=[node-10]:43145): Broken pipe\nException raised from sendBytes at /pytorch/torch/csrc/distributed/c10d/Utils.hpp:653 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x758a06b785e8 in /usr/local/lib/python3.10/dist-packages/torch/lib/libc10.so)",
        "torch.store_error rank=1 peer=node-10 peer_port=43145 status='Broken pipe'",
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.6\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nsocketStartConnect: Connect to 10.0.19.14<52822> failed : No route to host",
        "torch.exception status='unhandled system error'",
    ),
    (
        "Collective WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1000000) raised the following async exception: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.25.1\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\n",
        "torch.watchdog_error seq=2 op=allreduce",
    ),
    (
        "RuntimeError: NCCL error in: /opt/pytorch/torch/lib/THD/base/data_channels/DataChannelNccl.cpp:324, unhandled system error",
        "torch.exception status='unhandled system error'",
    ),
    (
        "W0920 09:10:41.194000 84933 site-packages/torch/distributed/elastic/agent/server/api.py:719] Received 1 death signal, shutting down workers\nW0920 09:10:41.195000 84933 site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process 85005 closing signal SIGHUP",
        "process.signal signal=1 ; process.signal signal=1 pid=85005",
    ),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "torch.cuda_error status=CUDNN_STATUS_NOT_INITIALIZED"),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "torch.cuda_error status=CUBLAS_STATUS_NOT_INITIALIZED",
    ),
    (
        "RuntimeError: HIP error: no kernel image is available for execution on the device\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3\nCompile with `TORCH_USE_HIP_DSA` to enable device-side assertions.",
        "torch.cuda_error status='no kernel image is available for execution on the device'",
    ),
    ("RuntimeError: DataLoader worker (pid 19597) is killed by signal: Killed.", "torch.exception pid=19597 signal=9"),
    ("RuntimeError: DataLoader worker (pid(s) 164244) exited unexpectedly", "torch.exception pid=164244"),
    (
        "terminate called after throwing an instance of 'c10::Error'\n  what():  invalid device pointer: 0x5400000\nException raised from free at ../c10/hip/HIPCachingAllocator.cpp:2994 (most recent call first):",
        "torch.exception",
    ),
    (
        "[2]:\n  time      : 2024-03-05_07:01:51\n  host      : node-02.cluster.example\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 69813)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        "torch.elastic_failure host=node-02.cluster.example rank=2 local_rank=2 exit_code=1 pid=69813",
    ),
    (
        "ERROR    | 2024-08-22 02:25:32 | autotrain.trainers.common:wrapper:121 - HIP error: no kernel image is available for execution on the device",
        "torch.cuda_error status='no kernel image is available for execution on the device'",
    ),
    (
        "ERROR:composer.cli.launcher:Global rank 0 (PID 208865) exited with code -11",
        "process.exit rank=0 pid=208865 exit_code=-11 signal=11",
    ),
    (
        "RuntimeError: unable to mmap 2048 bytes from file <filename not specified>: Cannot allocate memory (12)",
        "torch.exception",
    ),
    (
        "[1]:\n  time      : 2023-06-14_22:36:10\n  host      : node-03.cluster.example\n  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 2385923)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 2385923",
        "torch.elastic_failure rank=1 local_rank=1 exit_code=-6 signal=6 pid=2385923 host=node-03.cluster.example",
    ),
    (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) local_rank: 0 (pid: 2380846) of binary: /opt/env/bin/python",
        "torch.elastic_failure exit_code=-6 signal=6 local_rank=0 pid=2380846",
    ),
    (
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT",
        "process.signal signal=6 local_rank=1",
    ),
    ("Fatal Python error: Aborted\n\nThread 0x00007f2ea0870640 (most recent call first):", "process.signal signal=6"),
    (
        "[E ProcessGroupNCCL.cpp:566] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1807616 milliseconds before timing out.",
        "torch.watchdog_timeout rank=1 op=broadcast timeout_ms=1800000 elapsed_ms=1807616",
    ),
    (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1803170 milliseconds before timing out.",
        "torch.watchdog_error rank=3 op=allreduce elapsed_ms=1803170",
    ),
    (
        "[rank3]:[E ProcessGroupNCCL.cpp:1282] [PG 0 Rank 3] Received a timeout signal from this local rank and will start to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 4.",
        "torch.fr_dump rank=3 last_enqueued=5",
    ),
    (
        "[rank1]:[E1112 03:14:15.124456789 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 1] Observed flight recorder dump signal from another rank via TCPStore.",
        "torch.fr_dump rank=1",
    ),
    (
        "[rank1]:[E1112 03:14:15.124456789 ProcessGroupNCCL.cpp:610] [Rank 1] Work WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=10000) timed out in blocking wait.",
        "torch.watchdog_error rank=1 seq=4 op=allreduce timeout_ms=10000",
    ),
    (
        "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.",
        "torch.store_error",
    ),
    ("RuntimeError: Connection reset by peer", "torch.exception"),
    (
        "Child process 14133 (local_rank 3) FAILED (exitcode -9)\nError msg: Signal 9 (SIGKILL) received by PID 14133",
        "torch.elastic_failure local_rank=3 pid=14133 exit_code=-9 signal=9",
    ),
    (
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; will restart worker group",
        "torch.elastic_restart",
    ),
    ("[node03:12345:0:12400] Caught signal 7 (Bus error: nonexistent physical address)", "process.signal signal=7"),
    (
        "2024-05-08 03:58:21.330281: F external/xla/xla/pjrt/distributed/client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs for more details.",
        "torch.abort",
    ),
    ("RuntimeError: CUDA driver error: invalid argument", "torch.cuda_error status='invalid argument'"),
    (
        "[rank1]: torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
        "torch.cuda_error rank=1 status='uncorrectable NVLink error detected during the execution'",
    ),
    (
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "torch.cuda_error status=CUDNN_STATUS_EXECUTION_FAILED",
    ),
    ("RuntimeError: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`", "torch.exception"),
    (
        "[rank0]: torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.98 GiB.",
        "torch.oom rank=0 value=2.0",
    ),
    ("RuntimeError: NCCL communicator was aborted on rank 2.", "torch.exception rank=2"),
    ("RuntimeError: NCCL Error 2: unhandled system error", "torch.exception status='unhandled system error'"),
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.1.2.3]:12345",
        "torch.exception peer=10.1.2.3 peer_port=12345",
    ),
    ("RuntimeError: Application timeout caused pair closure", "torch.exception"),
    (
        "[2024-05-01 10:30:45,101] [INFO] [launch.py:324:sigkill_handler] Main process received SIGTERM, exiting",
        "process.signal signal=15",
    ),
]

TRAINER: list[Case] = [
    (
        " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 86545.2 | learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "train.step step=122 total_steps=250000 step_time_ms=86545.2 loss=2.50422 grad_norm=0.231 consumed_samples=124928 global_batch=1024",
    ),
    (
        "[rank0]:2024-03-27 14:30:05,872 - root - INFO - step:  1  loss: 10.5326  memory: 12.21GiB(15.43%)  wps: 1,234  mfu: 1.20%",
        "train.step step=1 loss=10.5326 tokens_per_s=1234 rank=0",
    ),
    (
        "[2024-10-13 10:39:13,696] [INFO] [logging.py:96:log_dist] [Rank 0] step=22, skipped=0, lr=[1.8402508875376674e-07, 1.8402508875376674e-07], mom=[(0.9, 0.95), (0.9, 0.95)]\n[2024-10-13 10:39:13,696] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 4631.17 | bwd: 15589.38 | bwd_inner: 14105.76 | bwd_allreduce: 1483.59 | step: 423.28",
        "train.step step=22 rank=0",
    ),
    (
        "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]",
        "train.step step=794 loss=3.09 step_time_ms=41360",
    ),
    (
        "2020-07-17 07:11:02 | INFO | train_inner | epoch 001:   2800 / 160368 loss=9.255, ppl=611.12, wps=57.3, ups=0.04, wpb=1613, bsz=80, num_updates=2800, lr=2.8e-05, gnorm=3.23, train_wall=13, wall=1236",
        "train.step step=2800 loss=9.255 tokens_per_s=57.3 step_time_ms=25000 grad_norm=3.23",
    ),
    (
        "2024-08-06 09:59:26.181 node-01:0  olmo.train:908  INFO    [step=1/739328,epoch=0]\n    optim/total_grad_norm=231.7\n    train/CrossEntropyLoss=12.18\n    train/Perplexity=195,153\n    throughput/total_tokens=1,048,576\n    throughput/total_training_Gflops=5,103,640\n    System/Peak GPU Memory (MB)=46,911",
        "train.step step=1 total_steps=739328 loss=12.18 grad_norm=231.7 host=node-01",
    ),
    (
        "[2025-02-20 15:18:04] INFO     [olmo_core.train.callbacks.console_logger:62, rank=0] [step=1/7,epoch=1]\n    optim/LR (group 0)=1.00E-05\n    optim/total grad norm=14.34\n    throughput/device/data loading (s)=2.108\n    train/CE loss=11.03",
        "train.step step=1 total_steps=7 loss=11.03 grad_norm=14.34 rank=0",
    ),
    (
        "completed step: 9, seconds: 1.341, TFLOP/s/device: 257.929, Tokens/s/device: 36653.244, loss: 0.000",
        "train.step step=9 step_time_ms=1341 loss=0.0",
    ),
    (
        "steps:  22%|█████████████████████████████████                | 176/800 [00:46<02:44,  3.79it/s, avr_loss=0]",
        "train.step step=176 total_steps=800 loss=0 step_time_ms=263.85",
    ),
    (
        "Epoch: [25][3096/5005]\tTime  0.551 ( 0.548)\tData  0.000 ( 0.001)\tLoss 1.9055e+00 (2.1268e+00)\tAcc@1  57.81 ( 51.79)\tAcc@5  79.69 ( 76.05)",
        "train.step step=3096 step_time_ms=551 loss=1.9055",
    ),
    (
        "(TaskRunner pid=87031) step:86 - global_seqlen/min:339187.000 - actor/entropy_loss:0.317 - actor/grad_norm:0.006 - training/global_step:86.000 - timing_s/gen:29.214 - timing_s/reward:1.053 - timing_s/old_log_prob:6.619 - timing_s/step:96.2",
        "train.step step=86 step_time_ms=96200",
    ),
    ("Training Step: 8  | total loss: 2.03040 | time: 0.275s", "train.step step=8 loss=2.0304 step_time_ms=275"),
    (
        "Ep 1 | iter 1 | stEp 1: loss train (curr): 1.657, val (prev val iter): None | iter time: 298.27 ms",
        "train.step step=1 loss=1.657 step_time_ms=298.27",
    ),
    (
        "Ep 1 | iter 120 | step 30: loss train (curr): 1.162, val (prev val iter): None | iter time: 164.51 ms (opt.step)",
        "train.step step=30 loss=1.162 step_time_ms=164.51",
    ),
    (
        "Epoch 34 | iter 3050700 step 610140 | loss train: 2.846, val: 2.861 | iter time: 112.20 ms (step) remaining time: 0:01:54",
        "train.step step=610140 loss=2.846 step_time_ms=112.2",
    ),
    ("        iters: 100, epoch: 1 | loss: 0.3404325", "train.step step=100 loss=0.3404325"),
    ("iter 4800: val loss 1.7258, val time: 3778.02 ms", "train.eval loss=1.7258"),
    ("iter 1631: loss 4.0863, time 561.94ms", "train.step step=1631 loss=4.0863 step_time_ms=561.94"),
    (
        "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: 1, seconds: 0.631, TFLOP/s/device: 5688.282, Tokens/s/device: 311629.521, total_weights: 1572864, loss: 12.979, lm_loss: 12.979, perplexity: 433358.281",
        "train.step step=1 loss=12.979 step_time_ms=631",
    ),
    (
        "[11/01 11:27:04 d2.utils.events]: eta: 8:05:12  iter: 1259  total_loss: 1.012  loss_cls: 0.714  loss_box_reg: 0.291  time: 0.3322  data_time: 0.0334  lr: 0.010000  max_mem: 3961M",
        "train.step step=1259 loss=1.012 step_time_ms=332.2 data_time_ms=33.4",
    ),
    (
        "2021-04-12T14:04:31 | mmf.trainers.callbacks.logistics: progress: 100/22000, train/hateful_memes/cross_entropy: 0.6173, train/hateful_memes/cross_entropy/avg: 0.6173, train/total_loss: 0.6173, train/total_loss/avg: 0.6173, max mem: 4378.0, experiment: run, epoch: 1, num_updates: 100, iterations: 100, max_updates: 22000, lr: 0., ups: 0.74, time: 02m 16s 175ms, time_since_start: 02m 16s 199ms, eta: 09h 01m 46s 452ms",
        "train.step step=100 total_steps=22000 loss=0.6173",
    ),
    (
        "gpu250: steps: 10 loss: 10.9214 iter time (s): 12.123 samples/sec: 1.980",
        "train.step step=10 loss=10.9214 step_time_ms=12123",
    ),
    (
        " [2025-07-01 10:00:00.123456] iteration        5/     100 | consumed samples:          640 | skipped samples:            0 | elapsed time per iteration (ms): 5444.9 | throughput per GPU (TFLOP/s/GPU): 239.8 | energy per GPU (J/iter/GPU): 2100.5 | power per GPU (W/GPU): 601.2 | learning rate: 8.600000E-06 | global batch size:   128 | lm loss: 1.825991E+00 | mtp_1 loss: 1.9E+00 | loss scale: 1.0 | grad norm: 1.426 | params norm: 412.3 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "train.step step=5 total_steps=100 loss=1.825991 step_time_ms=5444.9 tflops=239.8 grad_norm=1.426",
    ),
    (
        " iteration      140/  152972 | consumed samples:       286720 | consumed tokens:    587202560 | elapsed time per iteration (ms): 19287.1 | learning rate: 1.376E-05 | global batch size:  2048 | lm loss: 6.617E+00 | loss scale: 1.0 | grad norm: 1.171 | num zeros: 0.0 | curriculum seqlen: 2048 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 106.185 | TFLOPs: 150.20 |\ntime (ms)",
        "train.step step=140 loss=6.617 tflops=150.2 samples_per_s=106.185 step_time_ms=19287.1",
    ),
    (
        "  successfully saved checkpoint from iteration   33241 to /ckpt [ t 1/1, p 1/1 ]",
        "train.checkpoint_done step=33241 path=/ckpt",
    ),
    ("successfully loaded checkpoint from /ckpt at iteration 1000", "train.checkpoint_loaded step=1000 path=/ckpt"),
    (
        "[rank0]:[titan] 2025-06-16 22:31:46,869 - root - INFO - Finished saving the checkpoint in 9.45 seconds.",
        "train.checkpoint_done elapsed_ms=9450",
    ),
    ("{'loss': nan, 'learning_rate': 4.3181818181818185e-06, 'epoch': 0.01}", "train.step ; train.nan"),
    (
        "[INFO|trainer.py:2134] 2024-05-25 06:30:55,346 >> ***** Running training *****\n[INFO|trainer.py:2140] 2024-05-25 06:30:55,346 >>   Total optimization steps = 1,752",
        "train.start",
    ),
    (
        "Saving model checkpoint to output/checkpoint-1500",
        "train.checkpoint_start step=1500 path=output/checkpoint-1500",
    ),
    ("[INFO:swift] Saving model checkpoint to /out/v0-2024/checkpoint-100", "train.checkpoint_start step=100"),
    (
        "{'loss': 1.2607, 'grad_norm': 0.52, 'learning_rate': 6.3e-06, 'epoch': 0.03, 'global_step/max_steps': '5/160', 'percentage': '3.12%', 'elapsed_time': '30s', 'remaining_time': '15m 44s', 'memory(GiB)': 61.2, 'train_speed(s/it)': 6.1}",
        "train.step loss=1.2607 step=5 total_steps=160",
    ),
    (
        "[INFO|callbacks.py:312] 2024-09-01 10:11:12,123 >> {'loss': 1.0226, 'learning_rate': 1.4229e-04, 'epoch': 0.89}",
        "train.step loss=1.0226",
    ),
    (
        "Epoch 3:  45%|████▌     | 450/1000 [03:45<04:35,  2.00it/s, v_num=12, train_loss=0.532]",
        "train.step step=450 loss=0.532 step_time_ms=500",
    ),
    ("Restored all states from the checkpoint at /ckpt/epoch=1-step=2000.ckpt", "train.checkpoint_loaded step=2000"),
    (
        "[NeMo I 2024-10-02 11:04:15 nemo_logging:381] Successfully saved checkpoint from iteration     500 to /results/ckpt/step=500.ckpt",
        "train.checkpoint_done step=500",
    ),
    (
        "[Rampup Batch Size Phase], completed step: 3, seconds: 2.310, total_weights: 65536, loss: 9.812, lm_loss: 9.812, perplexity: 18251.2",
        "train.step step=3 step_time_ms=2310 loss=9.812",
    ),
    (
        "[2025-02-20 15:18:04] INFO     [olmo_core.train.trainer:970, rank=0] Saving checkpoint for step 1000 to '/runs/a/step1000'...",
        "train.checkpoint_start step=1000 path=/runs/a/step1000",
    ),
    (
        "[2025-02-20 15:18:04] INFO     [olmo_core.train.trainer:836, rank=0] Will resume training from step 1,000, epoch 1",
        "train.resume step=1000",
    ),
    (
        "2024-06-24 18:02:11.331\tnode-01:0\tolmo.train:1304\tINFO\tSaving unsharded checkpoint...",
        "train.checkpoint_start",
    ),
    (
        "| saved checkpoint checkpoints/checkpoint1.pt (epoch 1 @ 8223 updates) (writing took 12.3 seconds)",
        "train.checkpoint_done step=8223 path=checkpoints/checkpoint1.pt elapsed_ms=12300",
    ),
    ("FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.", "train.nan"),
    ("step:20 - train/loss:1.2345 - train/lr(1e-3):0.01 - train/time(s):1.2", "train.step step=20 loss=1.2345"),
    ("Train epoch [1/1]:  12%|█▎        | 12/98 [00:10<01:12,  1.18it/s, pg_loss=0.01]", "train.step step=12"),
    (
        "iter 12 step 3: loss 2.0113, iter time: 512.21ms (optimizer.step)",
        "train.step step=3 loss=2.0113 step_time_ms=512.21",
    ),
    (
        "step   12/19560 | train loss 8.123456 | norm 3.2121 | lr 1.03e-05 | 1712.51 ms | 306123 tok/s",
        "train.step step=12 loss=8.123456 step_time_ms=1712.51 tokens_per_s=306123",
    ),
    ("step:125/1770 val_loss:4.1212 train_time:21000ms step_avg:168.00ms", "train.eval step=125 loss=4.1212"),
    (
        "Step 5 | loss:1.3212 lr:2e-05 tokens_per_second_per_gpu:512.3 peak_memory_active:20.1 peak_memory_alloc:20.1",
        "train.step step=5 loss=1.3212 tokens_per_s=512.3",
    ),
    (
        "Epoch 0:  12%|█▎        | 12/98 [00:10<01:12,  1.18it/s, loss=0.69, step=12, global_step=12]",
        "train.step step=12 loss=0.69",
    ),
    ("(step=0000100) Train Loss: 0.1512, Train Steps/Sec: 1.31", "train.step step=100 loss=0.1512 step_time_ms=763.36"),
    (
        "[2024-05-11 10:00:00,123] [    INFO] - loss: 9.123, learning_rate: 3e-06, global_step: 10, interval_runtime: 5.12, interval_samples_per_second: 12.5, interval_steps_per_second: 0.195, ppl: 9163.0, progress_or_epoch: 0.01",
        "train.step step=10 loss=9.123",
    ),
    (
        "2023-01-11 18:20:40,841 - mmpose - INFO - Epoch [1][50/293]\tlr: 4.945e-05, eta: 14:32:02, time: 0.852, data_time: 0.121, memory: 8123, heatmap_loss: 0.0021, acc_pose: 0.0312, loss: 0.0021, grad_norm: 0.0123",
        "train.step step=50 step_time_ms=852 loss=0.0021 data_time_ms=121",
    ),
    ("2023/04/11 10:11:12 - mmengine - INFO - Saving checkpoint at 1 epochs", "train.checkpoint_start"),
    ("INFO:tensorflow:loss = 4.1212, step = 100 (35.121 sec)", "train.step step=100 loss=4.1212"),
    (
        'Epoch 3, global step 300: val_loss reached 0.12312 (best 0.12312), saving model to "/ckpt/epoch=3.ckpt" as top 1',
        "train.checkpoint_start step=300 path=/ckpt/epoch=3.ckpt",
    ),
    (
        "STRAGGLER DETECTION WARNING: Some GPUs have worse individual performance. Affected ranks: {StragglerId(rank=1, node='node1')}",
        "train.slow_step",
    ),
]

# Ordinary output, and what belongs to a line told elsewhere.
QUIET = [
    "[rank0]:[E602 11:17:52.399374832 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
    "NET/IBP:Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)",
    "Socket recv failed while polling for opId=0x7f0c84227ac0",
    "INFO:tensorflow:global_step/sec: 0.0339311",
    "INFO:tensorflow:Recording summary at step 4.",
    "2020-04-05 18:47:19 | INFO | fairseq.trainer | NOTE: overflow detected, setting loss scale to: 64.0",
    "2020-04-05 18:38:41 | INFO | fairseq.trainer | no existing checkpoint found speed_test/checkpoint_last.pt",
    "[2025-02-20 15:17:59] INFO     [olmo_core.train.trainer:1303, rank=0] Starting forward/backward dry-run batch...",
    "node-06:41449:43711 [6] NCCL INFO CUDA Dev 6[6], Socket NIC distance :  PHB",
    "node-06:41449:43711 [6] NCCL INFO NET/Socket: Using 1 threads and 1 sockets per thread",
    "node-06:41449:43711 [6] NCCL INFO Using 256 threads, Min Comp Cap 7, Trees disabled",
    "node-06:41449:41449 [6] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).",
    "NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v6 symbol.",
    "I0811 21:54:44.943716 138304841739136 metric_logger.py:333] To see full metrics 'tensorboard --logdir=gs:",
    "gpu250: [2023-07-05 15:08:29,918] [INFO] [engine.py:83:__init__] CONFIG: micro_batches=6 micro_batch_size=1",
    "8gpu-2: Test NCCL failure common.cu:1158 'internal error - please report this issue to the NCCL developers / '",
    "[rank1]:[I1112 03:14:15.124456789 ProcessGroupNCCL.cpp:1253] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL destructor entered.",
    "[W socket.cpp:426] [c10d] The server socket cannot be initialized on [::]:29400 (errno: 97 - Address family not supported by protocol).",
    "-- Process 1 terminated with the following error:",
    "ip-10-0-0-4:451707:453373 [4] NCCL INFO NET/OFI Using aws-ofi-nccl 1.7.4-aws",
    "node-01:1000:1002 [2] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
    "NCCL git version master 5067397c",
    "\nnode-01:1000:1002 [2] NCCL INFO [Proxy Service] Device 2 CPU core 17\nnode-01:1000:1002 [2] NCCL INFO [Proxy Progress] Device 2 CPU core 18",
    "[after dataloaders are built] datetime: 2024-02-01 11:12:13 ",
    "(min, max) time across ranks (ms):\n    forward-backward ...............................: (5201.12, 5203.44)\n    batch-generator ................................: (0.33, 12.02)",
    "[2024-05-01 10:00:03,117] [INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved out/global_step500/mp_rank_00_model_states.pt.",
    "Loading checkpoint shards: 100%|██████████| 4/4 [00:10<00:00,  2.51s/it]",
    "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 12.01it/s]",
    "Bypassing SIGTERM: 15",
    "Completed eval step: 3, seconds: 0.231, running loss=6.512, running perplexity=673.2, running total_weights=131072",
    "To see full metrics 'tensorboard --logdir=gs://bucket/tensorboard/'",
    "2024-06-24 18:02:11.331\tnode-01:0\ttrain:352\tINFO\tLoading checkpoint from /ckpt/step1000...",
    "Found inf or nan in gradient norm; skipping step",
]


def expected(spec: str) -> list[tuple[str, dict[str, str]]]:
    """Events and their fields, as text, of a case's second part."""
    events: list[tuple[str, dict[str, str]]] = []
    for word in shlex.split(spec):
        name, equals, value = word.partition("=")
        if equals:
            events[-1][1][name] = value
        elif name != ";":
            events.append((name, {}))
    return events


def differs(want: str, got: object) -> bool:
    """Whether a column holds something else: numbers to a thousandth, the rest as text."""
    try:
        a, b = float(want), float(str(got))
    except ValueError:
        return want != str(got)
    return abs(a - b) > 1e-3 * max(abs(a), abs(b))


CASES = [*NCCL, *TORCH, *TRAINER]


@pytest.fixture(scope="module")
def found(matcher: Matcher) -> dict[str, list[dict[str, Any]]]:
    """The events of every text; each is a file of its own, so none can take a step or a rank from another."""
    texts = [text for text, _ in CASES] + QUIET
    assert len(set(texts)) == len(texts)
    rows = recognise_texts(matcher, [(f"{number}.log", text) for number, text in enumerate(texts)])
    return {text: [r for r in rows[f"{number}.log"] if not r["is_fact"]] for number, text in enumerate(texts)}


@pytest.mark.parametrize(("text", "spec"), CASES)
def test_a_line_gives_its_events_and_no_other(text: str, spec: str, found: dict[str, list[dict[str, Any]]]) -> None:
    want, got = expected(spec), found[text]
    assert [row["event"] for row in got] == [event for event, _ in want]
    for (_, fields), row in zip(want, got, strict=True):
        assert {name: row[name] for name, value in fields.items() if differs(value, row[name])} == {}


@pytest.mark.parametrize("text", QUIET)
def test_ordinary_output_gives_nothing(text: str, found: dict[str, list[dict[str, Any]]]) -> None:
    assert found[text] == []
