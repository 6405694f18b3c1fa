#include "work.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "bindings/thread_start.hpp"
#include "devices.hpp"
#include "engine.hpp"
#include "failure.hpp"
#include "interpreter.hpp"
#include "underway.hpp"

namespace fabring_torch {
namespace {

// Finishes what nobody waits for, one after the other, in a thread of its own. A callback may wait for another Work's
// future (PowerSGD's do), which would be finished here: when the queue does not move for a moment, a spare thread goes
// on. Spare threads end when there has been nothing to do for a while.
class Finisher {
 public:
  // Before anything is pushed. The first thread stays, so push() need not start one where nobody could be told that it
  // cannot be. Answers why there is none; empty: there is one.
  std::string prepare() {
    const std::lock_guard lock(mutex_);
    return threads_ > 0 ? std::string() : start();
  }

  void push(c10::intrusive_ptr<Work> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(work), Clock::now()});
    }
    changed_.notify_all();
  }

  void settle(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return queue_.empty() && busy_ == 0; });
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto shortest_patience = std::chrono::milliseconds(1),
                        longest_patience = std::chrono::milliseconds(50);
  static constexpr auto idle_time = std::chrono::seconds(2);
  static constexpr int most_threads = 64, kept_threads = 2;
  struct Entry {
    c10::intrusive_ptr<Work> work;
    Clock::time_point since;
  };

  std::string start() {
    std::string failure = fabring::bindings::start_detached("fabring-done", [this] { run(); });
    if (failure.empty()) ++threads_;
    return failure;
  }

  // Where the system gives no more threads, those that are there do it, later.
  void start_spare() { (void)start(); }

  // Longer, the more threads are at it: what they wait for may be their turn, of a core or of Python's lock.
  Clock::duration patience() const {
    return std::min<Clock::duration>(shortest_patience * (1 << std::clamp(busy_ - 1, 0, 10)), longest_patience);
  }

  // Null: this thread is spare.
  c10::intrusive_ptr<Work> next() {
    std::unique_lock lock(mutex_);
    ++idle_;
    for (;;) {
      while (!changed_.wait_for(lock, idle_time, [&] { return !queue_.empty(); })) {
        if (threads_ <= kept_threads) continue;
        --threads_;
        --idle_;
        return {};
      }
      const auto due = std::max(queue_.front().since, moved_) + patience();
      if (busy_ == 0 || Clock::now() >= due) break;
      changed_.wait_until(lock, due);
    }
    --idle_;
    c10::intrusive_ptr<Work> work = std::move(queue_.front().work);
    queue_.pop_front();
    moved_ = Clock::now();
    ++busy_;
    if (busy_ > 1 && idle_ == 0 && threads_ < most_threads) start_spare();
    if (threads_ == 1) start_spare();
    return work;
  }

  void run() {
    while (auto work = next()) {
      work->finish_once();
      work.reset();
      {
        const std::lock_guard lock(mutex_);
        --busy_;
        moved_ = Clock::now();
      }
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  Clock::time_point moved_{};  // when one was begun or done last
  int threads_ = 0, idle_ = 0, busy_ = 0;
};

bool is_receive(c10d::OpType type) { return type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE; }

/// Is it about collectives that ranks have called in another order? Other mismatches are about a message that does not
/// fit its receive, which a collective after it hears of too, or about a call that one rank has refused.
bool is_about_order(const fabring_error& error) {
  return error.code == FABRING_STATUS_MISMATCH &&
         std::string_view(error.message).find("differs between ranks") != std::string_view::npos;
}

/// That of a call on a group. The engine cannot say which thread of PyTorch's may have called a collective too, and the
/// program's author may not know that there is one.
std::exception_ptr exception_of_call(const fabring_error& error, c10d::OpType type) {
  const bool is_message = type == c10d::OpType::SEND || is_receive(type);
  return exception_of(error, is_message || !is_about_order(error)
                                 ? ""
                                 : "; calls of two threads on one group mix in any order: give each thread a group "
                                   "(checkpoint.async_save beside training: process_group=dist.new_group())");
}

c10::intrusive_ptr<c10::ivalue::Future> make_future(const std::optional<at::Device>& device) {
  const std::vector<at::Device> devices = device ? std::vector<at::Device>{*device} : std::vector<at::Device>();
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
}

}  // namespace

Work::Work(Membership membership, Task task)
    : c10d::Work(membership.group->request().rank, task.type, task.title,
                 task.outputs.empty() ? std::nullopt : std::optional(task.outputs)),
      membership_(std::move(membership)),
      task_(std::move(task)),
      future_(make_future(task_.device)) {
  if (is_receive(task_.type)) membership_.stay.reset();
  // The first of its callbacks: who waits goes on before the program's run, which may wait for who waits. It takes
  // no part in what the device's streams do.
  future_->addCallback([this](c10::ivalue::Future&) { tell_future_over(); }, /*uses_future=*/false);
}

