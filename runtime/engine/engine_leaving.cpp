// How an engine leaves: it ends what is under way, tells the others what it has called and sent (Account), and closes.

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/named_thread.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr auto shortest_goodbye = std::chrono::milliseconds(200);
constexpr auto least_time_for_devices = std::chrono::milliseconds(2000);
constexpr auto beyond_the_limit = std::chrono::milliseconds(5000);  // for what leaving does after the others are told

// All parts of leaving share one limit: a launcher's grace is set by it.
class LeaveTime {
 public:
  std::chrono::milliseconds left_of(std::chrono::milliseconds whole) const {
    const auto gone = std::chrono::steady_clock::now() - began_;
    return std::max(whole - std::chrono::duration_cast<std::chrono::milliseconds>(gone),
                    std::min(whole, shortest_goodbye));
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// A device reads and writes what they have whenever it runs what was posted, and a peer that does not answer reads it:
// for as long as the process lives.
void keep_for_good(std::shared_ptr<Execution> execution) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<Execution>>();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(execution));
}

}  // namespace

// Is something under way in which others wait for this rank? Not in a receive that nothing has come for.
bool EngineCore::others_take_part(const CommunicatorCore& communicator) const {
  const auto is_one = [&](const std::shared_ptr<Execution>& execution) {
    return execution->communicator().get() == &communicator && execution->call().collective != Collective::recv;
  };
  return !communicator.queued.empty() || !communicator.running().empty() || std::ranges::any_of(fresh_, is_one);
}

// Or were the others given up? Groups that were there when world failed say nothing: nobody may wait in them.
bool EngineCore::goes_on_with_others() const {
  const auto failed = [](const CommunicatorCore& communicator) {
    const std::lock_guard lock(communicator.mutex);
    return !communicator.failed.ok();
  };
  if (!failed(*world_)) return true;
  return std::ranges::any_of(communicators(), [&](const std::shared_ptr<CommunicatorCore>& one) {
    return one->made_after_world && one->size() > 1 && !failed(*one);
  });
}

// What is on its way to a receive comes in before this rank leaves: its sender has done nothing to be failed for, nor
// have the others on that communicator. Nobody knows of a receive that nothing has come for.
void EngineCore::receive_the_last(const Status& why, std::chrono::milliseconds limit) {
  see_what_has_come();  // what was submitted last is begun too
  std::vector<std::shared_ptr<Execution>> coming;
  for (const auto& communicator : communicators()) {
    for (const auto& receive : communicator->messages.drop_unanswered()) {
      end(*communicator, *receive, why);
      finish_now(receive);
    }
    const auto more = communicator->messages.receiving();
    coming.insert(coming.end(), more.begin(), more.end());
  }
  drive([&] { return std::ranges::all_of(coming, [](const auto& receive) { return receive->done(); }); }, limit);
}

// Nobody but who leaves makes progress from here on.
void EngineCore::stop_others_driving() {
  std::thread progress_thread;
  {
    std::lock_guard lock(mutex_);  // submit() starts it under the same lock
    progress_thread = progress_thread_.stop();
  }
  {
    std::lock_guard lock(turn_mutex_);
    turn_.notify_all();
  }
  wake_driver();
  if (progress_thread.joinable()) progress_thread.join();
}

// Those who wait for this rank in what ends here hear of it.
void EngineCore::end_what_is_under_way(const Status& why) {
  take_submissions();
  auto shared = communicators();
  std::erase_if(shared, [&](const auto& one) { return !others_take_part(*one); });
  begin_fresh();
  for (const auto& communicator : communicators()) {
    {
      std::lock_guard of(communicator->mutex);
      communicator->fail(has_left());  // what is called from now on was not under way
    }
    fail(*communicator, why);
  }
  for (const auto& communicator : shared)
    if (parts_.control)
      report({ErrorCode::aborted, parts_.self, parts_.self, communicator->global_id(),
              fmt::format("{} has ended its engine while operations on '{}' were under way there", who(parts_.self),
                          communicator->label)});
}

Status EngineCore::say_goodbye(std::chrono::milliseconds limit) {
  if (!parts_.control) return {};
  Status left;
  std::atomic<bool> over{false};
  refusals_.close(communicators());
  parts_.control->set_account(accounts().encode());
  auto goodbye = start_thread("fabring-bye", [&] {
    left = parts_.control->leave(limit);
    over.store(true);
    wake_driver();
  });
  if (!goodbye) return parts_.control->leave(limit);  // the system gives no more threads; what we had to send is sent
  drive([&] { return over.load(); }, limit + std::chrono::seconds(1));
  goodbye->join();
  return left;
}

