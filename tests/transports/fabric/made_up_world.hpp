#pragma once
// The made-up provider, loaded into this process, before a fake GPU.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "runtime/memory/card_access.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/transports/fabric/made_up_provider.hpp"

namespace fabring::made_up {

/// The only one: libfabric loads the same file (FI_PROVIDER_PATH is its folder).
inline Control& control() {
  static Control* const found = [] {
    void* const library = dlopen(MADE_UP_PROVIDER, RTLD_NOW);
    using Find = Control* (*)();
    const auto find = library ? reinterpret_cast<Find>(dlsym(library, "made_up_control")) : nullptr;
    if (!find) ADD_FAILURE() << dlerror();
    static Control none;
    return find ? find() : &none;
  }();
  return *found;
}

inline std::shared_ptr<fixture::FakeDevice>& gpu() {
  static std::shared_ptr<fixture::FakeDevice> device;
  return device;
}

/// A new GPU, and the provider as it is at the beginning. Before libfabric is first used.
inline void begin() {
  const std::string file = MADE_UP_PROVIDER;
  setenv("FI_PROVIDER_PATH", file.substr(0, file.rfind('/')).c_str(), 1);  // read when libfabric is first asked
  gpu() = std::make_shared<fixture::FakeDevice>(1);
  control() = Control{};
  control().see = [](const void* at) { return gpu()->see(at); };
}

inline std::shared_ptr<DeviceMemory> device_memory(bool host_has_gpus = true) {
  return std::make_shared<CardAccess>(gpu(), host_has_gpus);
}

}  // namespace fabring::made_up
