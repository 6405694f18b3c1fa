// The driving side of EngineCore: who makes progress, and how long one waits.

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/waiting/yield_core.hpp"

namespace fabring {
namespace {

// Nothing of a device ends a sleep in the endpoint.
constexpr auto device_nap = std::chrono::microseconds(50);

}  // namespace

bool EngineCore::ready_to_receive() {
  if (!transfer_) return true;
  const bool ready = transfer_->start();
  transfer_->poll();
  return ready;
}

bool EngineCore::progress() {
  bool moved = false;
  within_memory([&] { moved = make_progress(); });
  return moved;
}

bool EngineCore::make_progress() {
  bool moved = false;
  if (news_.exchange(false)) {
    take_failures();
    take_submissions();
    moved = true;
  }
  if (!fresh_.empty() && begin_fresh()) {
    if (!is_time_to_look()) return true;
    moved = true;
  }
  for (const Orphans::Orphan& orphan : orphans_.release()) on_record(orphan.peer, orphan.record, orphan.payload);
  if (transfer_) moved = transfer_->poll() > 0 || moved;
  if (devices_.is_copying()) moved = copy() || moved;
  if (running_count_ > 0)
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (running_[i]) {
        within_memory(*running_[i]->communicator(), [&] { moved = running_[i]->advance() || moved; });
        finished_some_ = finished_some_ || running_[i]->finished();
      }
  if (transfer_) {
    moved = transfer_->flush() || moved;
    // Most endpoints take a small message at once and say so at the next poll: then nothing is left for anybody to
    // send.
    if (finished_some_ && !transfer_->delivered()) moved = transfer_->poll() > 0 || moved;
    undelivered_.store(!transfer_->delivered());
  }
  if (finished_some_) {
    finished_some_ = false;
    moved = retire() || moved;
  }
  const Time now = parts_.clock->now();
  if (now >= next_tick_) {
    next_tick_ = now + std::chrono::milliseconds(20);
    tick(now);
  }
  return moved;
}

bool EngineCore::retire() {
  bool some = false;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (!running_[i] || !running_[i]->finished()) continue;
    some = true;
    const std::shared_ptr<Execution> execution = std::move(running_[i]);
    running_[i] = nullptr;
    first_free_ = std::min(first_free_, i);
    --running_count_;
    end_of(execution);
  }
  while (!running_.empty() && !running_.back()) running_.pop_back();  // or every turn looks at what a burst has left
  first_free_ = std::min(first_free_, running_.size());
  if (scratch_wanted_) {  // somebody may have it now
    scratch_wanted_ = false;
    for (const auto& communicator : communicators()) {
      within_memory(*communicator, [&] {
        communicator->messages.start_waiting(*this);
        if (!communicator->queued.empty()) start_queued(*communicator);
      });
    }
  }
  notify_waiters();
  return some;
}

// What begins by it may find no memory: that is not its fault.
void EngineCore::end_of(const std::shared_ptr<Execution>& execution) {
  CommunicatorCore& communicator = *execution->communicator();
  if (const auto& from = execution->delivered_from()) {
    if (execution->failed()) from->fail(execution->failure());
    finish_now(from);
  }
  std::erase(communicator.active, execution);
  finished(execution);
  within_memory(communicator, [&] {
    if (execution->point_to_point()) communicator.messages.retired(*this, *execution);
    if (!communicator.queued.empty()) start_queued(communicator);
  });
}

void EngineCore::notify_waiters() {
  if (drive_->waiters.load() == 0) return;
  std::lock_guard lock(turn_mutex_);
  turn_.notify_all();
}

