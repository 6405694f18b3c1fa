#pragma once
// MeetingServer: rank 0's side of the rendezvous. A thread of its own ("fabring-meet") accepts the ranks, checks that
// each comes once, tells everybody when all are here (or what went wrong), and serves a small key-value exchange
// (MeetingValues) until all are done. Who comes for the next meeting before this one is over is turned away without a
// word, and searches on. The public functions are called by rank 0's own thread.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/frame_stream.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/sparse_lines.hpp"
#include "runtime/bootstrap/meeting_values.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"
#include "runtime/bootstrap/rendezvous.hpp"
#include "runtime/bootstrap/twin_visit.hpp"

namespace fabring {

struct MeetingTerms {
  HandshakeOptions greeting;  ///< purpose, job, world, secret; self is 0
  bool shared_port = false;   ///< visitors of other jobs are normal here, and of other versions
  std::string hint;           ///< added to notes about missing ranks
  std::string fingerprint;
  meeting::Join self;  ///< rank 0 itself
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point deadline;
  RendezvousOptions options;
};

class MeetingServer {
 public:
  /// Listens on those of `addresses` (all with one port) that this host has. Error: that of the first that is taken, or
  /// of the last if it has none.
  static Result<std::unique_ptr<MeetingServer>> start(const std::vector<net::SocketAddress>& addresses,
                                                      const MeetingTerms& terms, const Log& log);
  /// Stays until all ranks are done or the closing limit passed. If this rank has not finished, its start has failed.
  ~MeetingServer();

  /// Another rank 0 of this job may listen at these places, which we could not have: then the rendezvous fails, on both
  /// sides.
  void look_for_twin(std::vector<net::SocketAddress> places);

  /// Until all ranks are here, or the first definite error.
  Status wait_for_all();
  Status put(const std::string& key, const std::string& value);
  Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);
  Status failure() const;
  /// Returns once the others have been told.
  void give_up(const Status& why);
  void finish() { finished_ = true; }
  std::uint64_t job_nonce() const { return nonce_; }
  bool all_on_this_host() const;
  std::string local_address() const;
  std::uint64_t strangers() const { return strangers_->load(); }

 private:
  struct Visitor {
    Rank rank = -1;
    std::shared_ptr<FrameStream> link;
    meeting::Join join;
    std::shared_ptr<void> join_limit;
    bool joined = false;
    bool beside = false;  ///< on this host
    bool done = false;
  };
  using VisitorPtr = std::shared_ptr<Visitor>;
  /// Is a rank that came still there? If not, the other process of its number takes its place.
  struct Doubt {
    VisitorPtr second;
    std::shared_ptr<void> answer_limit;
  };
  /// Rank, fingerprint, host, pid: of one rank there may be several processes, by mistake.
  using Process = std::tuple<Rank, std::string, std::string, std::uint32_t>;

  MeetingServer(const MeetingTerms& terms, const Log& log);
  void run();
  void arrived(HandshakeResult result);
  bool on_frame(const VisitorPtr& visitor, std::uint8_t type, std::string_view payload);
  bool on_join(const VisitorPtr& visitor, std::string_view payload);
  bool on_put(const VisitorPtr& visitor, std::string_view payload);
  void on_end(const VisitorPtr& visitor);
  void take_in(const VisitorPtr& visitor);
  void doubt(const VisitorPtr& second);
  void replace(Rank rank);
  Status came_twice(const std::string& first, const Visitor& second) const;
  void welcome_if_complete();
  void close_doors();
  std::string settle_master_address() const;
  void fail(const Status& status);
  void note();
  void judge_refused();
  void end_if_possible();
  void close_soon();
  std::vector<Rank> missing() const;
  std::string missing_text(const std::string& how_long = {}) const;
  std::string who(const Visitor& visitor) const;
  std::string same_address_text(const Visitor& visitor) const;
  static Process process_of(const Visitor& visitor);
  template <class Member>
  std::shared_ptr<void> after(std::chrono::nanoseconds delay, Member member);

  const MeetingTerms terms_;
  const Log log_;
  const std::uint64_t nonce_;
  const std::shared_ptr<std::atomic<std::uint64_t>> strangers_;

  // The server thread's.
  net::Loop loop_;
  std::vector<std::unique_ptr<Doorkeeper>> doors_;
  std::vector<std::shared_ptr<TwinVisit>> twins_;
  std::set<VisitorPtr> visitors_;
  std::vector<VisitorPtr> members_;  // by rank; rank 0's stays null
  std::map<Rank, Doubt> doubts_;
  std::vector<bool> informed_;      // by rank: it knows that the rendezvous failed
  std::set<Process> told_;          // heard from us that it failed, or said so itself
  std::map<Rank, Status> refused_;  // by the rank it claimed; -1: it could not say
  std::ptrdiff_t refused_without_rank_ = 0;
  std::set<Rank> without_proof_;  // claimed by who has not our secret: says what is wrong when time is up, ends nothing
  SparseLines turned_away_;
  std::string last_stranger_;  // why it was refused; of those that speak our protocol
  std::shared_ptr<void> deadline_timer_, note_timer_, judge_timer_, end_timer_;
  int came_ = 1;
  bool closing_ = false;
  bool ended_ = false;

  MeetingValues values_;

  // Shared with rank 0's thread.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  std::string reached_at_;  // our address as ranks of other hosts reach it; if there are none, as any rank did
  bool all_here_ = false;
  bool thread_ended_ = false;
  bool same_host_ = true;

  bool finished_ = false;  // rank 0's thread's
  std::thread thread_;
};

}  // namespace fabring
