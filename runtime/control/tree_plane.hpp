#pragma once
// TreePlane: the control plane over TCP. A thread of its own ("fabring-ctl") runs the loop and owns the links; the
// public functions hand it work and wait for what it publishes under the mutex. Everything that concerns all ranks is
// flooded through the tree.
//
// A rank that leaves early or dies cuts the tree, and the parts join again: who has lost its parent asks a living
// ancestor to be that now, or else the lowest rank that lives (JoinedTree::parents_for), until one says welcome. Then
// both sides tell what they know: failures, goodbyes, who has gone and who has moved. Only an accepted `join` makes a
// link, so that a connection which was given up in between is nobody's death. A rank at whose address nobody listens
// has ended; one that does not answer is asked again and again, and given up after FABRING_SILENCE_TIMEOUT; meanwhile
// the next is asked. A neighbour whose connection breaks may live: both ends visit the other's door, and the child
// joins its parent anew (tree_plane_return.cpp). An orphan that nobody hears of is looked for by its guardian, the
// first that it should ask.

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "runtime/base/frame_stream.hpp"
#include "runtime/control/all_gather.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/control/control_wire.hpp"
#include "runtime/control/joined_tree.hpp"
#include "runtime/control/neighbour_meeting.hpp"

namespace fabring {

struct ControlOptions {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds note_silence_after{3500};
  std::chrono::milliseconds flush_limit{200};  ///< at the end, for what is still to be said
  int most_flooded_world = 256;                ///< larger worlds tell their activity to neighbours only
  std::size_t most_looks = 64;                 ///< connections at once to look for orphans, and as many for lost ranks
};

class TreePlane final : public ControlPlane {
 public:
  TreePlane(const Config& config, const std::string& secret, const Bootstrap& bootstrap, const Log& log,
            const ControlOptions& options);
  ~TreePlane() override;
  void end_thread() override;
  Status form(Bootstrap& bootstrap);

  Result<std::vector<std::string>> all_gather(std::string blob) override;
  void report(Failure failure) override;
  void on_failure(std::function<void(const Failure&)> handler) override;
  void tell(RefusedCall refusal) override;
  void on_refusal(std::function<void(const RefusedCall&)> handler) override;
  void after(std::chrono::milliseconds delay, std::function<void()> what) override;
  void set_activity(std::string text) override;
  std::string activity_of(Rank rank) const override;
  std::chrono::milliseconds silent_for(Rank rank) const override;
  bool hears_of(Rank rank) const override;
  void look_whether_ended(Rank rank) override;
  void on_ended(std::function<void(Rank)> handler) override;
  std::uint32_t leave_order(Rank rank) const override;
  void set_account(std::string account) override;
  void on_goodbye(std::function<void(Rank, const std::string&)> handler) override;
  void send_letter(Rank to, std::string text) override;
  void on_letter(std::function<void(Rank, std::string_view)> handler) override;
  std::string name_of(Rank rank) const override { return who(rank); }
  std::string host_of(Rank rank) const override;
  Status leave(std::chrono::milliseconds limit) override;
  std::uint64_t strangers() const override { return meeting_.strangers(); }
  std::vector<RankNews> ask_states(std::chrono::milliseconds limit) override;
  void on_question(std::function<void(std::uint64_t token)> handler) override;
  void give_state(std::uint64_t token, std::string state) override;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Link {
    enum class State : std::uint8_t {
      joined,   // nothing to be agreed
      asking,   // this rank has asked the peer to be its parent
      visiting  // the peer has come, and perhaps will ask this rank
    };
    Rank peer = -1;
    State state = State::joined;
    std::shared_ptr<FrameStream> stream;      // null until it is up, closed when it is over
    std::vector<FrameStream::Frame> waiting;  // said before it was up
    SteadyTime last_heard;
    bool silence_noted = false;
    // Of one that broke without a goodbye, or is silent:
    std::optional<Failure> accusation;  // it broke: what the peer is lost for, unless it comes back
    SteadyTime broken_since;
    bool was_closed = false;         // as by the kernel of a process that ends, and not reset on the way
    std::shared_ptr<void> knocking;  // a visit at the peer's door, or the pause before the next
    int knocks = 0;                  // since it broke, or was silent
    int turned_away = 0;             // so often
    bool is_open() const { return stream && stream->is_open(); }
    bool carries() const { return state == State::joined && is_open(); }
  };
  struct Identity {
    std::string host;
    std::uint32_t pid = 0;
    net::SocketAddress door;
  };