void EngineCore::close_endpoint() {
  if (!parts_.endpoint) return;
  see_what_has_come();  // what the others had sent before they said goodbye
  parts_.endpoint->finish_sending();
  drive([&] { return transfer_->drained(); }, std::chrono::milliseconds(100));
  parts_.endpoint->close();
  // Completions of what was still open: executions must not stay behind with buffers that look busy.
  drive([&] { return pending_.load() == 0; }, std::chrono::milliseconds(200));
}

// What was posted to a device writes to the program's memory whenever it is run, which may take as long as a kernel of
// the program. So that is waited for beyond what the others are given.
void EngineCore::await_devices() {
  if (!devices_.is_copying()) return;
  const auto limit = std::max(parts_.config.leave_timeout, least_time_for_devices);
  drive([&] { return !devices_.is_copying(); }, limit);
  if (!devices_.is_copying()) return;
  for (const int device : devices_.copies().busy())
    parts_.log.error(
        fmt::format("{} leaves although GPU {} has not run within {} ms what was posted to it: it may still read and "
                    "write the buffers of operations that were under way, and pinned memory that stays until the end "
                    "of the process",
                    who(parts_.self), device, limit.count()));
}

// Whoever waits for it would do so for ever.
void EngineCore::abandon_the_rest(const Status& why) {
  for (auto& one : running_) {
    if (!one) continue;
    const std::shared_ptr<Execution> left = std::move(one);
    one = nullptr;
    --running_count_;
    left->fail(why);
    if (const auto& from = left->delivered_from()) {
      from->fail(left->failure());
      finish_now(from);
    }
    left->abandon();
    pending_.fetch_sub(1);
    keep_for_good(left);
  }
  notify_waiters();
}

// What no operation of the program has ended with; the last of it is the answer.
Status EngineCore::log_untold() {
  Status last = compare_accounts();
  if (!last.ok()) parts_.log.error(last.message());
  for (const auto& communicator : communicators()) {
    std::lock_guard of(communicator->mutex);
    if (!std::exchange(communicator->untold, false)) continue;
    parts_.log.error(communicator->failed.message());
    last = communicator->failed;
  }
  return last;
}

// Its errors are told to the first only.
Status EngineCore::leave() {
  if (!leaving_.begin()) return leaving_.await_end(parts_.config.leave_timeout + beyond_the_limit);
  Status left;
  try {
    left = leave_now();
  } catch (const std::bad_alloc&) {  // before it has done any of it
    left = leave_now();
  }
  leaving_.end();
  return left;
}

Status EngineCore::leave_now() {
  const LeaveTime time;
  shrinks_.close();
  stop_others_driving();
  std::unique_lock lock(*drive_);
  const auto time_to_leave = [&] {
    std::chrono::milliseconds limit = shortest_goodbye;
    within_memory([&] {
      if (goes_on_with_others()) limit = parts_.config.leave_timeout;
    });
    return limit;
  };
  const Status why(
      ErrorCode::aborted,
      "this rank left the job while this operation was under way (by leave(), or as its engine was destroyed)");
  const bool ends_some = pending_.load() > 0;
  if (ends_some) within_memory([&] { receive_the_last(why, time.left_of(time_to_leave())); });
  const std::chrono::milliseconds whole = time_to_leave();  // what was received from may have been lost meanwhile
  leaving_.take_nothing_more();
  if (ends_some) within_memory([&] { end_what_is_under_way(why); });
  drive([&] { return pending_.load() == 0 && (!transfer_ || transfer_->drained()); }, time.left_of(whole));
  Status left, untold;
  within_memory([&] { left = say_goodbye(time.left_of(whole)); });
  within_memory([&] { close_endpoint(); });
  within_memory([&] { await_devices(); });
  within_memory([&] { abandon_the_rest(why); });
  within_memory([&] {
    tell_state();
    untold = log_untold();
  });
  lock.unlock();
  door_.reset();
  return untold.ok() ? left : untold;
}

Accounts EngineCore::accounts() const {
  Accounts made;
  const auto there = communicators();  // until the book has been read: none gets into both
  for (const auto& communicator : there)
    if (communicator->size() > 1) made.all.push_back(communicator->account());
  made.complete = account_book_->complete(made.all.size());
  auto gone = account_book_->entries();
  std::reverse(gone.begin(), gone.end());  // if it is too much for one message, the last are worth most
  for (auto& entry : gone) made.all.push_back(std::move(entry.account));
  return made;
}

}  // namespace fabring
