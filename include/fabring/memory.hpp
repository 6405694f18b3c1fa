#pragma once
// Memory that the ranks of a host read and write directly: what is reduced is read where its owner has it, and results
// are stored where they belong, without a copy on the way. Any operation takes such memory like any other; which ranks
// use it need not be agreed on. Where ranks share no memory it is ordinary memory.
//
//   auto gradients = (*engine)->allocate(count * sizeof(float));  // of what Engine::from_environment() returned
//   if (!gradients) return report(gradients.error());
//   Status done = world.allreduce(gradients->data(), gradients->data(), count, DataType::float32, ReduceOp::sum);
//
// or, for containers:
//
//   fabring::MappedResource memory(**engine);
//   std::pmr::vector<float> gradients(count, &memory);

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

#include "fabring/export.hpp"

namespace fabring {

class Engine;
class EngineCore;   // runtime/engine
class MappedBlock;  // runtime/memory

/// A piece of it, aligned to a page and of zeros at first. Cheap to copy; it is given back when the last copy is gone
/// and no operation works on it any more, so letting go of it is always safe, and it may outlive its engine. Any
/// thread.
class FABRING_API MappedBuffer {
 public:
  MappedBuffer() = default;
  explicit MappedBuffer(std::shared_ptr<MappedBlock> block);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }  ///< bytes, as asked for
  /// The same as elements, as many as fit.
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }
  /// Do other ranks have it mapped? Otherwise it is ordinary memory.
  bool shared() const { return shared_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::shared_ptr<MappedBlock> block_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool shared_ = false;
};

/// The same for containers. Every allocation takes whole pages: for large ones, or below a pool of the standard
/// library. It must not be destroyed before what was allocated from it; it may outlive its engine. Any thread.
class FABRING_API MappedResource final : public std::pmr::memory_resource {
 public:
  explicit MappedResource(Engine& engine);
  ~MappedResource() override;
  MappedResource(const MappedResource&) = delete;
  MappedResource& operator=(const MappedResource&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;  // throws std::bad_alloc, as containers expect
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fabring
