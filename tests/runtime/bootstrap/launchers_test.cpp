// The bindings may not see the table of launchers, and have names of it in lists of their own: these must be its names.

#include "runtime/bootstrap/launchers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace fabring {
namespace {

using Names = std::vector<std::string>;

std::string source(const std::string& file) {
  std::ifstream in(FABRING_SOURCE "/" + file);
  EXPECT_TRUE(in.good()) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What is between quotes.
Names quoted(std::string text) {
  Names names;
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"')) {
    text.erase(0, at + 1);
    names.push_back(text.substr(0, text.find('"')));
    text.erase(0, names.back().size() + 1);
  }
  return names;
}

TEST(Launchers, OurPythonPackageKnowsThemByTheSameNamesInTheSameOrder) {
  std::vector<Names> ours, of_python;
  for (const Launcher& row : launchers()) {
    Names& names = ours.emplace_back(row.known_by.begin(), row.known_by.end());
    std::erase(names, "");
  }
  const std::string text = source("bindings/python/fabring/identity.py"), begin = "\n    ((";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1))
    of_python.push_back(quoted(text.substr(at + begin.size(), text.find(')', at) - at - begin.size())));
  EXPECT_EQ(of_python, ours) << "_launchers of bindings/python/fabring/identity.py";
}

TEST(Launchers, OurPytorchBackendTakesTheirLocalRanksInTheSameOrder) {
  Names ours;
  for (const Launcher& row : launchers())
    if (!row.local_rank.empty()) ours.emplace_back(row.local_rank);
  const std::string text = source("bindings/torch/shim/config.cpp");
  const std::size_t begin = std::min(text.find("{\"LOCAL_RANK\""), text.size());
  Names of_torch = quoted(text.substr(begin, text.find('}', begin) - begin));
  std::erase(of_torch, "FABRING_LOCAL_RANK");
  EXPECT_EQ(of_torch, ours) << "configure() of bindings/torch/shim/config.cpp";
}

TEST(Launchers, WhereARankIsNumberedItIsKnownByThatVariable) {
  for (const Launcher& row : launchers()) {
    EXPECT_FALSE(row.known_by[0].empty()) << row.name;
    EXPECT_TRUE(row.rank.empty() || std::ranges::count(row.known_by, row.rank) == 1) << row.name << " " << row.rank;
    EXPECT_NE(row.read, nullptr) << row.name;
  }
}

}  // namespace
}  // namespace fabring
