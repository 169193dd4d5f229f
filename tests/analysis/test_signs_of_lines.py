"""What one line of a training program speaks for: each a kind of message, told by its words, beside the like of it that means another thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from postmortem.incident import Incident, Options, open_incident

Analyse = Callable[[Mapping[str, str]], Incident]

HTTP = "HTTPSConnectionPool(host='huggingface.co', port=443)"
LINES: tuple[tuple[str, str | None], ...] = (
    # checkpoints: what is not there, cut short, of another shape
    ("_pickle.UnpicklingError: pickle data was truncated", "checkpoint_failure"),
    ("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "checkpoint_failure"),
    ("AssertionError: [deepspeed] The following zero checkpoints paths are missing: ['/ckpt/zero_pp_rank_0_optim_states.pt']", "checkpoint_failure"),
    ("megatron.core.dist_checkpointing.core.CheckpointingException: Checkpoint directory /ckpt/iter_0000100 does not exist", "checkpoint_failure"),
    ("ValueError: No valid checkpoint found in output directory (/data/out)", "checkpoint_failure"),
    ("botocore.exceptions.ClientError: An error occurred (InternalError) when calling the UploadPart operation", "checkpoint_failure"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'", "software_exception"),
    # stores and hubs
    ("fsspec.exceptions.FSTimeoutError: Caught FSTimeoutError in DataLoader worker process 1.", "storage_stall"),
    (f"urllib3.exceptions.ReadTimeoutError: {HTTP}: Read timed out. (read timeout=10)", "storage_stall"),
    ("OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/ckpt/iter_0000100/mp_rank_00'", "storage_stall"),
    ("botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation: Please reduce your request rate.", "storage_stall"),
    ("botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the GetObject operation: Access Denied", "software_exception"),
    (f"requests.exceptions.ConnectionError: {HTTP}: Max retries exceeded with url: /api (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))", "network_config"),
    ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1007)", "network_config"),
    # a peer that does not answer is none of these
    ("RuntimeError: Timed out waiting 1800000ms for recv operation to complete", "collective_hang"),
    # versions
    ("OSError: libcudnn.so.8: cannot open shared object file: No such file or directory", "version_mismatch"),
    ("RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "version_mismatch"),
    ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "version_mismatch"),
    ("ModuleNotFoundError: No module named 'flash_attn'", "software_exception"),
    # limits
    ("OpenBLAS blas_thread_init: pthread_create failed for thread 30 of 64: Resource temporarily unavailable", "resource_limit"),
    ("OSError: [Errno 37] No locks available", "resource_limit"),
    # memory of a GPU, of its chip, of the host
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "gpu_oom"),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "gpu_oom"),
    ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 2.00G. That was not possible. There are 1.20G free.; (0x0x0_HBM0)", "gpu_oom"),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163840, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", "software_exception"),
    ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_1234'", "resource_limit"),
    ("Compilation failure: Ran out of memory in memory space hbm. Used 8.38G of 8.00G hbm. Exceeded hbm capacity by 385.25M.", "gpu_oom"),
    ("RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "gpu_oom"),
    ("concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.", "host_oom"),
    # GPUs
    ("../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [134,0,0], thread: [31,0,0] Assertion `srcIndex < srcSelectDimSize` failed.", "gpu_software"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "gpu_software"),
    ("RuntimeError: CUDA error: invalid device ordinal", "software_exception"),
    ("RuntimeError: CUDA error: initialization error", "software_exception"),
    ("double free or corruption (!prev)", "software_exception"),
    # logged, not raised: a weaker sign (below), and none where others may be at fault
    ("ERROR:root:ValueError: number of heads must divide the hidden size", "software_exception"),
    # values
    ("ValueError: The loss returned in `training_step` is nan.", "numeric"),
    ("Batch 120: Invalid loss, terminating training", "numeric"),
    ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "numeric"),
    ("2024-05-12 10:11:12,123 - ERROR - Loss is NaN at step 120. Stopping training.", "numeric"),
    ("2024-05-12 10:11:12,123 - INFO - Target reached at step 120. Stopping training.", None),
    # ranks that do not agree
    ("RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 272 vs 4", "collective_mismatch"),
    ("horovod.common.exceptions.HorovodInternalError: Mismatched data types: One rank had type float32, but another rank had type float16.", "collective_mismatch"),
    # file systems as tools and loggers say it
    ("cp: error writing '/mnt/nfs/ckpt/model.pt': Input/output error", "storage_stall"),
    # what a full file system kept from being written is a save only where the line says so
    ("2024-05-12 10:11:12,123 - ERROR - Failed to write shard 12: [Errno 28] No space left on device", "resource_limit"),
    ("OSError: [Errno 28] No space left on device", "resource_limit"),
    ("OSError: [Errno 122] Disk quota exceeded: '/data/run/global_step400/mp_rank_00_model_states.pt'", "checkpoint_failure"),
    # activations that are computed again have nothing to do with a file
    ("torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.", "software_exception"),
    # a call over Ray that took too long says nothing of a collective
    ("ray.exceptions.RayTaskError(TimeoutError): ray::RolloutManager.generate() (pid=1694029, ip=10.100.9.210)", None),
    # a wait for what another rank of the node makes, or for data, is not the waiting rank's fault
    ("RuntimeError: Waiting for local rank 0, bailing out: 60.000 < 60.055 sec.", "collective_hang"),
    ("RuntimeError: Index file /tmp/tmpqc4652dc/train/index.json took too long to download, bailing out: 60.000 < 60.003 sec.", "data_stall"),
    # who lost a task does not know what became of it
    ("Original error: DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. Please look at the task logs.", None),
    # locks of a file system
    ("OSError: Unable to open file (unable to lock file, errno = 5, error message = 'Input/output error')", "storage_stall"),
    ("(raylet) [2025-08-25 22:33:45,833 E 41 41] (raylet) worker_pool.cc:1239: Failed to send exit request: Too many open files", "resource_limit"),
    ("HTTP Error 503 thrown while requesting GET https://huggingface.co/api/datasets/org/set/tree/main", "storage_stall"),
)  # fmt: skip


@pytest.fixture(scope="module")
def strongest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The cause of the strongest sign of each line: every line is a file of one bundle."""
    folder: Path = tmp_path_factory.mktemp("lines")
    for n, (line, _) in enumerate(LINES):
        (folder / f"{n}.log").write_text(line + "\n", encoding="utf-8")
    with open_incident([folder], Options(workers=1)) as incident:
        rows = incident.con.execute(
            "SELECT e.file, arg_max(s.cause, s.weight) FROM signs s JOIN events e USING (event_id) GROUP BY e.file"
        ).fetchall()
    return {LINES[int(Path(file).stem)][0]: cause for file, cause in rows}


