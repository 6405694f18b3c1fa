#pragma once
// MeetingValues: the small key-value exchange of a meeting, kept by rank 0 until all ranks are done. The first value of
// a key stays; who asks for one that nobody has published yet gets it once somebody does. Threads: get() is called by
// rank 0's own, everything else by the server's.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/frame_stream.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"

namespace fabring {

class MeetingValues {
 public:
  using Link = std::shared_ptr<FrameStream>;
  /// What one rank may leave here. A start needs a few hundred bytes of each; `fabring doctor net` brings its findings.
  static constexpr std::size_t most_bytes_per_rank = 1 << 20;

  explicit MeetingValues(int world_size);

  /// Errors: timeout; that of fail().
  Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);

  /// Of rank 0 itself.
  void publish(const meeting::Pair& pair);
  /// Of another rank, which sent so many bytes for it. False: with these it is more than most_bytes_per_rank.
  bool publish_of(Rank rank, const meeting::Pair& pair, std::size_t bytes);
  /// A rank's question is answered, now or later. False: no rank of ours asks so.
  bool answer(const Link& link, std::string_view question);
  /// It waits for nothing any more.
  void forget(const Link& link);
  void forget_all() { waiting_.clear(); }
  /// The meeting has failed: get() waits for nothing any more.
  void fail(const Status& why);

 private:
  const std::size_t most_waits_;
  std::vector<std::size_t> bytes_of_;                 // by rank
  std::map<std::string, std::vector<Link>> waiting_;  // by key

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;  // changed by the server's thread only, which looks without the mutex
  Status failure_;
};

}  // namespace fabring
