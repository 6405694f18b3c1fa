#include "runtime/base/whole_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "runtime/base/descriptor.hpp"

namespace fabring {
namespace {

class WholeFile : public testing::Test {
 protected:
  ~WholeFile() override { std::remove(path_.c_str()); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  const std::string path_ = testing::TempDir() + "whole-file-" + std::to_string(::getpid());
};

TEST_F(WholeFile, IsReadToItsLastByteAndNotBeyondTheLimit) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64} << 10, std::size_t{200'001}}) {
    std::string text(bytes, 'x');
    if (bytes > 0) text.back() = '\0';
    write(text);
    EXPECT_EQ(*read_whole_file(path_, bytes), text);
    if (bytes > 0) {
      const auto larger = read_whole_file(path_, bytes - 1);
      ASSERT_FALSE(larger);
      EXPECT_EQ(larger.error().code(), ErrorCode::invalid_argument);
    }
  }
}

TEST_F(WholeFile, EndlessOnesAreRefused) {
  const auto endless = read_whole_file("/dev/zero", 1 << 20);
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error().message(), testing::HasSubstr("larger than 1 MiB"));
}

TEST_F(WholeFile, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const std::string text(300'000, 'p');
  std::thread source([&] {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::write(writer.fd(), text.data() + sent, text.size() - sent);
      if (now <= 0) break;
      sent += static_cast<std::size_t>(now);
    }
    writer.close();
  });
  const auto read = read_whole_file("/proc/self/fd/" + std::to_string(reader.fd()), 1 << 20);
  source.join();
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, text);
}

TEST_F(WholeFile, WhatCannotBeReadSaysWhy) {
  for (const auto& [path, why] : {std::pair<std::string, const char*>{"/no/such", "No such file or directory"},
                                  {testing::TempDir(), "Is a directory"}}) {
    const auto unreadable = read_whole_file(path, 10);
    ASSERT_FALSE(unreadable);
    EXPECT_EQ(unreadable.error().code(), ErrorCode::unavailable);
    EXPECT_THAT(unreadable.error().message(), testing::HasSubstr(why));
  }
}

}  // namespace
}  // namespace fabring
