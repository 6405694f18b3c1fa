#include "device/cuda/queue.hpp"

#include <atomic>
#include <utility>

static_assert(fabring::cuda::EventPool::words >= fabring::cuda::kernels::most_copying_blocks);

namespace fabring::cuda {

CudaQueue::CudaQueue(std::shared_ptr<EventPool> pool, std::shared_ptr<KernelSet> kernels, Context context,
                     Stream stream)
    : pool_(std::move(pool)), kernels_(std::move(kernels)), context_(context), stream_(stream) {
  const Entry entry(pool_->driver(), context_);
  told_ = pool_->take_words();
}

CudaQueue::~CudaQueue() {
  const Entry entry(pool_->driver(), context_);
  for (const Mark& mark : marks_)
    if (mark.event != nullptr) pool_->give_back(context_, mark.event);
  if (told_ != nullptr && marks_.empty()) pool_->give_back_words(told_);
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

Status CudaQueue::post_copies_and_mark(std::span<const DeviceCopy> copies) {
  const bool by_kernel = copies.size() > 1 && told_ != nullptr && kernels_->loaded();  // one the driver copies sooner
  auto task = by_kernel ? choose_copies(copies) : std::nullopt;
  if (!task) {
    for (const DeviceCopy& copy : copies) FABRING_TRY(post_copy(copy.to, copy.from, copy.bytes));
    return post_mark();
  }
  task->told = told_;
  task->number = reached_ + marks_.size() + 1;
  const Entry entry(pool_->driver(), context_);
  FABRING_TRY(kernels_->launch(*task, stream_));
  marks_.push_back({nullptr, kernels::blocks_of(*task)});
  return {};
}

Status CudaQueue::post_mark() {
  const auto entry = Entry::into(pool_->driver(), context_);  // an event is made in the one that is current
  if (!entry) return entry.error();
  Event event = nullptr;
  Answer answer = pool_->take(context_, event);
  if (answer != success) return pool_->driver().error("cuEventCreate", answer);
  answer = pool_->driver().cuEventRecord(event, stream_);
  if (answer != success) {
    pool_->give_back(context_, event);
    return pool_->driver().error("cuEventRecord", answer);
  }
  marks_.push_back({event, 0});
  return {};
}

// Kernels run in the order of the stream: no block of a later one has told before this one is over.
bool CudaQueue::is_told(unsigned blocks) const {
  for (unsigned i = 0; i < blocks; ++i)
    if (std::atomic_ref(told_[i]).load(std::memory_order_acquire) <= reached_) return false;
  return true;
}

// A GPU that has failed tells nothing: now and then the driver is asked.
Result<bool> CudaQueue::is_over(const Mark& mark) {
  const bool by_event = mark.event != nullptr;
  if (!by_event && is_told(mark.blocks)) return true;
  if (!by_event && ++looks_ % looks_per_question != 0) return false;
  const Entry entry(pool_->driver(), context_);
  const Answer answer = by_event ? pool_->driver().cuEventQuery(mark.event) : pool_->driver().cuStreamQuery(stream_);
  if (answer == not_ready) return false;
  if (answer != success) return pool_->driver().error(by_event ? "cuEventQuery" : "cuStreamQuery", answer);
  if (by_event) pool_->give_back(context_, mark.event);
  return true;
}

Result<std::uint64_t> CudaQueue::reached() {
  while (!marks_.empty()) {
    const auto over = is_over(marks_.front());
    if (!over) return over.error();
    if (!*over) break;
    marks_.pop_front();
    ++reached_;
  }
  return reached_;
}

}  // namespace fabring::cuda
