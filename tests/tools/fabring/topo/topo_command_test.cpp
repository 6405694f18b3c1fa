#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/fabring/program.hpp"
#include "tests/topology/machine_xml.hpp"
#include "tools/fabring/topo/topo_report.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

class TopoCommand : public testing::Test {
 protected:
  ~TopoCommand() override {
    for (const std::string& file : files_) ::unlink(file.c_str());
  }
  std::string file(std::string path) { return files_.emplace_back(std::move(path)); }
  std::string temporary(const std::string& name) {
    return file(testing::TempDir() + name + "-" + std::to_string(::getpid()));
  }
  std::vector<std::string> files_;
};

TEST_F(TopoCommand, SaysWhichCardServesWhichGpu) {
  const auto result = run({"topo", "--input", file(machine_file(p5_like()))});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("GPU 7  0001:40:00.0  -> rdmap321s28, rdmap322s29, rdmap323s30, rdmap324s31"));
  EXPECT_THAT(result.out, HasSubstr("8 GPUs, 33 NICs"));
  for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(TopoCommand, ExplainsWhyACardServesAGpuAndWhyAnotherServesNobody) {
  const std::string machine = file(machine_file(p5_like()));
  const auto result = run({"topo", "--explain", "--input", machine});
  EXPECT_EQ(result.code, 0) << result.err;
  std::string flat;
  for (const std::string& line : lines(result.out.substr(std::min(result.out.find("\nWhy:\n"), result.out.size()))))
    flat += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
  EXPECT_THAT(flat, HasSubstr("GPU 7 uses rdmap321s28, rdmap322s29, rdmap323s30, rdmap324s31: no card is nearer (same "
                              "PCI switch)"));
  EXPECT_THAT(flat,
              HasSubstr("eth0 serves nobody: instead of it there are 32 cards, since EFA and InfiniBand go before"));
  for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 80u) << line;
  const auto json = run({"topo", "--explain", "--json", "--input", machine});
  EXPECT_TRUE(nlohmann::json::accept(json.out));
  EXPECT_THAT(json.err, HasSubstr("GPU 7 uses"));
}

TEST_F(TopoCommand, SaysHowFarEachCardIsFromEachGpuAndWhichWayItsMemoryTakes) {
  const auto result = run({"topo", "--input", file(machine_file(p5_like()))});
  std::string flat;
  for (const std::string& line : lines(result.out))
    flat += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
  EXPECT_THAT(flat, HasSubstr("GPU 7  same PCI switch: rdmap321s28, rdmap322s29, rdmap323s30, rdmap324s31 (direct);"));
  EXPECT_THAT(flat, HasSubstr("16 cards (direct)"));
  EXPECT_THAT(flat, HasSubstr("eth0 (staged)"));
  const auto json =
      nlohmann::ordered_json::parse(run({"topo", "--json", "--input", file(machine_file(p4d_like()))}).out);
  EXPECT_EQ(json["gpus"][2]["memory_path"], "direct");
  for (const auto& card : json["gpus"][2]["cards"])
    EXPECT_EQ(card["path"], card["label"] == "eth0" ? "staged" : "direct") << card;
  EXPECT_EQ(json["gpus"][2]["cards"][1]["proximity"], "same PCI switch");
}

TEST_F(TopoCommand, SaysWhatIsPricedBetweenHostsLikeThis) {
  const auto said_of = [&](const MachineSketch& host) {
    const auto json = nlohmann::ordered_json::parse(run({"topo", "--json", "--input", file(machine_file(host))}).out);
    return json["machine"].get<std::string>();
  };
  EXPECT_EQ(said_of(p4d_like()), "efa, 4 cards of 100 Gbit/s (as stated)");
  EXPECT_EQ(said_of(p5_like()), "efa, 32 cards of 100 Gbit/s (as stated)");
  EXPECT_EQ(said_of(small_container()), "") << "sockets";
  const auto text = run({"topo", "--input", file(machine_file(p4d_like()))}).out;
  EXPECT_THAT(text, HasSubstr("priced for efa, 4 cards"));
  EXPECT_THAT(run({"topo", "--input", file(machine_file(small_container()))}).out, testing::Not(HasSubstr("priced")));
}

