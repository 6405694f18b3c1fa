// The program of one target around libFuzzer. NAME_fuzz --seeds=FOLDER writes its seeds there and ends.

#include <cstddef>
#include <cstdint>
#include <fstream>

#include "tests/fuzz/targets.hpp"

namespace target = fabring::fuzz::FABRING_FUZZ_TARGET;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view option = "--seeds=";
  if (*argc < 2 || !std::string_view((*argv)[1]).starts_with(option)) return 0;
  const std::string folder((*argv)[1] + option.size());
  int number = 0;
  for (const std::string& seed : target::seeds()) {
    std::ofstream file(folder + "/seed" + std::to_string(number++), std::ios::binary);
    if (!file.write(seed.data(), static_cast<std::streamsize>(seed.size()))) std::exit(1);
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  target::run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
