#pragma once
// MeetingClient: every other rank's side of the rendezvous. No thread: its functions drive a loop of their own inside
// the calling thread, one caller at a time.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "runtime/base/frame_stream.hpp"
#include "runtime/bootstrap/master_search.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"

namespace fabring {

class MeetingClient {
 public:
  /// Finds rank 0, joins and waits until all are there.
  static Result<std::unique_ptr<MeetingClient>> meet(const MasterSearch& search, const meeting::Join& join,
                                                     const Log& log);
  ~MeetingClient();  // tells rank 0 that this rank needs nothing more; or, if it has not finished, that it has failed

  Status put(const std::string& key, const std::string& value);
  Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);
  Status failure();
  void give_up(const Status& why);
  void finish() { finished_ = true; }
  std::uint64_t job_nonce() const { return welcome_.job_nonce; }
  bool all_on_this_host() const { return welcome_.all_on_this_host; }
  std::string local_address() const { return local_address_; }

 private:
  explicit MeetingClient(const Log& log) : log_(log) {}
  Status join(const MasterSearch& search, meeting::Join join);
  Status visit_master(const MasterSearch& search, meeting::Join& join, std::chrono::steady_clock::time_point end);
  std::string choose_local_address() const;
  bool on_frame(std::uint8_t type, std::string_view payload);
  void on_end(const std::string& why);
  void flush(std::chrono::milliseconds limit);

  const Log log_;
  net::Loop loop_;
  std::shared_ptr<FrameStream> link_;
  meeting::Welcome welcome_;  // nonce 0: not yet
  std::string local_address_;
  std::map<std::string, std::string> values_;
  std::set<std::string> asked_;
  std::string last_note_;
  bool taken_in_ = false;     // rank 0 counts on this rank
  bool turned_away_ = false;  // without a word: it is still at an earlier meeting
  Status failure_;
  bool finished_ = false;
};

}  // namespace fabring
