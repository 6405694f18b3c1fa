#pragma once
// MeasuredMemory: the host's memory that operations are measured on, from the start of a page: ordinary, or mapped by
// all ranks of the host.

#include <cstdlib>
#include <memory>

#include "fabring/communicator.hpp"

namespace fabring::tools {

using MeasuredMemory = std::shared_ptr<std::byte>;

/// At least `bytes`. Errors: out_of_memory.
inline Result<MeasuredMemory> measured_memory(Engine& engine, bool mapped, std::size_t bytes) {
  if (mapped) {
    auto buffer = engine.allocate(bytes);
    if (!buffer) return buffer.error();
    const auto owner = std::make_shared<MappedBuffer>(std::move(*buffer));
    return MeasuredMemory(owner, owner->data());
  }
  constexpr std::size_t page = 4096;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(page, (bytes / page + 1) * page));
  if (memory == nullptr)
    return Status(ErrorCode::out_of_memory,
                  "this machine has no memory for a buffer of " + std::to_string(bytes) + " bytes");
  return MeasuredMemory(memory, [](std::byte* at) { std::free(at); });
}

}  // namespace fabring::tools
