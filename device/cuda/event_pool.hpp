#pragma once
// What every call into the driver goes through: Entry, which makes a context current around it, and EventPool, which
// holds the driver and the events that wait to be used again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/driver.hpp"

namespace fabring::cuda {

inline Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// Makes a context current for as long as it lives, and queries harmless to captures that other streams are under.
class Entry {
 public:
  Entry(const Driver& driver, Context context)
      : driver_(&driver), context_(context), answer_(driver.cuCtxPushCurrent_v2(context)) {
    driver_->cuThreadExchangeStreamCaptureMode(&mode_);
  }
  /// Where what follows does not say by itself that another context was current: it would be done there.
  static Result<Entry> into(const Driver& driver, Context context) {
    Entry entry(driver, context);
    if (entry.answer_ != success) return driver.error("cuCtxPushCurrent", entry.answer_);
    return entry;
  }
  ~Entry() {
    if (driver_ == nullptr) return;
    driver_->cuThreadExchangeStreamCaptureMode(&mode_);
    Context last;
    if (answer_ == success) driver_->cuCtxPopCurrent_v2(&last);
  }
  Entry(Entry&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        context_(other.context_),
        mode_(other.mode_),
        answer_(other.answer_) {}
  Entry& operator=(Entry&&) = delete;
  Context context() const { return context_; }
  const Driver& driver() const { return *driver_; }

 private:
  const Driver* driver_;  // null: moved from
  Context context_;
  int mode_ = capture_relaxed;
  Answer answer_;
};

// The driver and events of each context, kept: making one takes the driver's locks. Shared by what uses them, which may
// outlive the runtime.
class EventPool {
 public:
  explicit EventPool(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
  ~EventPool() {
    for (const auto& [context, events] : kept_) {
      const Entry entry(*driver_, context);
      for (const Event event : events) driver_->cuEventDestroy_v2(event);  // at the end of a process it may refuse
    }
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  /// In an Entry of this context.
  Answer take(Context context, Event& event) {
    {
      std::lock_guard lock(mutex_);
      auto& kept = kept_[context];
      if (!kept.empty()) {
        event = kept.back();
        kept.pop_back();
        return success;
      }
    }
    return driver_->cuEventCreate(&event, event_without_timing);
  }
  void give_back(Context context, Event event) {
    std::lock_guard lock(mutex_);
    kept_[context].push_back(event);
  }
  static constexpr std::size_t words = 16;
  /// So many words of the host's memory for kernels to write to, all zero; null: there are none. In an Entry of any
  /// context. They are never freed, but taken again; who is not sure that no kernel writes to them any more does not
  /// give them back.
  std::uint64_t* take_words() {
    constexpr std::size_t bytes = words * sizeof(std::uint64_t);
    void* block = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!words_.empty()) {
        block = words_.back();
        words_.pop_back();
      }
    }
    if (block == nullptr && driver_->cuMemHostAlloc(&block, bytes, host_portable) != success) return nullptr;
    return static_cast<std::uint64_t*>(std::memset(block, 0, bytes));
  }
  void give_back_words(std::uint64_t* block) {
    std::lock_guard lock(mutex_);
    words_.push_back(block);
  }
  const Driver& driver() const { return *driver_; }

 private:
  const std::unique_ptr<Driver> driver_;
  std::mutex mutex_;
  std::map<Context, std::vector<Event>> kept_;
  std::vector<std::uint64_t*> words_;
};

}  // namespace fabring::cuda