void EngineCore::drive(const std::function<bool()>& enough, std::chrono::nanoseconds limit, const WaitPolicy& waiting) {
  const auto start = std::chrono::steady_clock::now();
  std::uint32_t idle = 0, busy = 0, spins = 0;
  std::chrono::steady_clock::time_point idle_since;
  while (!enough()) {
    if (progress()) {
      idle = 0;
      // Others' operations may keep it busy past the limit.
      if (++busy % 256 == 0 && std::chrono::steady_clock::now() - start >= limit) return;
      continue;
    }
    if (++idle == 1) spins = waiting.spins_if(core_is_contended());
    if (idle <= spins) continue;
    auto now = std::chrono::steady_clock::now();
    if (now - start >= limit) return;
    if (idle == spins + 1) idle_since = now;
    const bool contended = core_is_contended();
    if (contended && waiting.own_core() && now - idle_since < WaitPolicy::contended_for) continue;
    if (!contended && now - idle_since < waiting.yield_for) {
      yield_core(waiting, now);
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(limit - (now - start));
    rest(std::min(left, watches_device() ? std::min(waiting.sleep_for, device_nap) : waiting.sleep_for));
  }
}

void EngineCore::rest(std::chrono::microseconds limit) {
  within_memory([&] { parts_.endpoint ? parts_.endpoint->wait(limit) : wake_event_.wait(limit); });
}

void EngineCore::wake_driver() { parts_.endpoint ? parts_.endpoint->wake() : wake_event_.set(); }

Status EngineCore::wait(Execution& execution, std::chrono::nanoseconds limit) {
  const bool bounded = limit < std::chrono::hours(24 * 365);  // now + nanoseconds::max() would overflow
  const auto end = std::chrono::steady_clock::now() + (bounded ? limit : std::chrono::nanoseconds(0));
  progress_thread_.note_wait();
  drive_->waiters.fetch_add(1);
  bool asked = false, driven = false;
  while (!execution.done()) {
    const auto left =
        bounded ? end - std::chrono::steady_clock::now() : std::chrono::nanoseconds(std::chrono::hours(1));
    if (left <= std::chrono::nanoseconds(0)) {
      // A program that only looks, again and again, counts as one that waits: nobody else would drive.
      if (!driven && !leaving_.has_begun()) drive_once();
      break;
    }
    if (!leaving_.has_begun() && drive_->try_lock()) {  // whoever leaves drives until the end
      HeldDrive held(*drive_);
      driven = true;
      awaited_ = {&execution, static_cast<std::size_t>(left.count())};  // a byte takes a nanosecond at most
      drive([&] { return execution.done() || leaving_.has_begun(); }, left);
      awaited_ = {};
      release_drive(held);
    } else {
      if (!asked) wake_driver();  // the progress thread may sleep there
      asked = true;
      std::unique_lock lock(turn_mutex_);
      // Whoever gives the drive back after this look notifies, which this thread hears.
      if (!execution.done() && (leaving_.has_begun() || drive_->is_held()))
        turn_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1)));
    }
  }
  const bool others = drive_->waiters.fetch_sub(1) > 1;
  const bool undelivered = undelivered_.load();
  if (undelivered) have_delivered();
  if (others) {
    std::lock_guard lock(turn_mutex_);
    turn_.notify_all();  // somebody else may drive now
  }
  if (pending_.load() > 0) {
    progress_thread_.note_call();
    progress_thread_.go_on_without();
  }
  if (!execution.done())
    return Status(ErrorCode::timeout, execution.call().describe() + " is not done yet; it goes on");
  return execution.status();
}

void EngineCore::drive_once() {
  if (!drive_->try_lock()) return;
  HeldDrive held(*drive_);
  progress();
  release_drive(held);
}

Traffic EngineCore::traffic() {
  if (drive_->try_lock()) {
    HeldDrive held(*drive_);
    count_traffic();
    release_drive(held);
  }  // else somebody drives, perhaps for long: the counts are a tick old at most
  std::lock_guard lock(mutex_);
  return traffic_;
}

void EngineCore::count_traffic() {
  if (!transfer_) return;
  const EndpointCounters counters = parts_.endpoint->counters();
  std::lock_guard lock(mutex_);
  traffic_.payload_bytes_sent = transfer_->payload_bytes_sent();
  traffic_.payload_bytes_received = transfer_->payload_bytes_received();
  traffic_.wire_bytes_sent = counters.bytes_sent;
  traffic_.wire_bytes_received = counters.bytes_received;
  traffic_.messages_sent = counters.messages_sent;
}

}  // namespace fabring