  struct Awaited {
    std::vector<Rank> ranks;
    std::string text;  ///< what of them is waited for
  };

  struct Silent {
    SteadyTime since;
    Rank observer = -1;  ///< who will say that it is back
  };

  // The control thread's.
  void run();
  void link_up(Rank peer, std::unique_ptr<net::Stream> stream);
  void refused_by_parent(const Status& why);
  bool on_frame(Link& link, std::uint8_t type, std::string_view payload);
  void on_end(Link& link, const std::string& why);
  void flood(control::Message type, std::string_view payload, Rank except);
  void learn(const Failure& failure, Rank from);
  bool now_known_to_have_ended(Rank rank);
  void deliver();
  void mark_left(const control::Goodbye& goodbye, Rank from);
  void mark_gone(Rank rank, Rank from);
  bool refused(const RefusedCall& refusal, std::string_view payload, Rank from);
  bool add_blob(control::Entry entry, Rank from);
  void tick();
  /// More between two ticks means that this process did not run.
  std::chrono::nanoseconds longest_turn() const;
  /// How long this process did not run, until a moment ago; else 0.
  std::chrono::nanoseconds stood_still() const;
  void watch_silence(Link& link, SteadyTime now);
  void heard_again(Link& link);
  void tell_silence(Rank rank, std::chrono::nanoseconds silent);
  bool silence_told(const control::Silence& silence, std::string_view payload, Rank from);
  void note_silence(const control::Silence& silence);
  void forget_silences_beyond(const Link& link);
  void forget_silences_told_by(Rank observer);
  void tell_activity();
  bool asked(const control::Question& question, std::string_view payload, Rank from);
  bool answered(control::Answer answer);
  bool carry(const control::Letter& letter, Rank from);
  void send_over(Rank peer, control::Message type, const std::string& payload);
  void send_towards(Rank rank, control::Message type, const std::string& payload);
  bool comes_by(const Link& link, Rank origin) const;
  void told_gone(Rank rank, Rank from);
  bool is_late(const control::Entry& entry) const;
  bool given_up(Rank rank) const { return firsts_.contains({0, rank}); }
  bool may_come_back(const Link& link) const;
  void sever(Link& link, Failure accusation, bool was_closed);
  bool is_quiet(const Link& link, SteadyTime now) const;
  void watch_severed(Link& link, SteadyTime now);
  void keep_knocking(Link& link);
  void knock(Link& link);
  void knock_again_later(Link& link);
  void knock_answered(Link& link, NeighbourMeeting::Found found, std::unique_ptr<net::Stream> stream);
  bool turned_away(Rank parent);
  void settle(Rank peer);
  void accuse(const Failure& accusation);
  void find_parent();
  void parent_found(Rank rank, NeighbourMeeting::Found found, std::unique_ptr<net::Stream> stream);
  void somebody_came(Rank peer, std::unique_ptr<net::Stream> stream);
  Link& open_link(Rank peer, std::unique_ptr<net::Stream> stream, Link::State state);
  bool on_agreement(Link& link, std::uint8_t type, std::string_view payload);
  void join(Link& link, Rank child, Rank parent);
  void tell_all_known(Link& link, Rank child);
  bool moved(const control::Moved& moved, std::string_view payload, Rank from);
  void look_after_orphans(SteadyTime now);
  void is_mute(Rank rank);
  void has_ended(Rank rank);
  void look_at_lost(Rank rank);
  void look_at_next();
  void looked_at_lost(Rank rank, NeighbourMeeting::Found found);
  void look_no_more(Rank rank);
  Failure why_given_up(Rank rank) const;
  Failure given_up_in_silence(Rank rank) const;
  void lost_in_silence(Rank rank);
  void stop();
  void end_if_closed();

  // With mutex_ held.
  Status status_of(const Failure& failure) const;
  std::string who_locked(Rank rank) const;
  bool is_neighbour_locked(Rank rank) const;
  std::vector<Rank> not_left_locked() const;
  Status lost_while_gathering_locked() const;

  std::string who(Rank rank) const;
  std::string listen_host(const Bootstrap& bootstrap) const;

