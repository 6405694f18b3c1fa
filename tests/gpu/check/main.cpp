// fabring_gpu_check: the kernels and what processes share of a GPU's memory, on the GPU of this machine. Run by
// tests/gpu/run.sh, by compute-sanitizer, and without a GPU on a driver made of memory.
//   fabring_gpu_check kernels [--quick]              every type, operation and alignment, bit for bit with the
//   processor fabring_gpu_check figures                        kernels beside copies on the device fabring_gpu_check
//   share N [--pieces] [--figures] N processes reduce each other's memory
// Exit code: 0 right, 1 wrong, 2 usage, 3 no GPU or no kernels here.

#include <cstring>

#include "tests/gpu/check/device_under_test.hpp"

int main(int count, char** arguments) {
  using namespace fabring::gpu_check;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto has = [&](const char* option) {
    for (int i = 2; i < count; ++i)
      if (std::strcmp(arguments[i], option) == 0) return true;
    return false;
  };
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "kernels") return check_kernels(has("--quick"));
  if (what == "figures") return measure_kernels();
  const int processes = what == "share" && count > 2 ? std::atoi(arguments[2]) : 0;
  if (processes >= 2 && processes <= 16) return check_sharing(processes, has("--pieces"), has("--figures"));
  give_up("usage: fabring_gpu_check kernels [--quick] | figures | share 2..16 [--pieces] [--figures]", 2);
}
