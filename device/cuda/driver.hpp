#pragma once
// Driver: the functions of libcuda.so.1 that Fabring calls, found at run time. Types, numbers and prototypes are
// declared here, as the CUDA driver API documents them, so that a build needs no toolkit; where there is one,
// driver.cpp holds them against its header. Each name is the one with its version, whose meaning stays.

#include <cstddef>
#include <memory>
#include <string>

#include "fabring/status.hpp"

namespace fabring::cuda {

using Answer = int;                  // CUresult
using Device = int;                  // CUdevice
using Address = unsigned long long;  // CUdeviceptr
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;

constexpr Answer success = 0;
constexpr Answer invalid_value = 1;
constexpr Answer out_of_memory = 2;
constexpr Answer not_initialized = 3;
constexpr Answer deinitialized = 4;
constexpr Answer no_device = 100;
constexpr Answer invalid_device = 101;
constexpr Answer invalid_context = 201;
constexpr Answer map_failed = 205;
constexpr Answer already_mapped = 208;
constexpr Answer no_binary = 209;
constexpr Answer ecc_uncorrectable = 214;
constexpr Answer nvlink_uncorrectable = 220;
constexpr Answer contained = 226;  // since CUDA 12.9
constexpr Answer not_found = 500;
constexpr Answer not_ready = 600;
constexpr Answer illegal_address = 700;
constexpr Answer launch_timeout = 702;
constexpr Answer peer_access_enabled = 704;
constexpr Answer context_is_destroyed = 709;
constexpr Answer assertion = 710;
constexpr Answer hardware_stack_error = 714;  // and what else a kernel did wrong
constexpr Answer launch_failed = 719;
constexpr Answer tensor_memory_leak = 721;  // since CUDA 12.8
constexpr Answer not_supported = 801;
constexpr Answer capture_implicit = 906;

constexpr int attribute_memory_type = 2;
constexpr int attribute_buffer_id = 7;
constexpr int attribute_is_managed = 8;
constexpr int attribute_device_ordinal = 9;
constexpr int attribute_has_handle = 10;  // cuIpcGetMemHandle
constexpr int attribute_range_start = 11;
constexpr int attribute_range_size = 12;
constexpr int attribute_handle_types = 14;
constexpr int attribute_for_cards = 15;  // GPUDirect RDMA
constexpr int attribute_pool = 17;
constexpr int attribute_memory_block = 20;  // of what is mapped somewhere; unknown to drivers before CUDA 12
constexpr unsigned memory_type_host = 1;
constexpr unsigned memory_type_device = 2;
constexpr int device_attribute_processors = 16;
constexpr int device_attribute_major = 75;
constexpr int device_attribute_minor = 76;
constexpr int device_attribute_writes_ordering = 118;
constexpr int device_attribute_mps = 133;  // unknown to older drivers
constexpr unsigned event_without_timing = 2;
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned host_portable = 1;
constexpr unsigned ipc_peer_access = 1;
constexpr int handle_is_descriptor = 1;
constexpr int location_device = 1;
constexpr int ordering_owner = 100;
constexpr int range_is_dmabuf = 1;
constexpr unsigned long long dmabuf_over_pcie = 1;
constexpr int access_read_write = 3;
constexpr int capture_relaxed = 2;
constexpr int not_capturing = 0;

struct Uuid {
  char bytes[16];
};
struct IpcHandle {
  char bytes[64];
};
struct Access {
  struct {
    int type, id;
  } location;
  int flags;
};
using Physical = unsigned long long;  // CUmemGenericAllocationHandle

// X(name, prototype), in the order of the documentation.
#define FABRING_CUDA_FUNCTIONS(X)                                                                                      \
  X(cuInit, Answer (*)(unsigned))                                                                                      \
  X(cuGetErrorName, Answer (*)(Answer, const char**))                                                                  \
  X(cuGetErrorString, Answer (*)(Answer, const char**))                                                                \
  X(cuDeviceGetCount, Answer (*)(int*))                                                                                \
  X(cuDeviceGet, Answer (*)(Device*, int))                                                                             \
  X(cuDeviceGetName, Answer (*)(char*, int, Device))                                                                   \
  X(cuDeviceGetPCIBusId, Answer (*)(char*, int, Device))                                                               \
  X(cuDeviceGetAttribute, Answer (*)(int*, int, Device))                                                               \
  X(cuDeviceTotalMem_v2, Answer (*)(std::size_t*, Device))                                                             \
  X(cuDeviceCanAccessPeer, Answer (*)(int*, Device, Device))                                                           \
  X(cuCtxEnablePeerAccess, Answer (*)(Context, unsigned))                                                              \
  X(cuDevicePrimaryCtxRetain, Answer (*)(Context*, Device))                                                            \
  X(cuDevicePrimaryCtxRelease_v2, Answer (*)(Device))                                                                  \
  X(cuDevicePrimaryCtxGetState, Answer (*)(Device, unsigned*, int*))                                                   \
  X(cuCtxPushCurrent_v2, Answer (*)(Context))                                                                          \
  X(cuCtxPopCurrent_v2, Answer (*)(Context*))                                                                          \
  X(cuCtxGetDevice, Answer (*)(Device*))                                                                               \
  X(cuCtxGetStreamPriorityRange, Answer (*)(int*, int*))                                                               \
  X(cuThreadExchangeStreamCaptureMode, Answer (*)(int*))                                                               \
  X(cuPointerGetAttributes, Answer (*)(unsigned, int*, void**, Address))                                               \
  X(cuMemAlloc_v2, Answer (*)(Address*, std::size_t))                                                                  \
  X(cuMemFree_v2, Answer (*)(Address))                                                                                 \
  X(cuDeviceGetUuid_v2, Answer (*)(Uuid*, Device))                                                                     \
  X(cuMemGetAddressRange_v2, Answer (*)(Address*, std::size_t*, Address))                                              \
  X(cuIpcGetMemHandle, Answer (*)(IpcHandle*, Address))                                                                \
  X(cuIpcOpenMemHandle_v2, Answer (*)(Address*, IpcHandle, unsigned))                                                  \
  X(cuIpcCloseMemHandle, Answer (*)(Address))                                                                          \
  X(cuMemAddressReserve, Answer (*)(Address*, std::size_t, std::size_t, Address, unsigned long long))                  \
  X(cuMemAddressFree, Answer (*)(Address, std::size_t))                                                                \
  X(cuMemMap, Answer (*)(Address, std::size_t, std::size_t, Physical, unsigned long long))                             \
  X(cuMemUnmap, Answer (*)(Address, std::size_t))                                                                      \
  X(cuMemSetAccess, Answer (*)(Address, std::size_t, const Access*, std::size_t))                                      \
  X(cuMemRetainAllocationHandle, Answer (*)(Physical*, void*))                                                         \
  X(cuMemRelease, Answer (*)(Physical))                                                                                \
  X(cuMemExportToShareableHandle, Answer (*)(void*, Physical, int, unsigned long long))                                \
  X(cuMemImportFromShareableHandle, Answer (*)(Physical*, void*, int))                                                 \
  X(cuMemHostAlloc, Answer (*)(void**, std::size_t, unsigned))                                                         \
  X(cuMemFreeHost, Answer (*)(void*))                                                                                  \
  X(cuMemcpyAsync, Answer (*)(Address, Address, std::size_t, Stream))                                                  \
  X(cuModuleLoadData, Answer (*)(Module*, const void*))                                                                \
  X(cuModuleUnload, Answer (*)(Module))                                                                                \
  X(cuModuleGetFunction, Answer (*)(Function*, Module, const char*))                                                   \
  X(cuLaunchKernel, Answer (*)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
                               void**, void**))                                                                        \
  X(cuStreamCreateWithPriority, Answer (*)(Stream*, unsigned, int))                                                    \
  X(cuStreamDestroy_v2, Answer (*)(Stream))                                                                            \
  X(cuStreamQuery, Answer (*)(Stream))                                                                                 \
  X(cuStreamGetCtx, Answer (*)(Stream, Context*))                                                                      \
  X(cuStreamIsCapturing, Answer (*)(Stream, int*))                                                                     \
  X(cuEventCreate, Answer (*)(Event*, unsigned))                                                                       \
  X(cuEventDestroy_v2, Answer (*)(Event))                                                                              \
  X(cuEventRecord, Answer (*)(Event, Stream))                                                                          \
  X(cuEventQuery, Answer (*)(Event))

