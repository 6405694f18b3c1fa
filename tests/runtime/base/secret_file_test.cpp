#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "runtime/base/handshake.hpp"
#include "runtime/base/rank_list.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

class SecretFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fabring_secret_XXXXXX";
    const int file = ::mkstemp(pattern.data());
    ASSERT_GE(file, 0);
    ::close(file);
    path_ = pattern;
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  void fill(std::string_view bytes, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << bytes;
    ::chmod(path_.c_str(), mode);
  }
  std::string path_;
};

TEST_F(SecretFile, IsReadWithoutItsTrailingNewline) {
  fill("0123456789abcdef\n", 0400);
  const auto secret = read_secret(path_);
  ASSERT_TRUE(secret.has_value()) << secret.error().to_string();
  EXPECT_EQ(*secret, "0123456789abcdef");
}

TEST_F(SecretFile, ReadableByOthersIsRefusedWithTheCommandThatMendsIt) {
  for (mode_t mode : {0640u, 0604u, 0660u, 0610u}) {
    fill("0123456789abcdef", mode);
    const auto secret = read_secret(path_);
    ASSERT_FALSE(secret.has_value());
    EXPECT_EQ(secret.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(secret.error().message(), HasSubstr("chmod 600 " + path_));
  }
}

TEST_F(SecretFile, LengthIsFrom16BytesTo4KiB) {
  for (std::size_t size : {0u, 1u, 15u, 4097u, 10000u}) {
    fill(std::string(size, 'x'));
    EXPECT_FALSE(read_secret(path_).has_value()) << size;
  }
  for (std::size_t size : {16u, 4096u}) {
    fill(std::string(size, 'x'));
    EXPECT_TRUE(read_secret(path_).has_value()) << size;
  }
}

TEST_F(SecretFile, MissingFilesAndDirectoriesAreNamed) {
  EXPECT_THAT(read_secret("/nowhere/secret").error().message(), HasSubstr("'/nowhere/secret' cannot be opened"));
  EXPECT_THAT(read_secret("/tmp").error().message(), HasSubstr("no regular file"));
}

TEST(RankList, ReadsLikeASentence) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({3, 5}), "ranks 3 and 5");
  EXPECT_EQ(rank_list({1, 2, 3, 7}), "ranks 1-3 and 7");
  EXPECT_EQ(rank_list({1, 2, 7}), "ranks 1, 2 and 7");
  std::vector<Rank> odd;
  for (Rank rank = 1; rank < 200; rank += 2) odd.push_back(rank);
  EXPECT_EQ(rank_list(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15, ... (100 ranks)");
}

TEST(DurationText, HasAUnit) {
  EXPECT_EQ(duration_text(std::chrono::milliseconds(250)), "250 ms");
  EXPECT_EQ(duration_text(std::chrono::seconds(300)), "300 s");
  EXPECT_EQ(duration_text(std::chrono::milliseconds(1500)), "1.5 s");
}

}  // namespace
}  // namespace fabring