Work::~Work() {
  if (!origin_.is_here()) return;
  for (fabring_work* handle : handles_) fabring_work_free(handle);
}

Work::Use::Use(Work& work) : work_(work) {
  const std::lock_guard lock(work_.state_);
  there_ = work_.membership_.group != nullptr;
  if (there_) ++work_.uses_;
}

Work::Use::~Use() {
  if (!there_) return;
  Membership last;  // with it the engine may leave, which waits for the other ranks
  std::vector<fabring_work*> handles;
  {
    const std::lock_guard lock(work_.state_);
    if (--work_.uses_ > 0 || !work_.finished_) return;
    last = std::exchange(work_.membership_, {});
    handles.swap(work_.handles_);
  }
  for (fabring_work* handle : handles) fabring_work_free(handle);
}

c10::intrusive_ptr<Work> Work::start(Membership membership, Task task, bool wait) {
  auto work = c10::make_intrusive<Work>(std::move(membership), std::move(task));
  const Use use(*work);
  if (wait && work->task_.operations.size() == 1) {
    fabring_error error = FABRING_ERROR_INIT;
    const fabring_status_code code =
        fabring_run(work->membership_.group->comm(), work->task_.operations.data(), &error);
    if (code == FABRING_STATUS_INVALID_ARGUMENT || code == FABRING_STATUS_UNSUPPORTED) check(code, error);
    if (code != FABRING_STATUS_OK) {
      auto thrown = exception_of_call(error, work->task_.type);
      work->finish(thrown);
      std::rethrow_exception(thrown);
    }
    work->finish_once();
    if (work->exception_) std::rethrow_exception(work->exception_);
    return work;
  }
  work->begin();
  if (wait) work->wait(kNoTimeout);
  return work;
}

void Work::begin() {
  fabring_error error = FABRING_ERROR_INIT;
  const std::size_t count = task_.operations.size();
  if (count == 0) return finish_once();
  if (const std::string failure = of_process<Finisher>().prepare(); !failure.empty()) {
    error.code = FABRING_STATUS_UNAVAILABLE;
    failure.copy(error.message, sizeof error.message - 1);
    // The engine has not seen the call: the others would wait for it, and a program that goes on is one call behind.
    fabring_comm_abort(membership_.group->comm(), failure.c_str(), nullptr);
    raise(error);
  }
  if (count == 1) {  // what is wrong with it is known at once
    fabring_work* handle = nullptr;
    if (fabring_start(membership_.group->comm(), task_.operations.data(), &handle, &error) != FABRING_STATUS_OK)
      std::rethrow_exception(exception_of_call(error, task_.type));
    handles_.push_back(handle);
  } else {
    std::vector<fabring_work*> handles(count, nullptr);
    if (fabring_start_group(membership_.group->comm(), task_.operations.data(), count, handles.data(), &error) !=
        FABRING_STATUS_OK)
      std::rethrow_exception(exception_of_call(error, task_.type));
    handles_ = std::move(handles);
  }
  {
    const std::lock_guard lock(state_);
    running_ = handles_.size();
    self_ = c10::intrusive_ptr<Work>::reclaim_copy(this);
  }
  if (!is_receive(opType_)) of_process<Underway>().begin();
  for (fabring_work* handle : handles_) fabring_work_notify(handle, &Work::told, this, nullptr);
}

// From any thread of the engine's, so it only hands over. After the lock is free *this may be gone.
void Work::told(void* work) {
  auto* const self = static_cast<Work*>(work);
  const bool others_count_on_it = !is_receive(self->opType_);
  bool over = false;
  c10::intrusive_ptr<Work> mine;
  {
    const std::lock_guard lock(self->state_);
    over = --self->running_ == 0;
    if (over && self->waiters_ == 0) mine = std::move(self->self_);
  }
  if (mine) of_process<Finisher>().push(std::move(mine));
  if (over && others_count_on_it) of_process<Underway>().end();  // after: settle() then finds it
}

bool Work::all_done() {
  const Use use(*this);
  for (fabring_work* handle : handles_) {
    int done = 0;
    fabring_work_done(handle, &done, nullptr);
    if (done == 0) return false;
  }
  return true;
}

std::exception_ptr Work::failure() {
  fabring_error error = FABRING_ERROR_INIT;
  for (fabring_work* handle : handles_)
    if (fabring_work_status(handle, &error) != FABRING_STATUS_OK) return exception_of_call(error, opType_);
  if (is_receive(opType_)) {
    fabring_received received = FABRING_RECEIVED_INIT;
    if (!handles_.empty() && fabring_work_received(handles_[0], &received, &error) != FABRING_STATUS_OK)
      return exception_of(error);
    source_.store(received.source);
    const std::size_t expected = task_.operations[0].count;
    if (!handles_.empty() && received.count != expected) {
      error.code = FABRING_STATUS_MISMATCH;
      const std::string text = c10::str("recv of ", expected, " elements got ", received.count, " from rank ",
                                        received.source, "; send and recv must have tensors of one size and type");
      text.copy(error.message, sizeof error.message - 1);
      return exception_of(error);
    }
  }
  return nullptr;
}

