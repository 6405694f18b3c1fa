#pragma once
// Meeting of the module: an engine that is being made, in a thread of its own, as it can last minutes.

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/handle.hpp"
#include "bindings/python/core/waiting.hpp"

namespace fabring::python {

class Meeting {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;
  /// Raises for settings that are wrong.
  Meeting(bool from_environment, const Settings& settings);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();  ///< as forget()

  /// Begins if it has not, and waits for the others. Raises what it failed with, or what a signal handler raised: then
  /// it goes on, and may be waited for again.
  std::unique_ptr<EngineHandle> engine();
  /// No engine of use can come of it any more: it failed, it was taken or forgotten, the job that it met for is over by
  /// now, or this is a child of fork().
  bool spent() const;
  /// Still waits for the others.
  bool under_way() const;
  /// What it made and nobody took leaves the job; a meeting under way goes on, and then leaves. A traceback may keep
  /// the Meeting itself for as long as it likes.
  void forget();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::optional<Aside> aside_;
};

void bind_meeting(nanobind::module_& module);

}  // namespace fabring::python
