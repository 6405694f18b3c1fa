#include "tests/support/sim_control.hpp"

namespace fabring::fixture {

class SimControlPlane final : public ControlPlane {
 public:
  SimControlPlane(SimControl& world, Rank rank) : world_(world), rank_(rank) {}
  ~SimControlPlane() override {
    world_.seats_[rank_].handler = nullptr;
    world_.seats_[rank_].refusal_handler = nullptr;
    world_.seats_[rank_].goodbye_handler = nullptr;
    world_.seats_[rank_].letter_handler = nullptr;
  }
  Result<std::vector<std::string>> all_gather(std::string) override {
    return Status(ErrorCode::unsupported, "a simulated world has nothing to gather");
  }
  void report(Failure failure) override {
    if (!world_.seats_[rank_].dead) world_.report(std::move(failure));
  }
  void on_failure(std::function<void(const Failure&)> handler) override {
    world_.seats_[rank_].handler = std::move(handler);
  }
  void tell(RefusedCall refusal) override {
    refusal.rank = rank_;
    world_.tell(std::move(refusal));
  }
  void on_refusal(std::function<void(const RefusedCall&)> handler) override {
    world_.seats_[rank_].refusal_handler = std::move(handler);
  }
  void on_goodbye(std::function<void(Rank, const std::string&)> handler) override {
    world_.seats_[rank_].goodbye_handler = std::move(handler);
  }
  void send_letter(Rank to, std::string letter) override { world_.carry(rank_, to, std::move(letter)); }
  void on_letter(std::function<void(Rank, std::string_view)> handler) override {
    world_.seats_[rank_].letter_handler = std::move(handler);
  }
  void after(std::chrono::milliseconds delay, std::function<void()> what) override {
    world_.timeline_.after(delay, [&world = world_, rank = rank_, what = std::move(what)] {
      if (!world.seats_[rank].dead) what();
    });
  }
  void set_activity(std::string text) override { world_.seats_[rank_].activity = std::move(text); }
  std::string activity_of(Rank rank) const override { return world_.seats_[rank].activity; }
  std::uint32_t leave_order(Rank rank) const override { return world_.seats_[rank].left; }
  std::chrono::milliseconds silent_for(Rank rank) const override {
    return std::chrono::seconds(world_.silent.count(rank) != 0 ? 5 : 0);
  }
  std::string host_of(Rank rank) const override { return "host" + std::to_string(rank); }
  Status leave(std::chrono::milliseconds) override { return {}; }  // called from a thread of the engine
  std::uint64_t strangers() const override { return 0; }

 private:
  SimControl& world_;
  const Rank rank_;
};

SimControl::SimControl(Timeline& timeline, int ranks) : timeline_(timeline), seats_(ranks) {}
SimControl::~SimControl() = default;

std::unique_ptr<ControlPlane> SimControl::open(Rank rank) { return std::make_unique<SimControlPlane>(*this, rank); }

void SimControl::say_goodbye(Rank rank, const std::string& account) {
  for (Rank other = 0; other < static_cast<Rank>(seats_.size()); ++other)
    if (other != rank && seats_[other].goodbye_handler) seats_[other].goodbye_handler(rank, account);
  seats_[rank].left = ++goodbyes_;
}

void SimControl::report(Failure failure) {
  timeline_.after(timeline_.between(Time(0), most_delay), [this, failure = std::move(failure)] { decide(failure); });
}

void SimControl::tell(RefusedCall refusal) {
  if (seats_[refusal.rank].dead) return;
  refusals_.push_back(refusal);
  for (Rank rank = 0; rank < static_cast<Rank>(seats_.size()); ++rank) {
    if (rank == refusal.rank) continue;
    Time& last = seats_[rank].told_until;  // never in another order
    last = std::max(last, timeline_.now() + timeline_.between(Time(0), most_delay));
    timeline_.at(last, [this, rank, refusal] {
      Seat& seat = seats_[rank];
      if (!seat.dead && seat.refusal_handler) seat.refusal_handler(refusal);
    });
  }
}

void SimControl::carry(Rank from, Rank to, std::string letter) {
  if (seats_[from].dead) return;
  ++letters_;
  Time& last = seats_[to].told_until;  // never in another order
  last = std::max(last, timeline_.now() + timeline_.between(Time(0), most_delay));
  timeline_.at(last, [this, from, to, letter = std::move(letter)] {
    Seat& seat = seats_[to];
    if (!seat.dead && seat.letter_handler) seat.letter_handler(from, letter);
  });
}

void SimControl::decide(const Failure& failure) {
  if (known_.count({0, failure.reporter}) != 0) return;  // who is given up is not believed
  if (!known_.insert({failure.communicator, failure.communicator == 0 ? failure.culprit : -1}).second) return;
  failures_.push_back(failure);
  for (Rank rank = 0; rank < static_cast<Rank>(seats_.size()); ++rank)
    timeline_.after(timeline_.between(Time(0), most_delay), [this, rank, failure] { deliver(rank, failure); });
}

void SimControl::deliver(Rank rank, const Failure& failure) {
  Seat& seat = seats_[rank];
  if (seat.dead || !seat.handler) return;
  if (seat.pauses % 2 == 1 || held_) {
    seat.kept.push_back(failure);
    return;
  }
  timeline_.note(100, rank, static_cast<std::uint64_t>(failure.code), failure.communicator);
  seat.handler(failure);
}

void SimControl::kill(Rank rank) {
  seats_[rank].dead = true;
  report({ErrorCode::peer_lost, rank, -1, 0,
          "rank " + std::to_string(rank) + " died: its control connection closed without goodbye", true});
}

void SimControl::pause(Rank rank) {
  const auto mine = ++seats_[rank].pauses;
  timeline_.after(silence, [this, rank, mine] {
    if (seats_[rank].pauses == mine)
      report({ErrorCode::peer_lost, rank, -1, 0, "rank " + std::to_string(rank) + " has been silent for too long"});
  });
}

void SimControl::resume(Rank rank) {
  ++seats_[rank].pauses;
  deliver_kept(rank);
}

void SimControl::let_news_go() {
  held_ = false;
  for (Rank rank = 0; rank < static_cast<Rank>(seats_.size()); ++rank) deliver_kept(rank);
}

void SimControl::deliver_kept(Rank rank) {
  std::vector<Failure> kept;
  kept.swap(seats_[rank].kept);
  for (const Failure& failure : kept) deliver(rank, failure);
}

}  // namespace fabring::fixture
