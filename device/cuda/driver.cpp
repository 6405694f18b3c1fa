#include "device/cuda/driver.hpp"

#include <dlfcn.h>

#include <type_traits>

#include <fmt/format.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace {

namespace ours = fabring::cuda;

static_assert(ours::success == CUDA_SUCCESS && ours::invalid_value == CUDA_ERROR_INVALID_VALUE &&
              ours::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY && ours::not_initialized == CUDA_ERROR_NOT_INITIALIZED &&
              ours::deinitialized == CUDA_ERROR_DEINITIALIZED && ours::no_device == CUDA_ERROR_NO_DEVICE &&
              ours::invalid_device == CUDA_ERROR_INVALID_DEVICE &&
              ours::invalid_context == CUDA_ERROR_INVALID_CONTEXT && ours::not_ready == CUDA_ERROR_NOT_READY &&
              ours::capture_implicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
              ours::already_mapped == CUDA_ERROR_ALREADY_MAPPED && ours::no_binary == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              ours::not_found == CUDA_ERROR_NOT_FOUND && ours::map_failed == CUDA_ERROR_MAP_FAILED &&
              ours::not_supported == CUDA_ERROR_NOT_SUPPORTED &&
              ours::peer_access_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(ours::ecc_uncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE &&
              ours::nvlink_uncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE &&
              ours::illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS &&
              ours::launch_timeout == CUDA_ERROR_LAUNCH_TIMEOUT &&
              ours::context_is_destroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED && ours::assertion == CUDA_ERROR_ASSERT &&
              ours::hardware_stack_error == CUDA_ERROR_HARDWARE_STACK_ERROR &&
              ours::launch_failed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(ours::attribute_buffer_id == CU_POINTER_ATTRIBUTE_BUFFER_ID &&
              ours::attribute_has_handle == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE &&
              ours::attribute_handle_types == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES &&
              ours::attribute_pool == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(ours::ipc_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS &&
              ours::handle_is_descriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              ours::location_device == CU_MEM_LOCATION_TYPE_DEVICE &&
              ours::access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(ours::attribute_for_cards == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE &&
              ours::device_attribute_writes_ordering == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING &&
              ours::ordering_owner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER &&
              ours::range_is_dmabuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
#if CUDA_VERSION >= 13000
static_assert(ours::attribute_memory_block == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID &&
              ours::device_attribute_mps == CU_DEVICE_ATTRIBUTE_MPS_ENABLED &&
              ours::contained == CUDA_ERROR_CONTAINED && ours::tensor_memory_leak == CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
#if CUDA_VERSION >= 12080
static_assert(ours::dmabuf_over_pcie == CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif
static_assert(sizeof(ours::Uuid) == sizeof(CUuuid) && sizeof(ours::IpcHandle) == sizeof(CUipcMemHandle) &&
              sizeof(ours::Access) == sizeof(CUmemAccessDesc) &&
              std::is_same_v<ours::Physical, CUmemGenericAllocationHandle>);
static_assert(ours::attribute_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              ours::attribute_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED &&
              ours::attribute_device_ordinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              ours::attribute_range_start == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
              ours::attribute_range_size == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(ours::memory_type_host == CU_MEMORYTYPE_HOST && ours::memory_type_device == CU_MEMORYTYPE_DEVICE);
static_assert(ours::device_attribute_processors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              ours::device_attribute_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              ours::device_attribute_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(ours::event_without_timing == CU_EVENT_DISABLE_TIMING &&
              ours::stream_non_blocking == CU_STREAM_NON_BLOCKING && ours::host_portable == CU_MEMHOSTALLOC_PORTABLE &&
              ours::capture_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
              ours::not_capturing == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(std::is_same_v<ours::Address, CUdeviceptr> && std::is_same_v<ours::Device, CUdevice> &&
              sizeof(ours::Answer) == sizeof(CUresult) && sizeof(int) == sizeof(CUpointer_attribute) &&
              sizeof(int) == sizeof(CUstreamCaptureMode));

}  // namespace
#endif

namespace fabring::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";

}  // namespace

// "Any further CUDA work will return the same error", as the documentation of each says.
bool is_fatal(Answer answer) {
  switch (answer) {
    case not_initialized:
    case deinitialized:
    case ecc_uncorrectable:
    case nvlink_uncorrectable:
    case contained:
    case illegal_address:
    case launch_timeout:
    case context_is_destroyed:
    case assertion:
    case tensor_memory_leak:
      return true;
    default:
      return answer >= hardware_stack_error && answer <= launch_failed;
  }
}

Status Driver::find_all(void* library) {
  const char* missing = nullptr;
#define FABRING_CUDA_FIND(name, ...)                                                 \
  name = reinterpret_cast<std::type_identity_t<__VA_ARGS__>>(dlsym(library, #name)); \
  if (name == nullptr) missing = #name;
  FABRING_CUDA_FUNCTIONS(FABRING_CUDA_FIND)
#undef FABRING_CUDA_FIND
#define FABRING_CUDA_FIND(name, ...) name = reinterpret_cast<std::type_identity_t<__VA_ARGS__>>(dlsym(library, #name));
  FABRING_CUDA_OPTIONAL_FUNCTIONS(FABRING_CUDA_FIND)
#undef FABRING_CUDA_FIND
  if (missing == nullptr) return {};
  return Status(ErrorCode::unavailable,
                fmt::format("the NVIDIA driver's {} has no {}: it is too old; install one of CUDA 11.4 or newer",
                            library_name, missing));
}

bool Driver::is_loadable() {
  void* const library = dlopen(library_name, RTLD_LAZY | RTLD_LOCAL);
  return library != nullptr && dlclose(library) == 0;
}

Result<std::unique_ptr<Driver>> Driver::loaded() {
  void* const library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);  // kept: it is the program's for as long
  if (library == nullptr) return std::unique_ptr<Driver>();
  auto driver = std::make_unique<Driver>();
  FABRING_TRY(driver->find_all(library));
  return driver;
}

Result<std::unique_ptr<Driver>> Driver::load() {
  void* const library = dlopen(library_name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    return Status(ErrorCode::unavailable,
                  fmt::format("no GPU: {} cannot be loaded, so no NVIDIA driver is installed here (in a container: "
                              "start it with --gpus all)",
                              library_name));
  auto driver = std::make_unique<Driver>();
  FABRING_TRY(driver->find_all(library));
  return driver;
}

std::string Driver::words(const char* call, Answer answer) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(answer, &name) != success || name == nullptr) name = "an unknown error";
  if (cuGetErrorString(answer, &text) != success || text == nullptr) text = "";
  return fmt::format("{}: {} ({})", call, name, text);
}

Status Driver::error(const char* call, Answer answer) const {
  if (answer == out_of_memory) return Status(ErrorCode::out_of_memory, words(call, answer));
  return Status(ErrorCode::device_error, fmt::format("{}. It may come from earlier work of the program on this GPU: "
                                                     "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer shows which",
                                                     words(call, answer)));
}

}  // namespace fabring::cuda