// Null where the driver is older than what they came with: CUDA 11.7.
#define FABRING_CUDA_OPTIONAL_FUNCTIONS(X) \
  X(cuMemGetHandleForAddressRange, Answer (*)(void*, Address, std::size_t, int, unsigned long long))

/// After this nothing of the process works on that GPU any more. Any other refusal is about what was asked for: who
/// asked may go another way, and need not know all the reasons that a driver has.
bool is_fatal(Answer answer);

class Driver {
 public:
  /// Could it be loaded? The process is left as it was.
  static bool is_loadable();
  /// The driver's library if this process has loaded it already; null if not. Errors: unavailable if it is too old.
  static Result<std::unique_ptr<Driver>> loaded();
  /// Loads it. Errors: unavailable.
  static Result<std::unique_ptr<Driver>> load();

  /// "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
  std::string words(const char* call, Answer answer) const;
  /// "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)", and what to do.
  Status error(const char* call, Answer answer) const;

#define FABRING_CUDA_DECLARE(name, ...) std::type_identity_t<__VA_ARGS__> name = nullptr;
  FABRING_CUDA_FUNCTIONS(FABRING_CUDA_DECLARE)
  FABRING_CUDA_OPTIONAL_FUNCTIONS(FABRING_CUDA_DECLARE)
#undef FABRING_CUDA_DECLARE

 private:
  Status find_all(void* library);
};

}  // namespace fabring::cuda
