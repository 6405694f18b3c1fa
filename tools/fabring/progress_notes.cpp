#include "tools/fabring/progress_notes.hpp"

#include <utility>

#include "tools/fabring/command.hpp"

namespace fabring::tools {

ProgressNotes::ProgressNotes(std::string subcommand, std::chrono::milliseconds pause)
    : subcommand_(std::move(subcommand)), pause_(pause) {}

void ProgressNotes::say(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (now - said_ < pause_) return;
  said_ = now;
  complain(subcommand_, text);
}

}  // namespace fabring::tools
