// The training example's data files, good and hostile.
#include "dataset.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

namespace train {
namespace {

using fabring::ErrorCode;
using testing::UnitTest;

class DatasetFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("fabring-dataset-" + std::to_string(getpid()) + "-" +
                                                           UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    write_images(3);
    write_labels({7, 0, 9});
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static std::string word(std::uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
    return bytes;
  }
  void write(const std::string& name, const std::string& content) {
    const gzFile file = gzopen((directory_ / name).c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
    ASSERT_EQ(gzclose(file), Z_OK);
  }
  void write_images(std::uint32_t count, const std::string& more = {}, std::uint32_t rows = 28,
                    std::uint32_t magic = 0x803) {
    std::string pixel_bytes(count * static_cast<std::size_t>(pixels), '\0');
    for (std::size_t i = 0; i < pixel_bytes.size(); ++i) pixel_bytes[i] = static_cast<char>(i % 251);
    write("train-images-idx3-ubyte.gz", word(magic) + word(count) + word(rows) + word(28) + pixel_bytes + more);
  }
  void write_labels(const std::vector<char>& labels) {
    write("train-labels-idx1-ubyte.gz",
          word(0x801) + word(static_cast<std::uint32_t>(labels.size())) + std::string(labels.begin(), labels.end()));
  }
  fabring::Result<Dataset> read(int limit = 0) { return load(directory_.string(), "train", limit); }
  void expect_refused(const std::string& because) {
    const auto data = read();
    ASSERT_FALSE(data);
    EXPECT_EQ(data.error().code(), ErrorCode::invalid_argument);
    EXPECT_NE(data.error().message().find(because), std::string::npos) << data.error().message();
    EXPECT_NE(data.error().message().find(directory_.string()), std::string::npos) << data.error().message();
  }

  std::filesystem::path directory_;
};

TEST_F(DatasetFiles, are_read_whole_or_up_to_a_limit) {
  const auto all = read();
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->labels, (std::vector<std::uint8_t>{7, 0, 9}));
  ASSERT_EQ(all->images.size(), 3u * pixels);
  EXPECT_EQ(all->images[2 * pixels + 5], (2 * pixels + 5) % 251);
  const auto two = read(2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->size(), 2);
  EXPECT_EQ(two->images.size(), 2u * pixels);
  EXPECT_EQ(read(1000)->size(), 3);
}

TEST_F(DatasetFiles, that_are_missing_name_the_package) {
  const auto data = load("/nonexistent", "train", 0);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code(), ErrorCode::unavailable);
  EXPECT_NE(data.error().message().find("dataset-fashion-mnist"), std::string::npos);
  EXPECT_NE(data.error().message().find("/nonexistent/train-images"), std::string::npos);
}

TEST_F(DatasetFiles, of_another_kind_are_refused) {
  write_images(3, {}, 28, 0x801);
  expect_refused("IDX header");
  write_images(3, {}, 32);
  expect_refused("28 x 28");
  write("train-images-idx3-ubyte.gz", "no");
  expect_refused("IDX header");
}

TEST_F(DatasetFiles, that_claim_too_much_are_refused_before_memory_is_spent) {
  write("train-images-idx3-ubyte.gz", word(0x803) + word(0xFFFFFFFF) + word(28) + word(28));
  expect_refused("4294967295 items");
  write("train-images-idx3-ubyte.gz", word(0x803) + word(0) + word(28) + word(28));
  expect_refused("0 items");
}

TEST_F(DatasetFiles, that_end_early_or_late_are_refused) {
  write("train-images-idx3-ubyte.gz", word(0x803) + word(4) + word(28) + word(28) + std::string(4 * pixels - 1, 'x'));
  expect_refused("ends before");
  write_images(3, "x");
  expect_refused("goes on");
  // The gzip stream itself is cut.
  write_images(3);
  const auto path = directory_ / "train-images-idx3-ubyte.gz";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  expect_refused("not a Fashion-MNIST file");
}

TEST_F(DatasetFiles, that_disagree_are_refused) {
  write_labels({1, 2});
  expect_refused("3 images but 2 labels");
  write_labels({1, 2, 10});
  expect_refused("a label is 10");
}

}  // namespace
}  // namespace train
