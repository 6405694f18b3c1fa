// Stores of the program that throw, or answer what is no answer.

#include <gmock/gmock.h>

#include <stdexcept>

#include "fabring/communicator.hpp"

namespace fabring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Fault { throws, throws_a_number, answers_nothing, answers_internal, is_away };

class FaultyStore final : public Store {
 public:
  FaultyStore(Fault fault, bool puts) : fault_(fault), puts_(puts) {}
  Status put(const std::string&, const std::string&) override { return puts_ ? Status() : fail(); }
  Result<std::string> get(const std::string&, std::chrono::nanoseconds) override {
    return puts_ ? fail() : Status(ErrorCode::timeout, "not yet");
  }

 private:
  Status fail() const {
    switch (fault_) {
      case Fault::throws:
        throw std::runtime_error("connection reset");
      case Fault::throws_a_number:
        throw 42;  // NOLINT: as bad as it gets
      case Fault::answers_nothing:
        return {};
      case Fault::answers_internal:
        return {ErrorCode::internal, "a bug of the store's"};
      case Fault::is_away:
        return {ErrorCode::unavailable, "redis went away"};
    }
    return {};
  }

  Fault fault_;
  bool puts_;
};

Config one_of_two(int rank) {
  Config config;
  config.rank = rank;
  config.world_size = 2;
  config.transport = "tcp";
  return config;
}

struct Meant {
  Fault fault;
  ErrorCode code;
  const char* text;
};

TEST(StoreOfTheProgram, fails_the_engine_with_its_key_whatever_it_does) {
  const Meant all[] = {{Fault::throws, ErrorCode::unavailable, "threw an exception (connection reset)"},
                       {Fault::throws_a_number, ErrorCode::unavailable, "threw an exception of unknown type"},
                       {Fault::answers_nothing, ErrorCode::invalid_argument, "answered neither a value nor an error"},
                       {Fault::answers_internal, ErrorCode::unavailable, "failed: a bug of the store's"},
                       {Fault::is_away, ErrorCode::unavailable, "failed: redis went away"}};
  for (const Meant& meant : all)
    for (const int rank : {0, 1})
      for (const bool puts : {true, false}) {
        if (!puts && meant.fault == Fault::answers_nothing) continue;  // of a put that is a success
        FaultyStore store(meant.fault, puts);
        const auto engine = Engine::create(one_of_two(rank), store);
        ASSERT_FALSE(engine.has_value()) << meant.text;
        EXPECT_EQ(engine.error().code(), meant.code) << engine.error().message();
        EXPECT_THAT(engine.error().message(),
                    AllOf(HasSubstr(std::string("the program's store: its ") + (puts ? "get" : "put") + " of 'join/"),
                          HasSubstr(meant.text)));
      }
}

TEST(StoreOfTheProgram, that_throws_fails_a_decline) {
  FaultyStore store(Fault::throws, false);
  const Status declined = Engine::decline(store, 1, Status(ErrorCode::invalid_argument, "no"));
  EXPECT_EQ(declined.code(), ErrorCode::unavailable);
  EXPECT_THAT(declined.message(), HasSubstr("the program's store: its put of 'failed' threw an exception"));
}

}  // namespace
}  // namespace fabring
