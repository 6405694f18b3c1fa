#pragma once
// HostLink: the launcher's end of one host: the ssh process (or the agent itself, on this host), what it said, and
// whether it is still there.

#include <poll.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"
#include "tools/fabring/launch/agent_wire.hpp"
#include "tools/fabring/launch/child_process.hpp"
#include "tools/fabring/launch/host_slots.hpp"
#include "tools/fabring/launch/lifeline.hpp"
#include "tools/fabring/launch/output_queue.hpp"

namespace fabring::tools {

class HostEvents : public RankEvents {
 public:
  virtual void input_taken(std::uint32_t bytes) = 0;
  virtual void host_said(const std::string& line) = 0;  ///< ssh or the agent, on stderr

 protected:
  ~HostEvents() = default;
};

struct HostContact {
  HostShare share;
  std::vector<std::string> command;  ///< starts the agent there
  std::string fabring;               ///< the agent's path there, for messages
  bool over_ssh = true;
};

class HostLink {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : unsigned char { starting, ready, running, finished, lost };

  /// Starts the command. Errors: unavailable, naming the host.
  static Result<std::unique_ptr<HostLink>> open(HostContact contact, const Environment& environment,
                                                Lifeline& lifeline);
  ~HostLink();
  HostLink(const HostLink&) = delete;

  State state() const { return state_; }
  const std::string& failure() const { return failure_; }  ///< of a lost host; names it
  /// Lost because the agent or a rank cannot be started there: the program is missing, Fabring is another version.
  bool could_not_start() const { return could_not_start_; }
  const HostShare& share() const { return contact_.share; }
  const HostContact& contact() const { return contact_; }
  const AgentFacts& facts() const { return facts_; }  ///< once ready

  static constexpr std::size_t polled_entries = 3;
  /// `read_output` false: the agent is not listened to for now and has to wait.
  void watch(std::vector<pollfd>& polled, bool read_output) const;
  void serve(std::span<const pollfd> polled, Time now, HostEvents& events);
  /// Notices what no descriptor tells: a deadline, an end.
  void check(Time now, std::chrono::milliseconds silence, bool listening);

  void send(ToAgent type, std::string_view payload = {});
  void order(const StartOrder& order);
  bool flush() { return to_agent_.flush(); }
  /// Nothing more to say: the agent ends.
  void close_input();
  bool closed() const { return process_.output() < 0; }
  /// While starting: the time is up.
  void give_up(const std::string& why = {});

 private:
  HostLink(HostContact contact, ChildProcess process, Descriptor input, Lifeline& lifeline);
  void lose(std::string why);
  void read_frames(Time now, HostEvents& events);
  void read_errors(HostEvents& events);
  Status accept(const Frame& frame, HostEvents& events);
  Status check_rank(int rank) const;
  void greet(std::string_view bytes);

  HostContact contact_;
  ChildProcess process_;
  Descriptor input_;
  Lifeline& lifeline_;
  OutputQueue to_agent_;
  FrameReader frames_{most_frame_from_agent};
  AgentFacts facts_;
  State state_ = State::starting;
  bool greeted_ = false, could_not_start_ = false;
  std::string before_greeting_, errors_, failure_;
  Time heard_{};
  Time output_ended_{};
};

}  // namespace fabring::tools
