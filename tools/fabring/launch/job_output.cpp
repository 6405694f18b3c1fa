#include "tools/fabring/launch/job_output.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_queued_bytes = 1 << 20;  // of a stream; above it the ranks have to wait
constexpr std::chrono::seconds patience{2};         // with a reader who takes nothing, when the job is to end

bool same_file(int a, int b) {
  struct stat one {
  }, other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

JobOutput::JobOutput(std::string name, int ranks, OutputStyle style, int out_fd, int err_fd)
    : name_(std::move(name)), out_(out_fd), err_(err_fd), end_last_(style.end_last), one_(same_file(out_fd, err_fd)) {
  for (int rank = 0; rank < ranks; ++rank) lines_.push_back({OutputLines(rank, style), OutputLines(rank, style)});
}

void JobOutput::rank_printed(int rank, OutputStream stream, std::string_view bytes) {
  Lines& lines = lines_[static_cast<std::size_t>(rank)];
  add(way(stream), (stream == OutputStream::out ? lines.out : lines.err).take(bytes));
}

void JobOutput::end_lines() {
  for (Lines& lines : lines_) {
    add(way(OutputStream::out), lines.out.finish());
    add(way(OutputStream::err), lines.err.finish());
  }
  if (Way& out = way(OutputStream::out); end_last_ && out.last != '\n') add(out, "\n");
}

void JobOutput::say(const std::string& text) {
  add(way(OutputStream::err), fmt::format("fabring {}: {}\n", name_, text));
}

void JobOutput::add(Way& way, std::string_view text) {
  if (way.closed) return;
  if (way.queue.empty()) way.moved = Clock::now();
  way.queue.add(text);
  if (!text.empty()) way.last = text.back();
}

bool JobOutput::room(OutputStream stream) const {
  return (stream == OutputStream::out || one_ ? out_ : err_).queue.size() < most_queued_bytes;
}

void JobOutput::watch(std::vector<pollfd>& polled) const {
  for (const Way* way : {&out_, &err_}) polled.push_back({way->queue.waiting_fd(), POLLOUT, 0});
}

std::optional<int> JobOutput::flush() {
  std::optional<int> error;
  for (Way* way : {&out_, &err_}) {
    const std::size_t before = way->queue.size();
    if (!way->queue.flush()) {
      way->closed = true;
      if (!std::exchange(told_, true)) error = errno;
    }
    if (way->queue.size() < before) way->moved = Clock::now();
    if (const auto limit = limit_of(*way); limit && Clock::now() >= *limit) drop(*way);
  }
  return error;
}

void JobOutput::hurry() {
  if (!hurried_) hurried_ = Clock::now();
}

std::optional<JobOutput::Time> JobOutput::limit_of(const Way& way) const {
  if (!hurried_ || way.queue.empty()) return {};
  return std::max(way.moved, *hurried_) + patience;
}

JobOutput::Time JobOutput::deadline() const {
  return std::min(limit_of(out_).value_or(Time::max()), limit_of(err_).value_or(Time::max()));
}

void JobOutput::give_up() {
  drop(out_);
  drop(err_);
}

void JobOutput::drop(Way& way) {
  if (way.queue.empty()) return;
  const std::size_t bytes = way.queue.size();
  way.queue = OutputQueue(way.queue.fd());
  way.closed = true;
  dropped_ = true;
  if (&way == &out_) say(fmt::format("nobody reads what the ranks print: {} bytes of it are dropped", bytes));
}

}  // namespace fabring::tools
