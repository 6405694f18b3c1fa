"""Horovod's PyTorch API on Fabring: `import fabring.horovod as hvd` in the place of `import horovod.torch as hvd`.

docs/horovod.md says what is the same and what is not.
"""

from fabring.errors import Error as HorovodInternalError
from fabring.horovod.basics import (add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built,
                                    gloo_enabled, init, is_homogeneous, is_initialized, local_rank, local_size, mpi_built,
                                    mpi_enabled, mpi_threads_supported, nccl_built, rank, remove_process_set, rocm_built,
                                    shutdown, size, start_timeline, stop_timeline)
from fabring.horovod.collectives import (Adasum, allgather_async, allreduce_, allreduce_async, allreduce_async_,
                                         alltoall_async, barrier, broadcast_, broadcast_async, broadcast_async_,
                                         grouped_allgather_async, grouped_allreduce_, grouped_allreduce_async,
                                         grouped_allreduce_async_, grouped_reducescatter_async, join,
                                         reducescatter_async, sparse_allreduce_async)
from fabring.horovod.compression import Compression, Compressor
from fabring.horovod.differentiable import (allgather, allreduce, alltoall, broadcast, grouped_allgather,
                                            grouped_allreduce, grouped_reducescatter, reducescatter)
from fabring.horovod.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                       broadcast_parameters)
from fabring.horovod.handles import poll, synchronize
from fabring.horovod.optimizer import DistributedOptimizer
from fabring.horovod.process_set import ProcessSet, global_process_set
from fabring.horovod.requests import Average, Max, Min, Product, Sum
from fabring.horovod.sync_batch_norm import SyncBatchNorm

__all__ = [name for name in dir() if not name.startswith("_")]
