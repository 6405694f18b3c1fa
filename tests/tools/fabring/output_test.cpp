// What the subcommands write to files: refused before the work, touched only when there is something to write.

#include "tools/fabring/output.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class OutputFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "fabring-output-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ / name; }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  fs::path folder_;
};

TEST_F(OutputFile, KeepsWhatItHasUntilSomethingIsWritten) {
  std::ofstream(at("old")) << "what was there before";
  {
    tools::Output out;
    ASSERT_TRUE(out.open(at("old")).ok());
  }
  EXPECT_EQ(text_of(at("old")), "what was there before");
  tools::Output out;
  ASSERT_TRUE(out.open(at("old")).ok());
  out.write("new, ");
  out.write("shorter");
  EXPECT_TRUE(out.finish().ok());
  EXPECT_EQ(text_of(at("old")), "new, shorter");
}

TEST_F(OutputFile, IsNotLeftBehindEmpty) {
  {
    tools::Output out;
    ASSERT_TRUE(out.open(at("new")).ok());
  }
  EXPECT_FALSE(fs::exists(at("new")));
}

// Its reader takes the first who closes it for the end: then it is gone, and who opens the pipe next waits for ever.
TEST_F(OutputFile, ThatIsANamedPipeIsOpenedOnce) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"perf", "allreduce", "-n", "2", "-b", "4", "-e", "64", "--format", "json"},
        {"doctor", "net", "-n", "2", "--json"},
        {"doctor", "bench", "-n", "2", "--json", "--measure-ms", "1"}}) {
    SCOPED_TRACE(testing::PrintToString(command));
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--output", at("pipe")});
    Program program(words);
    // Opens as soon as somebody writes, and reads until nobody does, as `cat` does. The program's end is looked at too,
    // so that a program that never opens the pipe does not keep the test.
    const int reader = ::open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    std::string text;
    bool opened = false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (bool over = false; !over && std::chrono::steady_clock::now() < deadline;) {
      pollfd door{reader, POLLIN, 0};
      if (::poll(&door, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t count = ::read(reader, bytes, sizeof bytes);
      opened = opened || count > 0 || (door.revents & POLLHUP) != 0;
      if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
      over = count == 0 && (door.revents & POLLHUP) != 0;
    }
    ::close(reader);
    EXPECT_TRUE(opened);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    if (text.empty()) program.signal(SIGKILL);
    EXPECT_NE(program.wait().code, -1);
    ::unlink(at("pipe").c_str());
  }
}

TEST_F(OutputFile, ThatIsFullIsAnErrorWithItsOption) {
  tools::Output out;
  ASSERT_TRUE(out.open("/dev/full", "--plot").ok());
  out.write("a");
  EXPECT_THAT(out.finish().message(), HasSubstr("--plot /dev/full: cannot write: No space left"));
}

// The number of a closed stream is the next that is given out: a socket would get what is meant for the caller.
TEST(ClosedStream, IsAnErrorWhereSomethingIsToBePrinted) {
  const auto under_a_shell = [](const std::string& line) {
    return run(
        {"run", "-n", "1", "--", "sh", "-c", "unset FABRING_RANK FABRING_WORLD_SIZE; \"$0\" " + line, FABRING_CLI});
  };
  EXPECT_THAT(under_a_shell("run -n 2 -- echo hello >&-").err,
              HasSubstr("what the ranks print cannot be written: stdout or stderr is closed"));
  EXPECT_THAT(under_a_shell("simulate allreduce --nodes 4 >&-").err, HasSubstr("stdout: cannot write: Bad file desc"));
  EXPECT_EQ(under_a_shell("run -n 2 -- sh -c 'read line || echo end' <&-").out, "end\nend\n");
}

TEST(FullDisk, IsAnErrorForHelpAndVersionToo) {
  for (const std::string line : {"--version", "--help", "help run", "plan --help"}) {
    const auto result = run({"run", "-n", "1", "--", "sh", "-c", "\"$0\" " + line + " > /dev/full", FABRING_CLI});
    EXPECT_EQ(result.code, 3) << line;
    EXPECT_THAT(result.err, HasSubstr("fabring: stdout: cannot write: No space left on device")) << line;
  }
}

// Each would have something to say first, were it asked later: no job runs here, the world is too large to be quick.
TEST_F(OutputFile, ThatCannotBeWrittenIsRefusedBeforeTheWork) {
  const std::string bad = at("no/such/folder");
  const std::vector<std::string> commands[] = {
      {"status", "--output"},
      {"doctor", "hang", "--output"},
      {"doctor", "host", "--output"},
      {"doctor", "explain", "no such word", "--output"},
      {"doctor", "net", "-n", "2", "--output"},
      {"doctor", "bench", "-n", "2", "--output"},
      {"doctor", "bench", "-n", "2", "--svg"},
      {"perf", "allreduce", "-n", "2", "--output"},
      {"perf", "allreduce", "-n", "2", "--plot"},
      {"plan", "allreduce", "-n", "4096", "--output"},
      {"settings", "--output"},
      {"simulate", "allreduce", "--scale", "131072", "--output"},
      {"simulate", "allreduce", "--scale", "131072", "--plot"},
      {"simulate", "allreduce", "--nodes", "64", "--links"},
      {"topo", "--output"},
      {"topo", "--svg"},
  };
  for (std::vector<std::string> words : commands) {
    const std::string option = words.back();
    words.push_back(bad);
    const auto result = run(words);
    EXPECT_EQ(result.code, 3) << words.front() << ' ' << option;
    EXPECT_THAT(result.err, HasSubstr(option + " " + bad + ": cannot write: No such file or directory"));
    EXPECT_EQ(lines(result.err).size(), 1U) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(OutputFile, OfAPictureIsNotStdoutWhereTheReportIs) {
  const std::vector<std::string> commands[] = {{"perf", "allreduce", "-n", "2", "--plot", "-"},
                                               {"perf", "allreduce", "-n", "2", "--json", "--plot", "-"},
                                               {"doctor", "bench", "-n", "2", "--output", "-", "--svg", "-"},
                                               {"topo", "--svg", "-"},
                                               {"topo", "--json", "--svg", "-"},
                                               {"simulate", "allreduce", "--plot", "-"}};
  for (const std::vector<std::string>& words : commands) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2) << words.front();
    EXPECT_THAT(result.err, HasSubstr(words[words.size() - 2] + " -: stdout is for the "));
    EXPECT_EQ(result.out, "");
  }
  const auto drawn = run({"topo", "--svg", "-", "--output", at("report")});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(drawn.out.substr(0, 4), "<svg");
  EXPECT_THAT(text_of(at("report")), testing::Not(HasSubstr("<svg")));
}

TEST_F(OutputFile, OfAWrongCommandLineIsNotTouched) {
  std::ofstream(at("old")) << "precious";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan", "allreduce", "-n", "4", "--algorithm", "rng", "--output", at("old")},
        {"simulate", "allreduce", "--scale", "9", "--output", at("old"), "--plot", at("plot")},
        {"perf", "allreduce", "-n", "2", "-d", "float33", "--output", at("old")},
        {"topo", "--input", at("none"), "--output", at("old"), "--svg", at("plot")}}) {
    EXPECT_NE(run(words).code, 0);
    EXPECT_EQ(text_of(at("old")), "precious") << words.front();
    EXPECT_FALSE(fs::exists(at("plot")));
  }
}

// A grace longer than this test's patience: whoever waited for rank 0 to come would not end in time.
TEST_F(OutputFile, OfRank0ThatCannotBeWrittenEndsAllRanks) {
  const std::string bad = at("no/such/folder");
  for (std::vector<std::string> words : {std::vector<std::string>{"perf", "allreduce", "--output"},
                                         {"perf", "allreduce", "--plot"},
                                         {"doctor", "bench", "--output"},
                                         {"doctor", "net", "--output"}}) {
    words.insert(words.begin(), {"run", "-n", "3", "--grace", "600s", "--", FABRING_CLI});
    words.push_back(bad);
    const auto result = run(words);
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr(bad + ": cannot write: No such file or directory"));
  }
}

}  // namespace
}  // namespace fabring::tests
