#include "tests/support/host_kernels.hpp"

#include <map>

#include "device/cuda/kernels/all.hpp"

namespace fabring::fixture {

using namespace cuda::kernels;

HostKernel find_host_kernel(std::string_view name) {
#define FABRING_HOST_KERNEL(kernel, ...) {#kernel, &cuda::kernels::fold<__VA_ARGS__>},
  static const std::map<std::string_view, HostKernel> all = {FABRING_KERNELS(FABRING_HOST_KERNEL)};
#undef FABRING_HOST_KERNEL
  const auto found = all.find(name);
  return found != all.end() ? found->second : nullptr;
}

}  // namespace fabring::fixture
