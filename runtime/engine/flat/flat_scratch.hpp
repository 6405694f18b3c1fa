#pragma once
// FlatScratch: the scratch memory of small operations, one block for all of an engine, as they run one after the other.
// One that stops in the middle keeps it until an Execution has taken over what is there; the next gets another. Beside
// the budget of Scratch: to borrow there would take some of these operations longer than all they do. The driver's.

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace fabring {

class FlatScratch {
 public:
  class Block {
   public:
    Block(std::unique_ptr<std::byte[]> memory, std::size_t bytes, std::shared_ptr<std::atomic<std::size_t>> held)
        : bytes_(bytes), memory_(std::move(memory)), held_(std::move(held)) {
      held_->fetch_add(bytes_);
    }
    ~Block() { held_->fetch_sub(bytes_); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    std::byte* data() const { return memory_.get(); }
    std::size_t size() const { return bytes_; }

   private:
    const std::size_t bytes_;
    const std::unique_ptr<std::byte[]> memory_;
    const std::shared_ptr<std::atomic<std::size_t>> held_;  // it may outlive the engine
  };

  /// Of at least so many bytes; null if this machine has no more memory.
  std::unique_ptr<Block> take(std::size_t bytes) {
    if (kept_ && kept_->size() >= bytes) return std::move(kept_);
    kept_.reset();
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
    return std::unique_ptr<Block>(memory ? new (std::nothrow) Block(std::move(memory), bytes, held_) : nullptr);
  }
  void give_back(std::unique_ptr<Block> block) {
    if (!kept_ || kept_->size() < block->size()) kept_ = std::move(block);
  }
  std::size_t held() const { return held_->load(); }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> held_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::unique_ptr<Block> kept_;
};

}  // namespace fabring
