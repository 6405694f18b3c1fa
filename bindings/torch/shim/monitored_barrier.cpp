// The monitored barrier: by the store, not by the network, as it is asked for when something is stuck there. Rank 0
// waits for the others and tells them its verdict: who did not come, or that the group has ended, which all ranks hear
// of by their engines too.

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "failure.hpp"
#include "group.hpp"
#include "hearing.hpp"
#include "lost_store.hpp"
#include "polling.hpp"
#include "process_group.hpp"
#include "store_keys.hpp"

namespace fabring_torch {
namespace {

constexpr const char* verdict_key = "verdict";  // empty: all have come

std::string arrival_key(int rank) { return std::to_string(rank); }

// Of a rank that has read the verdict.
std::string hearing_key(int rank) { return c10::str("heard/", rank); }

struct Attendance {
  std::vector<int> came, missing;
};

// What the engine says of the group meanwhile: a death is known there at once, in the store never.
class Health {
 public:
  explicit Health(const Group& group) : comm_(group.comm()) { look(); }

  void look() {
    fabring_error error = FABRING_ERROR_INIT;
    if (fabring_comm_health(comm_, &error) != FABRING_STATUS_OK) ended_ = "the group has ended: " + text_of(error);
  }

  /// Why; empty while the group can be used.
  const std::string& ended() const { return ended_; }

 private:
  const fabring_comm* const comm_;
  std::string ended_;
};

std::string reached_text(int rank) {
  return c10::str("[Rank ", rank, "]: Rank ", rank, " successfully reached monitoredBarrier, but ");
}

// Until one of the keys is missing no more, time is over or the group has ended. Whoever was told by a rank that has
// left since, and so ended the group, was told all the same: the keys are asked once more after that.
bool wait_for(const StoreKeys& keys, const std::vector<std::string>& names, std::chrono::milliseconds limit,
              Health& health) {
  std::vector<std::string> full;
  for (const std::string& name : names) full.push_back(keys.name(name));
  Polling polling(limit, [&health] { health.look(); });
  bool there = full.empty() || keys.store().check(full);
  while (!there && health.ended().empty() && polling.again()) there = keys.store().check(full);
  return there;
}

// What every other rank does. `before`: the verdict of the last barrier that was over when this rank came.
void report_to_rank_0(const StoreKeys& keys, int rank, std::chrono::milliseconds limit, const std::string& before,
                      Health& health) {
  constexpr std::chrono::milliseconds time_for_the_verdict(5000);  // longer than rank 0 waits
  keys.put(arrival_key(rank), "here");
  const bool told = wait_for(keys, {verdict_key}, limit + time_for_the_verdict, health);
  const std::string verdict = told ? keys.get(verdict_key) : "";
  if (told || !health.ended().empty()) say_heard(keys.store(), keys.name(hearing_key(rank)));
  if (told && verdict.empty()) return;
  const std::string earlier = before.empty() ? "" : "; the one before was over when this rank came: " + before;
  if (told) raise_lost(reached_text(rank) + "received errors while waiting for send/recv from rank 0: " + verdict);
  if (!health.ended().empty()) raise_lost(reached_text(rank) + health.ended() + earlier);
  raise_lost(c10::str(reached_text(rank), "rank 0 did not answer within ", (limit + time_for_the_verdict).count(),
                      " ms", earlier, "; look at rank 0's output"));
}

// Who comes within `limit`, or until the group has ended.
Attendance collect(const StoreKeys& keys, int size, std::chrono::milliseconds limit, Health& health) {
  std::vector<std::string> arrivals;
  for (int rank = 1; rank < size; ++rank) arrivals.push_back(arrival_key(rank));
  const bool all = wait_for(keys, arrivals, limit, health);
  Attendance found;
  for (int rank = 1; rank < size; ++rank)
    (all || keys.wait(arrival_key(rank), std::chrono::milliseconds(0)) ? found.came : found.missing).push_back(rank);
  return found;
}

// Of those who are missing it names the first, and all of them if it was to `wait_for_all`.
std::string verdict_text(std::vector<int> missing, std::chrono::milliseconds limit, bool wait_for_all,
                         const Health& health) {
  if (missing.empty()) return "";
  if (!health.ended().empty()) return "monitoredBarrier cannot be passed: " + health.ended();
  if (!wait_for_all) missing.resize(1);
  return c10::str(limit == kNoTimeout ? "Rank 0 timed out in monitoredBarrier: it was given no time to wait. " : "",
                  missing.size() == 1 ? "Rank " : "Ranks ", c10::Join(", ", missing),
                  " failed to pass monitoredBarrier in ", limit.count(), " ms");
}

// `lost`: the rank that will not hear it any more, or -1.
void tell(const StoreKeys& keys, const std::string& verdict, const std::vector<int>& ranks, int lost) {
  keys.put(verdict_key, verdict);
  std::vector<std::string> heard;
  for (const int rank : ranks)
    if (rank != lost) heard.push_back(keys.name(hearing_key(rank)));
  wait_until_heard(keys.store(), heard);
}

void forget(const StoreKeys& keys, int size) {
  try {
    keys.erase(verdict_key);
    for (int rank = 1; rank < size; ++rank) {
      keys.erase(arrival_key(rank));
      keys.erase(hearing_key(rank));
    }
  } catch (const std::exception&) {  // a store that cannot, or is lost: what the ranks came for is done
  }
}

// The store may have gone with a rank, of which the engine hears at about the same time: then that is the news.
[[noreturn]] void raise_lost_store(const GroupRequest& request, Health& health, const std::exception& thrown) {
  Polling polling(std::chrono::seconds(1), [] {});
  do health.look();
  while (health.ended().empty() && polling.again());
  if (!health.ended().empty()) raise_lost(reached_text(request.rank) + health.ended());
  throw c10::DistNetworkError(
      {"fabring", __FILE__, 0},
      c10::str("fabring: group '", request.name, "': monitoredBarrier: ", failed_store_text(*request.store, thrown)));
}

}  // namespace

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const auto group = this->group();
  const auto limit = options.timeout >= kNoTimeout ? options.timeout : timeout_.load();
  Health health(*group);
  if (!health.ended().empty()) raise_lost(reached_text(rank_) + health.ended());
  try {
    const auto store = request_.store->clone();  // others may use it meanwhile
    const auto keys_of = [&](std::uint64_t number) {
      return StoreKeys(store, c10::str("fabring/monitored/", group->id(), "/", number, "/"));
    };
    std::uint64_t number = monitored_.fetch_add(1);
    if (rank_ != 0) {
      std::string before;
      // A rank that was missing joins the next one, not one that is over.
      for (; keys_of(number).wait(verdict_key, std::chrono::milliseconds(0)); number = monitored_.fetch_add(1))
        before = keys_of(number).get(verdict_key);
      return report_to_rank_0(keys_of(number), rank_, limit, before, health);
    }
    const Attendance found = collect(keys_of(number), size_, limit, health);
    const std::string verdict = verdict_text(found.missing, limit, wait_for_all, health);
    tell(keys_of(number), verdict, found.came, health.ended().empty() ? -1 : lost_rank());
    if (!verdict.empty()) raise_lost("[Rank 0]: " + verdict);
    // All ranks have come to this one, so none asks for those before it any more.
    for (std::uint64_t before = monitored_kept_.exchange(number); before < number; ++before)
      forget(keys_of(before), size_);
  } catch (const c10::DistNetworkError& thrown) {
    raise_lost_store(request_, health, thrown);
  }
}

}  // namespace fabring_torch
