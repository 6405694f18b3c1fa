#pragma once
// MeasuredMemory: the host's memory that operations are measured on: ordinary, or mapped by all ranks of the host.

#include <cstdlib>
#include <memory>

#include "fabring/communicator.hpp"
#include "tools/fabring/perf/perf_options.hpp"

namespace fabring::tools {

using MeasuredMemory = std::shared_ptr<std::byte>;

/// At least `bytes`, from the start of a page or `options.offset` behind it, in whole elements. Errors: out_of_memory.
inline Result<MeasuredMemory> measured_memory(Engine& engine, const PerfOptions& options, std::size_t bytes) {
  const std::size_t offset = static_cast<std::size_t>(options.offset) / size_of(options.type) * size_of(options.type);
  if (options.mapped) {
    auto buffer = engine.allocate(bytes + offset);
    if (!buffer) return buffer.error();
    const auto owner = std::make_shared<MappedBuffer>(std::move(*buffer));
    return MeasuredMemory(owner, owner->data() + offset);
  }
  constexpr std::size_t page = 4096;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(page, ((bytes + offset) / page + 1) * page));
  if (memory == nullptr)
    return Status(ErrorCode::out_of_memory,
                  "this machine has no memory for a buffer of " + std::to_string(bytes) + " bytes");
  const std::shared_ptr<std::byte> owner(memory, [](std::byte* at) { std::free(at); });
  return MeasuredMemory(owner, memory + offset);
}

}  // namespace fabring::tools
