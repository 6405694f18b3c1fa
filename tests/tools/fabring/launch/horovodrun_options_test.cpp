// Words of other launchers that `fabring run` takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(Run, TakesTheOptionsOfHorovodrun) {
  const auto result = run({"run",
                           "-np",
                           "2",
                           "-H",
                           "localhost:2",
                           "--verbose",
                           "--gloo",
                           "--start-timeout",
                           "30",
                           "--cycle-time-ms",
                           "5",
                           "--fusion-threshold-mb",
                           "32",
                           "--network-interfaces",
                           "lo",
                           "--timeline-filename",
                           "/t.json",
                           "--timeline-mark-cycles",
                           "--stall-check-warning-time-seconds",
                           "5",
                           "--stall-check-shutdown-time-seconds=0",
                           "sh",
                           "-c",
                           "echo $FABRING_RANK $FABRING_LOG $FABRING_RENDEZVOUS_TIMEOUT $FABRING_INTERFACE "
                           "$HOROVOD_FUSION_THRESHOLD $HOROVOD_TIMELINE $HOROVOD_TIMELINE_MARK_CYCLES "
                           "$HOROVOD_STALL_CHECK_TIME_SECONDS $HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre("0 info 30s lo 33554432 /t.json 1 5 0", "1 info 30s lo 33554432 /t.json 1 5 0"));
  EXPECT_THAT(result.err, HasSubstr("--gloo, --cycle-time-ms: no meaning here, ignored"));
}

TEST(Run, TheWordsOfOtherLaunchersAreItsOwnOnlyBeforeTheProgram) {
  for (const char* ranks : {"--np=2", "--num-proc=2", "-np=2"})
    EXPECT_EQ(run({"run", ranks, "echo", "ran"}).out, "ran\nran\n") << ranks;
  const auto dashes = run({"run", "--num-proc", "1", "--", "echo", "-np", "--np=3", "-hostfile"});
  EXPECT_EQ(dashes.out, "-np --np=3 -hostfile\n") << dashes.err;
  const auto none = run({"run", "-np", "1", "echo", "-np", "4", "--num-proc=3", "-hostfile", "F"});
  EXPECT_EQ(none.out, "-np 4 --num-proc=3 -hostfile F\n") << none.err;
}

TEST(Run, AVariableIsOneWordAndTheProgramFollows) {
  EXPECT_EQ(run({"run", "-n", "1", "-x", "A=1", "sh", "-c", "echo $A"}).out, "1\n");
  const auto options =
      run({"run", "-np", "2", "-x", "A=1", "--env", "B=2", "sh", "-c", "echo $A $B $@", "sh", "--option"});
  EXPECT_EQ(options.out, "1 2 --option\n1 2 --option\n") << options.err;
  EXPECT_EQ(run({"run", "-n", "1", "-x", "A=[b,c]", "sh", "-c", "echo $A"}).out, "[b,c]\n");
  EXPECT_THAT(lines(run({"run", "-n", "1", "-x", "[A=b,C=d]", "env"}).out), testing::Contains("[A=b,C=d]"));
}

TEST(Run, SaysWhyItTakesNoElasticOptions) {
  const auto result = run({"run", "-np", "2", "--min-np", "1", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--min-np"), HasSubstr("--restarts")));
}

// Every option of horovodrun 0.28.1 but those of the tests around, each before a program that says whether it runs.
TEST(Run, KnowsEveryOptionOfHorovodrun) {
  using Words = std::vector<std::string>;
  const auto run_with = [](Words words) {
    words.insert(words.begin(), {"run", "-n", "1"});
    words.insert(words.end(), {"sh", "-c", "echo ran"});
    return run(words);
  };
  for (const Words& taken : {Words{"-prefix-timestamp"},
                             {"--prefix-output-with-timestamp"},
                             {"--verbose"},
                             {"--log-level", "WARNING"},
                             {"-p", "22"},
                             {"-i", "key"},
                             {"--network-interface", "lo"}}) {
    const auto result = run_with(taken);
    EXPECT_THAT(result.out, HasSubstr("ran")) << taken[0] << ": " << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("no meaning"))) << taken[0];
  }
  for (const Words& noted : {Words{"--jsrun"},
                             {"--tcp"},
                             {"--mpi-args", "x"},
                             {"--binding-args", "x"},
                             {"--num-nccl-streams", "1"},
                             {"--thread-affinity", "0"},
                             {"--gloo-timeout-seconds", "30"},
                             {"--cache-capacity", "1024"},
                             {"--disable-cache"},
                             {"--autotune"},
                             {"--no-autotune"},
                             {"--autotune-log-file", "f"},
                             {"--autotune-warmup-samples", "3"},
                             {"--autotune-steps-per-sample", "10"},
                             {"--autotune-bayes-opt-max-samples", "20"},
                             {"--autotune-gaussian-process-noise", "0.8"},
                             {"--hierarchical-allreduce"},
                             {"--no-hierarchical-allreduce"},
                             {"--hierarchical-allgather"},
                             {"--no-hierarchical-allgather"},
                             {"--no-timeline-mark-cycles"},
                             {"--no-stall-check"},
                             {"--stall-check"},
                             {"--mpi-threads-disable"},
                             {"--no-mpi-threads-disable"},
                             {"--log-with-timestamp"},
                             {"--log-without-timestamp"},
                             {"--log-hide-timestamp"},
                             {"--no-log-hide-timestamp"}}) {
    const auto result = run_with(noted);
    EXPECT_EQ(result.out, "ran\n") << noted[0] << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(noted[0] + ": no meaning here, ignored"));
  }
  const std::pair<Words, const char*> refused[] = {
      {{"--output-filename", "d"}, "--tag-output"},    {{"--config-file", "f"}, "-x NAME=VALUE"},
      {{"--check-build"}, "fabring doctor"},           {{"-cb"}, "fabring doctor"},
      {{"--max-num-proc", "4"}, "--restarts"},         {{"--blacklist-cooldown-range", "1", "2"}, "--restarts"},
      {{"--host-discovery-script", "s"}, "--restarts"}};
  for (const auto& [words, instead] : refused) {
    const auto result = run_with(words);
    EXPECT_EQ(result.code, 2) << words[0];
    EXPECT_THAT(result.out, Not(HasSubstr("ran")));
    EXPECT_THAT(result.err, HasSubstr(instead)) << words[0];
  }
  EXPECT_THAT(run({"run", "-cb"}).err, HasSubstr("--check-build: there is one build"));  // it needs no program
}

TEST(Run, AWordOfHorovodrunThatIsWrongIsNamed) {
  EXPECT_THAT(run({"run", "-np", "1", "--log-level", "LOUD", "true"}).err, HasSubstr("--log-level LOUD is none of"));
}

}  // namespace
}  // namespace fabring::tests
