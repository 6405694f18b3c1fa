#pragma once
// What every call into the driver goes through: Entry, which makes a context current around it, and EventPool, which
// holds the driver and the events that wait to be used again.

#include <cstddef>
#include <cstdint>
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
  Entry(const Driver& driver, Context context) : driver_(driver), answer_(driver.cuCtxPushCurrent_v2(context)) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Entry() {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    Context last;
    if (answer_ == success) driver_.cuCtxPopCurrent_v2(&last);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  Answer answer() const { return answer_; }

 private:
  const Driver& driver_;
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
  const Driver& driver() const { return *driver_; }

 private:
  const std::unique_ptr<Driver> driver_;
  std::mutex mutex_;
  std::map<Context, std::vector<Event>> kept_;
};

}  // namespace fabring::cuda
