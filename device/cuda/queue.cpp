#include "device/cuda/queue.hpp"

#include <utility>

namespace fabring::cuda {

CudaQueue::CudaQueue(std::shared_ptr<EventPool> pool, std::shared_ptr<KernelSet> kernels, Context context,
                     Stream stream)
    : pool_(std::move(pool)), kernels_(std::move(kernels)), context_(context), stream_(stream) {}

CudaQueue::~CudaQueue() {
  const Entry entry(pool_->driver(), context_);
  for (const Event event : marks_) pool_->give_back(context_, event);
  pool_->driver().cuStreamDestroy_v2(stream_);
}

Status CudaQueue::post_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const Entry entry(pool_->driver(), context_);
  const Answer answer = pool_->driver().cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_);
  return answer == success ? Status() : pool_->driver().error("cuMemcpyAsync", answer);
}

Status CudaQueue::post(const Result<KernelCall>& chosen) {
  if (!chosen) return chosen.error();
  if (chosen->task.count == 0) return {};
  if (chosen->kernel.empty()) {
    const auto* from = reinterpret_cast<const std::byte*>(chosen->task.sources[0]);
    auto* const to = reinterpret_cast<std::byte*>(chosen->task.to);
    return to == from ? Status() : post_copy(to, from, chosen->task.count * chosen->element_bytes);
  }
  const Entry entry(pool_->driver(), context_);
  return kernels_->launch(*chosen, stream_);
}

Status CudaQueue::post_reduce(const DeviceReduction& what) { return post(choose_kernel(what)); }

Status CudaQueue::post_scale(DataType type, std::byte* to, const std::byte* from, const void* factor,
                             std::size_t count) {
  return post(choose_scaling(type, to, from, factor, count));
}

Status CudaQueue::post_mark() {
  const Entry entry(pool_->driver(), context_);
  Event event = nullptr;
  Answer answer = pool_->take(context_, event);
  if (answer != success) return pool_->driver().error("cuEventCreate", answer);
  answer = pool_->driver().cuEventRecord(event, stream_);
  if (answer != success) {
    pool_->give_back(context_, event);
    return pool_->driver().error("cuEventRecord", answer);
  }
  marks_.push_back(event);
  return {};
}

Result<std::uint64_t> CudaQueue::reached() {
  if (marks_.empty()) return reached_;
  const Entry entry(pool_->driver(), context_);
  while (!marks_.empty()) {
    const Answer answer = pool_->driver().cuEventQuery(marks_.front());
    if (answer == not_ready) break;
    if (answer != success) return pool_->driver().error("cuEventQuery", answer);
    pool_->give_back(context_, marks_.front());
    marks_.pop_front();
    ++reached_;
  }
  return reached_;
}

}  // namespace fabring::cuda
