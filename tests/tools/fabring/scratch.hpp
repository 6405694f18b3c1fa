#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace fabring::tests {

/// A file that is gone after the test.
class Scratch {
 public:
  explicit Scratch(const std::string& text = {}) {
    std::string path = (std::filesystem::temp_directory_path() / "fabring-test-XXXXXX").string();
    const int fd = mkstemp(path.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    path_ = path;
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace fabring::tests
