// The monitored barrier: by the store, not by the network, as it is asked for when something is stuck there. Rank 0
// waits for the others and tells them its verdict: who did not come.

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "failure.hpp"
#include "group.hpp"
#include "hearing.hpp"
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

// What every other rank does. `was_missing`: in the barrier before.
void report_to_rank_0(const StoreKeys& keys, int rank, std::chrono::milliseconds limit, bool was_missing) {
  constexpr std::chrono::milliseconds time_for_the_verdict(5000);  // longer than rank 0 waits
  const std::string reached =
      c10::str("[Rank ", rank, "]: Rank ", rank, " successfully reached monitoredBarrier, but ");
  keys.put(arrival_key(rank), "here");
  if (!keys.wait(verdict_key, limit + time_for_the_verdict))
    raise_lost(c10::str(reached, "rank 0 did not answer within ", (limit + time_for_the_verdict).count(), " ms",
                        was_missing ? "; the one before this is over, as rank 0 gave up waiting for this rank" : "",
                        "; look at rank 0's output"));
  const std::string verdict = keys.get(verdict_key);
  say_heard(keys.store(), keys.name(hearing_key(rank)));
  if (!verdict.empty()) raise_lost(reached + "received errors while waiting for send/recv from rank 0: " + verdict);
}

// Who comes within `limit`; unless `wait_for_all`, up to the first who does not.
Attendance collect(const StoreKeys& keys, int size, std::chrono::milliseconds limit, bool wait_for_all) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto left = [deadline] {
    const auto time = deadline - std::chrono::steady_clock::now();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(time), std::chrono::milliseconds(1));
  };
  Attendance found;
  for (int rank = 1; rank < size && (wait_for_all || found.missing.empty()); ++rank)
    (keys.wait(arrival_key(rank), left()) ? found.came : found.missing).push_back(rank);
  return found;
}

std::string verdict_text(const std::vector<int>& missing, std::chrono::milliseconds limit) {
  if (missing.empty()) return "";
  return c10::str(limit == kNoTimeout ? "Rank 0 timed out in monitoredBarrier: it was given no time to wait. " : "",
                  missing.size() == 1 ? "Rank " : "Ranks ", c10::Join(", ", missing),
                  " failed to pass monitoredBarrier in ", limit.count(), " ms");
}

void tell(const StoreKeys& keys, const std::string& verdict, const std::vector<int>& ranks) {
  keys.put(verdict_key, verdict);
  std::vector<std::string> heard;
  for (const int rank : ranks) heard.push_back(keys.name(hearing_key(rank)));
  wait_until_heard(keys.store(), heard);
}

void forget(const StoreKeys& keys, int size) {
  keys.erase(verdict_key);
  for (int rank = 1; rank < size; ++rank) {
    keys.erase(arrival_key(rank));
    keys.erase(hearing_key(rank));
  }
}

}  // namespace

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const std::string id = group()->id();
  const auto limit = options.timeout >= kNoTimeout ? options.timeout : timeout_.load();
  const auto store = request_.store->clone();  // others may use it meanwhile
  const auto keys_of = [&](std::uint64_t number) {
    return StoreKeys(store, c10::str("fabring/monitored/", id, "/", number, "/"));
  };
  std::uint64_t number = monitored_.fetch_add(1);
  if (rank_ != 0) {
    const std::uint64_t first = number;
    // A rank that was missing joins the next one, not one that is over.
    while (keys_of(number).wait(verdict_key, std::chrono::milliseconds(0))) number = monitored_.fetch_add(1);
    return report_to_rank_0(keys_of(number), rank_, limit, number != first);
  }
  const Attendance found = collect(keys_of(number), size_, limit, wait_for_all);
  const std::string verdict = verdict_text(found.missing, limit);
  tell(keys_of(number), verdict, found.came);
  if (!verdict.empty()) raise_lost("[Rank 0]: " + verdict);
  // All ranks have come to this one, so none asks for those before it any more.
  try {
    for (std::uint64_t before = monitored_kept_.exchange(number); before < number; ++before)
      forget(keys_of(before), size_);
  } catch (const std::exception&) {  // a store that cannot, or is lost: what the ranks came for is done
  }
}

}  // namespace fabring_torch
