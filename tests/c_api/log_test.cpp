// The log of an engine, in the hands of the program.
#include <gmock/gmock.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Line {
  fabring_log_level level;
  std::int32_t rank;
  std::string text;
};

/// The lines of one engine, which come from several threads.
class Lines {
 public:
  void give_to(fabring_config* config) {
    fabring_error error = FABRING_ERROR_INIT;
    EXPECT_OK(fabring_config_set_log(config, &Lines::take, this, &error));
  }
  std::vector<Line> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  static void take(void* self, fabring_log_level level, std::int32_t rank, const char* text) {
    auto& into = *static_cast<Lines*>(self);
    const std::lock_guard lock(into.mutex_);
    into.lines_.push_back({level, rank, text});
  }

  mutable std::mutex mutex_;
  std::vector<Line> lines_;
};

void call_barrier(Rank self) {
  fabring_error error = FABRING_ERROR_INIT;
  EXPECT_OK(fabring_barrier(self.world, &error));
}

/// What two engines log from their start to their end.
std::array<std::vector<Line>, 2> lines_of_two(const Settings& settings, const std::function<void(Rank)>& rank_main) {
  std::array<Lines, 2> lines;
  run_ranks(2, rank_main, settings,
            [&](std::int32_t rank, fabring_config* config) { lines[static_cast<std::size_t>(rank)].give_to(config); });
  return {lines[0].all(), lines[1].all()};
}

TEST(Log, goes_to_the_function_of_the_configuration_with_level_and_rank) {
  testing::internal::CaptureStderr();
  const auto lines = lines_of_two({{"FABRING_LOG", "info"}}, call_barrier);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  for (std::int32_t rank : {0, 1}) {
    const std::vector<Line>& own = lines[static_cast<std::size_t>(rank)];
    EXPECT_THAT(own, Contains(AllOf(Field(&Line::level, FABRING_LOG_INFO), Field(&Line::text, HasSubstr("memory: ")))));
    EXPECT_THAT(own, Each(AllOf(Field(&Line::rank, rank), Field(&Line::text, Not(StartsWith("fabring"))))));
  }
}

TEST(Log, of_level_none_has_what_explain_asks_for_only) {
  const auto lines = lines_of_two({{"FABRING_LOG", "none"}, {"FABRING_EXPLAIN", "yes"}}, call_barrier);
  EXPECT_THAT(lines[0], Contains(Field(&Line::text, HasSubstr("memory: "))));
  EXPECT_THAT(lines[1], IsEmpty());
}

// Two roots of a small broadcast: both calls end well, and the engines say so when they leave.
TEST(Log, of_level_none_has_no_error_either) {
  for (const bool silent : {false, true}) {
    const auto lines = lines_of_two({{"FABRING_LOG", silent ? "none" : "error"}}, [](Rank self) {
      std::int32_t word = self.rank;
      (void)fabring_broadcast(self.world, &word, 1, FABRING_TYPE_INT32, self.rank, nullptr);
      (void)fabring_engine_leave(self.engine, nullptr);
    });
    const std::size_t errors = lines[0].size() + lines[1].size();
    EXPECT_EQ(errors == 0, silent) << errors;
  }
}

}  // namespace
}  // namespace fabring::c_api::tests
