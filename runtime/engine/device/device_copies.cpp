#include "runtime/engine/device/device_copies.hpp"

#include <algorithm>
#include <vector>

namespace fabring {

Status DeviceCopies::open(Queue& queue, int device) {
  if (queue.queue) return {};
  auto opened = runtime_->open_queue(device);
  if (!opened) return opened.error();
  queue.queue = std::move(*opened);
  return {};
}

void DeviceCopies::post(int device, CopyWay way, std::span<const DeviceCopy> copies, std::uint64_t context) {
  const auto post_all = [copies](DeviceQueue& queue) -> Status {
    for (const DeviceCopy& copy : copies) FABRING_TRY(queue.post_copy(copy.to, copy.from, copy.bytes));
    return {};
  };
  post(device, way, post_all, context);
}

void DeviceCopies::post(int device, CopyWay way, const Fill& work, std::uint64_t context) {
  Queue& queue = queues_[{device, way}];
  Status refused = open(queue, device);
  if (refused.ok()) refused = work(*queue.queue);
  queue.groups.push_back({queue.marks + 1, context, std::move(refused)});
  ++under_way_;
  (void)set_mark(queue);  // poll() tries again
}

void DeviceCopies::post_within_reach(int device, CopyWay way, std::span<const DeviceCopy> copies,
                                     std::uint64_t context) {
  Queue& queue = queues_[{device, way}];
  Status refused = open(queue, device);
  if (refused.ok()) refused = queue.queue->post_copies_and_mark(copies);
  queue.groups.push_back({queue.marks + 1, context, refused});
  ++under_way_;
  if (refused.ok()) {
    ++queue.marks;
    queue.unmarked = false;
  } else {
    (void)set_mark(queue);
  }
}

// Also behind a group that was refused in the middle: what was posted of it runs.
Status DeviceCopies::set_mark(Queue& queue) {
  Status set = queue.queue ? queue.queue->post_mark() : Status();
  queue.unmarked = !set.ok();
  if (set.ok()) ++queue.marks;
  return set;
}

Result<std::uint64_t> DeviceCopies::reached(Queue& queue) {
  if (queue.unmarked)
    if (const Status set = set_mark(queue); set.code() == ErrorCode::device_error) return set;
  return queue.queue ? queue.queue->reached() : Result<std::uint64_t>(queue.marks);
}

std::size_t DeviceCopies::poll(const std::function<void(std::uint64_t, const Status&)>& done) {
  std::vector<std::pair<std::uint64_t, Status>> over;  // `done` may post more
  for (auto& [key, queue] : queues_) {
    if (queue.groups.empty()) continue;
    const auto mark = reached(queue);
    while (!queue.groups.empty() && (!mark || queue.groups.front().mark <= *mark)) {
      const Group& first = queue.groups.front();
      over.emplace_back(first.context, mark || !first.refused.ok() ? first.refused : mark.error());
      queue.groups.pop_front();
    }
  }
  under_way_ -= over.size();
  for (const auto& [context, status] : over) done(context, status);
  return over.size();
}

std::set<int> DeviceCopies::busy() const {
  std::set<int> devices;
  for (const auto& [key, queue] : queues_)
    if (!queue.groups.empty()) devices.insert(key.first);
  return devices;
}

}  // namespace fabring