@pytest.mark.parametrize(("line", "cause"), LINES, ids=[line[:50] for line, _ in LINES])
def test_a_line_speaks_for_its_cause(strongest: dict[str, str], line: str, cause: str | None) -> None:
    assert strongest.get(line) == cause


def test_a_logged_exception_alone_is_a_possibility_only(analyse: Analyse) -> None:
    verdict = analyse(
        {"train.log": "ERROR:root:ValueError: number of heads must divide the hidden size\n"}
    ).analysis.verdict
    assert (verdict.cause, verdict.confidence < 0.7) == ("software_exception", True)


def test_a_logged_exception_that_names_a_peer_is_nobodys_fault_yet(analyse: Analyse) -> None:
    text = "ERROR:root:RuntimeError: Connection reset by peer\n"
    assert analyse({"train.log": text}).analysis.verdict.cause == "unknown"


def test_a_full_disk_just_after_a_save_began_is_the_saves_failure(analyse: Analyse) -> None:
    begun = "saving checkpoint at iteration     500 to /data/run in torch_dist format\n"
    full = "OSError: [Errno 28] No space left on device\n"
    noise = "rank 3 waits\n" * 60
    assert analyse({"train.log": begun + full}).analysis.verdict.cause == "checkpoint_failure"
    assert analyse({"train.log": begun + noise + full}).analysis.verdict.cause == "resource_limit"


def test_what_was_being_done_is_looked_for_near_the_exception_only(analyse: Analyse) -> None:
    frame = '  File "/opt/megatron/training/checkpointing.py", line 512, in save_checkpoint\n'
    raised = "ValueError: number of heads must divide the hidden size\n"
    noise = "rank 3 waits\n" * 60
    assert analyse({"train.log": frame + raised}).analysis.verdict.cause == "checkpoint_failure"
    assert analyse({"train.log": frame + noise + raised}).analysis.verdict.cause == "software_exception"
    assert analyse({"train.log": frame, "other.log": raised}).analysis.verdict.cause == "software_exception"


def test_gradients_that_are_no_number_on_any_rank_are_not_a_mismatch(analyse: Analyse) -> None:
    head = "FloatingPointError: Fatal error: gradients are inconsistent between workers. Try --ddp-backend=no_c10d.\n"
    norms = "grad_norm across the workers:\nrank   0 = {}\nrank   1 = {}\n"
    assert analyse({"train.log": head + norms.format("nan", "nan")}).analysis.verdict.cause == "numeric"
    assert analyse({"train.log": head + norms.format(11.2, 10.6)}).analysis.verdict.cause == "collective_mismatch"