TEST_F(TopoCommand, SaysWhichProcessorsAContainerMayNotUse) {
  const auto result = run({"topo", "--input", file(machine_file(small_container()))});
  EXPECT_THAT(result.out, HasSubstr("2 of 64"));
  EXPECT_THAT(result.out, HasSubstr("none of its processors may be used here"));
}

TEST_F(TopoCommand, WritesJson) {
  const auto result = run({"topo", "--json", "--input", file(machine_file(p4d_like()))});
  const auto json = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(json["gpus"].size(), 8u);
  EXPECT_EQ(json["gpus"][2]["rails"], nlohmann::ordered_json::array({"rdmap34s1"}));
  EXPECT_EQ(json["gpus"][2]["proximity"], "same PCI switch");
  EXPECT_EQ(json["nics"][1]["serves_gpus"], nlohmann::ordered_json::array({2, 3}));
  EXPECT_TRUE(json["recorded"]);
}

TEST_F(TopoCommand, RecordsThisHostAndShowsItAgain) {
  const std::string saved = temporary("here.xml");
  const auto here = run({"topo", "--json", "--save", saved});
  ASSERT_EQ(here.code, 0) << here.err;
  const auto again = run({"topo", "--json", "--input", saved});
  ASSERT_EQ(again.code, 0) << again.err;
  auto expected = nlohmann::ordered_json::parse(here.out), found = nlohmann::ordered_json::parse(again.out);
  EXPECT_TRUE(found["recorded"]);
  EXPECT_EQ(found["cpus"], expected["cpus"]);
  EXPECT_EQ(found["nics"].size(), expected["nics"].size());
}

// What came last stayed.
TEST_F(TopoCommand, WritesNoTwoThingsToOneFile) {
  const std::string file = testing::TempDir() + "topo_twice_" + std::to_string(::getpid());
  for (const auto& [one, other] : {std::pair{"--svg", "--output"}, {"--save", "--output"}, {"--svg", "--save"}}) {
    const auto result = run({"topo", one, file, other, file});
    EXPECT_EQ(result.code, 2) << one << " and " << other;
    EXPECT_THAT(result.err, AllOf(HasSubstr(one), HasSubstr(other), HasSubstr("name the same file")));
    EXPECT_FALSE(std::ifstream(file)) << "nothing is written";
    std::remove(file.c_str());
  }
}

TEST_F(TopoCommand, DrawsEveryDevice) {
  const std::string picture = temporary("picture.svg");
  ASSERT_EQ(run({"topo", "--svg", picture, "--input", file(machine_file(p5_like()))}).code, 0);
  std::ifstream in(picture);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(text, testing::StartsWith("<svg "));
  for (const char* label : {"GPU 0", "GPU 7", "rdmap17s0", "rdmap324s31", "eth0", "NUMA node 1"})
    EXPECT_THAT(text, HasSubstr(std::string(">") + label + "<"));
  std::size_t ribbons = 0;
  for (std::size_t at = text.find("<path"); at != std::string::npos; at = text.find("<path", at + 1)) ++ribbons;
  EXPECT_EQ(ribbons, 32u);
}

TEST_F(TopoCommand, WhatItCannotReadOrWriteItNames) {
  EXPECT_EQ(run({"topo", "--input", "/no/such.xml"}).code, 3);
  EXPECT_THAT(run({"topo", "--input", "/etc/passwd"}).err, HasSubstr("/etc/passwd"));
  EXPECT_THAT(run({"topo", "--svg", "/no/such/x.svg"}).err, HasSubstr("--svg /no/such/x.svg"));
  EXPECT_EQ(run({"topo", "--save", "/no/such/x.xml"}).code, 3);
  EXPECT_EQ(run({"topo", "--save", "a", "--input", "b"}).code, 2);
  EXPECT_THAT(run({"topo", "--svgg", "x"}).err, HasSubstr("did you mean '--svg'?"));
}

}  // namespace
}  // namespace fabring::tests