  // While the tree forms, in the thread that starts it.
  struct Forming;
  Result<net::SocketAddress> address_of_parent(Forming& forming);
  Status wait_forming(Forming& forming, const std::function<bool()>& formed,
                      const std::function<Awaited()>& awaited_locked);
  Status not_yet(Forming& forming, const Awaited& awaited) const;
  Awaited links_awaited_locked(const Forming& forming) const;
  Awaited names_awaited_locked() const;

  const Config config_;
  const ControlOptions options_;
  const Log log_;
  const Rank self_;
  const Tree tree_;
  const std::string bind_host_;

  net::Loop loop_;
  // The neighbours, in the tree's order, then who came later. Never erased; a peer has a second one if it comes again
  // while the first seems to be up.
  std::list<Link> links_;
  NeighbourMeeting meeting_;
  std::set<std::pair<std::uint64_t, Rank>> firsts_;  // communicators that failed; 0 and a rank: that is lost
  std::vector<Failure> known_;                       // those, in their order
  std::vector<Failure> undelivered_;
  std::vector<control::Goodbye> goodbyes_heard_;         // in their order
  std::shared_ptr<void> search_;                         // for a parent: a visit, or the pause before the next
  int returns_ = 0;                                      // to parents whose connections broke
  SteadyTime last_return_;                               // of these
  std::set<Rank> asked_;                                 // in this round of the search
  std::map<Rank, std::shared_ptr<void>> looks_;          // at orphans
  std::map<Rank, std::shared_ptr<void>> looks_at_lost_;  // at those that have perhaps ended
  std::deque<Rank> to_look_at_;                          // those for whom there is no room yet, first come first
  std::map<Rank, std::shared_ptr<void>> look_pauses_;    // before the next look at one that did not answer
  std::map<Rank, int> looks_in_vain_;
  std::map<Rank, SteadyTime> orphans_;  // since when
  std::set<Rank> doubted_;              // said to have gone by ranks that are not believed
  std::map<Rank, SteadyTime> mute_;     // did not answer when looked for: since when
  std::shared_ptr<void> tick_timer_, stop_timer_;
  std::map<std::uint64_t, std::shared_ptr<void>> timers_;  // of after()
  std::uint64_t next_timer_ = 0;
  SteadyTime last_tick_;
  SteadyTime resumed_;               // the last time that it had been stopped
  std::chrono::nanoseconds stop_{};  // for so long
  bool heartbeat_due_ = true;
  bool stopping_ = false;
  bool ended_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Rank> unlinked_;  // of the neighbours at the start
  AllGather gather_;
  std::optional<Failure> lost_;  // the first failure of the whole engine
  std::function<void(const Failure&)> handler_;
  std::function<void(const RefusedCall&)> refusal_handler_;
  std::function<void(Rank, const std::string&)> goodbye_handler_;
  std::function<void(Rank, std::string_view)> letter_handler_;
  std::function<void(Rank)> ended_handler_;
  std::string account_;
  std::vector<Identity> identities_;
  std::vector<std::string> activities_;
  std::string own_activity_;
  bool activity_changed_ = false;
  std::map<Rank, Silent> silent_;
  std::vector<std::uint32_t> left_;  // the place of each goodbye among those heard; 0: none
  std::uint32_t goodbyes_ = 0;
  JoinedTree joined_;
  std::set<Rank> ended_ranks_;  ///< lost, and ended for certain; that they are gone may not be known here
  bool formed_ = false;
  bool leaving_ = false;
  std::string formation_error_;
  bool parent_refuses_ = false;  // nobody listens where it said that it would
  Status refused_;               // this rank and its parent do not accept each other
  std::function<void(std::uint64_t)> question_handler_;
  std::uint32_t question_number_ = 0;               ///< of the last question of this rank
  std::vector<std::optional<std::string>> states_;  ///< the answers to it
  std::size_t states_missing_ = 0;                  ///< of the ranks that could answer when it was asked
  std::vector<std::pair<Rank, SteadyTime>> heard_;  ///< of the open links, at the last tick
  std::mutex asking_;                               ///< one question at a time

  std::mutex gather_turn_;  // one all_gather at a time
  bool gather_broken_ = false;
  std::thread thread_;
};

/// ControlPlane::start with inner knobs.
Result<std::unique_ptr<ControlPlane>> start_control_plane(const Config& config, const std::string& secret,
                                                          Bootstrap& bootstrap, const Log& log,
                                                          const ControlOptions& options);

}  // namespace fabring
