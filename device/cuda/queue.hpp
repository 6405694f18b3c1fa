#pragma once
// CudaQueue: a stream of ours, which runs copies and kernels and is looked at through events recorded between them, or,
// behind small copies, through what their kernel writes to memory of the host.

#include <deque>
#include <memory>

#include "device/cuda/event_pool.hpp"
#include "device/cuda/kernel_choice.hpp"
#include "device/cuda/kernel_set.hpp"
#include "device/device_runtime.hpp"

namespace fabring::cuda {

class CudaQueue final : public DeviceQueue {
 public:
  /// The stream becomes the queue's. `kernels` are those of its context, loaded or not.
  CudaQueue(std::shared_ptr<EventPool> pool, std::shared_ptr<KernelSet> kernels, Context context, Stream stream);
  ~CudaQueue() override;
  Status post_copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  Status post_reduce(const DeviceReduction& what) override;
  Status post_scale(DataType type, std::byte* to, const std::byte* from, const void* factor,
                    std::size_t count) override;
  Status post_copies_and_mark(std::span<const DeviceCopy> copies) override;
  Status post_mark() override;
  Result<std::uint64_t> reached() override;

 private:
  struct Mark {
    Event event = nullptr;
    unsigned blocks = 0;  ///< without an event: so many tell its number
  };
  static constexpr unsigned looks_per_question = 256;

  Status post(const Result<KernelCall>& chosen);
  Result<bool> is_over(const Mark& mark);
  bool is_told(unsigned blocks) const;

  std::shared_ptr<EventPool> pool_;
  std::shared_ptr<KernelSet> kernels_;
  Context context_;
  Stream stream_;
  std::uint64_t* told_ = nullptr;  // a word for each block of the kernel; null: there is none
  std::deque<Mark> marks_;
  std::uint64_t reached_ = 0;
  unsigned looks_ = 0;  // in vain
};

}  // namespace fabring::cuda