void Work::finish_once() {
  {
    const std::lock_guard lock(state_);
    if (finishing_) return;
    finishing_ = true;
  }
  const Use use(*this);
  c10::OptionalDeviceGuard guard;  // a future runs its callbacks where it was completed
  std::exception_ptr thrown = failure();
  try {
    if (task_.device) guard.reset_device(*task_.device);
    const BesideCaptures beside(task_.device);
    if (!thrown) make_copies(task_.device, task_.copies);
    // A future that this makes fail would be one that nobody can wait for.
    if (!thrown && task_.device) check_device(*task_.device);
  } catch (...) {
    thrown = std::current_exception();
  }
  task_.kept.clear();
  task_.copies.clear();
  finish(thrown);
  complete_future(thrown);
  const std::lock_guard lock(state_);
  finished_ = true;
}

// What it throws is a callback's of the program's, or the GPU's. The thread may be none of the program's, which it
// would end.
void Work::complete_future(const std::exception_ptr& thrown) {
  try {
    if (thrown)
      future_->setError(thrown);
    else
      future_->markCompleted(c10::IValue(task_.outputs));
  } catch (const std::exception& error) {
    TORCH_WARN("fabring: the future of a finished operation, or a callback of it, has failed: ", error.what());
  } catch (...) {
    TORCH_WARN("fabring: the future of a finished operation, or a callback of it, has failed");
  }
  tell_future_over();  // if it could not be completed
}

void Work::tell_future_over() {
  {
    const std::lock_guard lock(mutex_);
    future_over_ = true;
  }
  cv_.notify_all();
}

bool Work::isCompleted() {
  origin_.check();
  const WithoutInterpreter without;  // it may finish the Work, or wait for a lock of who does
  {
    const std::lock_guard lock(mutex_);
    if (future_over_) return true;
  }
  if (!all_done()) return false;
  finish_once();
  const std::lock_guard lock(mutex_);
  return future_over_;  // another thread may be at it
}

bool Work::isSuccess() const {
  origin_.check();
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

int Work::sourceRank() const { return source_.load(); }

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  origin_.check();
  return future_;
}

void Work::abort() {
  origin_.check();
  if (const Use use(*this); use)
    fabring_comm_abort(membership_.group->comm(), "abort() was called on one of its operations", nullptr);
}

bool Work::wait(std::chrono::milliseconds timeout) {
  origin_.check();
  const bool bounded = timeout > kNoTimeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  {
    std::unique_lock lock(mutex_);
    if (future_over_) {
      if (exception_) std::rethrow_exception(exception_);
      return true;
    }
  }
  const Use use(*this);
  {
    const std::lock_guard lock(state_);
    ++waiters_;
  }
  bool in_time = true;
  for (fabring_work* handle : handles_) {
    if (!bounded) {
      fabring_work_wait(handle, nullptr);
      continue;
    }
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    fabring_work_wait_for(handle, static_cast<std::uint64_t>(std::max<std::int64_t>(left.count(), 0)), nullptr);
    int done = 0;
    fabring_work_done(handle, &done, nullptr);
    in_time = in_time && done != 0;
  }
  c10::intrusive_ptr<Work> mine;  // what told() left to those who wait
  {
    const std::lock_guard lock(state_);
    if (--waiters_ == 0 && running_ == 0) mine = std::move(self_);
  }
  if (in_time || mine) finish_once();
  if (!in_time && !mine)
    raise_lost(c10::str("fabring: timeout: ", c10d::opTypeToString(opType_), " #", task_.sequence,
                        " of process group '", membership_.group->request().name, "' is not done after the ",
                        timeout.count(), " ms given to wait(); it goes on"));
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [&] { return future_over_; });  // the copies may be another thread's work
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Work::synchronize() {
  const WithoutInterpreter without;
  wait(kNoTimeout);
}

void Work::let_end() {
  const std::chrono::milliseconds limit = SharedEngine::longest_leave();
  const std::size_t left = of_process<Underway>().wait(limit);
  if (left == 0) return;
  const std::string late = c10::str(" did not do their part within ", limit.count(), " ms (FABRING_LEAVE_TIMEOUT)");
  TORCH_WARN("fabring: this process ends while collectives or sends that it has begun (", left,
             ") are under way: other ranks", late, ", and get an error if they do it now");
  // They hear why, and the goodbye does not wait as long again.
  Group::abort_all("its program has ended while others" + late + " in what it had begun");
}

void Work::settle() { of_process<Finisher>().settle(std::chrono::seconds(5)); }

}  // namespace fabring_torch
