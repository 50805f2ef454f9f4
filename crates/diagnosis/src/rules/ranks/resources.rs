//! What ranks lack: memory on host and GPU, shared memory, disk.

use super::super::weight::{END, REASON, ROOT};
use super::super::{Rule, Speaker, rule};
use crate::cause::Cause;

/// The path in a line with the text of an error number: `cp: error writing '/data/x': TEXT`, `[Errno 28] TEXT: '/data/x'`.
macro_rules! paths_of_errno {
    ($text:literal) => {
        &[
            concat!(r#"\A.*?[^\w/](?P<path>/[^'"\s:\xe2]+)\S{0,3}: (?:\[Errno \d+\] )?(?:"#, $text, ")"),
            concat!(r"\A.*(?:", $text, r#").*?['"](?P<path>/[^'"\s]+)"#),
        ]
    };
}

pub(super) const RULES: &[Rule] = &[
    // Memory
    rule(
        "kernel-oom",
        Cause::OutOfMemory,
        ROOT + 5,
        "ut of memory: Killed process ",
        r"(?:Memory cgroup out of memory|Out of memory): Killed process \d+ \((?P<name>[^)]+)\)",
        "[1234.5] Memory cgroup out of memory: Killed process 697 (python) total-vm:20971520kB",
    )
    .by(Speaker::Rank)
    .says("The kernel killed {name|a process} because the memory limit was reached"),
    rule(
        "python-memory-error",
        Cause::OutOfMemory,
        REASON + 1,
        "MemoryError",
        r"^(?:[\w.]*\.)?_?(?:Array)?MemoryError(?:: (?P<reason>.*))?$",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 12.0 GiB for an array",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory: {reason|MemoryError}"),
    rule(
        "bad-alloc",
        Cause::OutOfMemory,
        END + 3,
        "std::bad_alloc",
        r"terminate called after throwing an instance of 'std::bad_alloc'",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory (std::bad_alloc)"),
    rule(
        "torch-cpu-allocator",
        Cause::OutOfMemory,
        REASON + 1,
        "DefaultCPUAllocator: ",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)(?P<reason>.*)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes.",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory{reason|}"),
    rule(
        "torch-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 2,
        "out of memory",
        r"^(?:.*(?:Error|error): .*)?(?P<reason>(?:CUDA|HIP) out of memory\. Tried to allocate [\d.]+ \w+)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    )
    .by(Speaker::Program)
    .says("{reason|CUDA out of memory}"),
    rule(
        "cuda-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "out of memory",
        r"(?:CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|[Cc]uda failure (?:\d+ )?'out of memory'|cudaMalloc.*out of memory)",
        "RuntimeError: CUDA error: out of memory",
    )
    .by(Speaker::Program),
    rule(
        "cuda-driver-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "CUDA_ERROR_OUT_OF_MEMORY",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        "failed to allocate 2.00G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    )
    .by(Speaker::Program),
    rule(
        "xla-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "RESOURCE_EXHAUSTED: Out of memory",
        r"RESOURCE_EXHAUSTED: (?P<reason>Out of memory while trying to allocate \d+ bytes)",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
    )
    .by(Speaker::Program),
    rule(
        "tensorflow-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "OOM when allocating tensor",
        r"(?:ResourceExhaustedError|RESOURCE_EXHAUSTED)\b.*OOM when allocating tensor",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,4096]",
    )
    .by(Speaker::Program),
    // Shared memory and disk
    rule(
        "ucx-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "Please check that /dev/shm",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?Not enough memory to write total of \d+ bytes. Please check that /dev/shm",
        "[1795253853.874195] [train-worker-0:595  :0]        mm_posix.c:187  UCX  ERROR   Not enough memory to write total of 4292720 bytes. Please check that /dev/shm or the directory you specified has more available memory.",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-shm",
        Cause::SharedMemoryTooSmall,
        REASON - 4,
        "It appears as if there is not enough space for ",
        r"It appears as if there is not enough space for (?P<path>\S+)",
        "It appears as if there is not enough space for /dev/shm/vader_segment.train-worker-0.1 (the shared-memory backing\n  Local host:  train-worker-0",
    )
    .by(Speaker::Rank)
    .details(&[r"Local host: +(?P<host>\S+)"]),
    rule(
        "torch-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "insufficient shared memory (shm)",
        r"insufficient shared memory \(shm\)",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    )
    .by(Speaker::Rank),
    rule(
        "torch-loader-bus",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "out of shared memory",
        r"DataLoader worker .* is killed by signal: Bus error.*out of shared memory",
        "RuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "shared memory segment /dev/shm/",
        r"(?:(?P<host>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN Error(?:: failed to extend| while creating| while attaching)?.*shared memory segment (?P<path>/dev/shm/\S+)",
        "train-worker-0:37:112 [0] include/shm.h:28 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-AbCdEf (size 9637888)",
    )
    .by(Speaker::Rank),
    rule(
        "no-space-shm",
        Cause::SharedMemoryTooSmall,
        REASON + 1,
        "No space left on device",
        r"/dev/shm\b\S*: (?:\[Errno \d+\] )?No space left on device|No space left on device:? .?/dev/shm\b",
        "OSError: [Errno 28] No space left on device: '/dev/shm/batch-7'",
    )
    .by(Speaker::Program)
    .says("/dev/shm is full"),
    rule(
        "no-space",
        Cause::StorageUnusable,
        REASON,
        "No space left on device|isk quota exceeded",
        r"(?:^|[:\]('] ?)(?P<reason>No space left on device|Disk quota exceeded)\b",
        "OSError: [Errno 28] No space left on device: '/checkpoints/epoch-3.pt'",
    )
    .by(Speaker::Program)
    .details(paths_of_errno!("No space left on device|Disk quota exceeded"))
    .says("No space left: {path|a file system} is full ({reason|})")
    .advice("Delete old checkpoints or enlarge the volume; a directory that no volume is mounted at, such as /tmp, counts against the limit of ephemeral-storage: raise it, or mount an emptyDir or a claim there. With a quota (Disk quota exceeded), ask an administrator of the storage for more. If no path is named, look at /dev/shm, too: it has 64 MiB unless an emptyDir with medium: Memory is mounted there."),
    rule(
        "read-only",
        Cause::StorageUnusable,
        REASON,
        "Read-only file system",
        r"(?:^|[:\]('] ?)(?P<reason>Read-only file system)\b",
        "OSError: [Errno 30] Read-only file system: '/opt/app/cache'",
    )
    .by(Speaker::Program)
    .details(paths_of_errno!("Read-only file system"))
    .says("{path|A directory} cannot be written: its file system is read-only")
    .advice("Write to a volume: mount an emptyDir or a claim at that directory (without readOnly: true), or set TMPDIR, HOME or the program's output directory to one. With securityContext.readOnlyRootFilesystem: true, nothing outside of volumes can be written."),
    rule(
        "session-directory",
        Cause::StorageUnusable,
        ROOT,
        " call to mkdir was unable to create the desired directory",
        r"^(?:A|\w+ detected a) call to mkdir was unable to create the desired directory",
        "A call to mkdir was unable to create the desired directory:\n\n  Directory: /tmp/ompi.train-worker-0.1000\n  Error:     Permission denied",
    )
    .details(&[r"Directory: +(?P<path>\S+)", r"Error: +(?P<reason>\S.*)"])
    .says("MPI cannot create {path|its temporary directory}: {reason|see the evidence}")
    .run(),
];
