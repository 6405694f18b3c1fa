// Settings by their names.
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "fabring/fabring.h"

namespace {

using testing::HasSubstr;

class Settings : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(fabring_config_create(&config, &error), FABRING_STATUS_OK); }
  void TearDown() override { EXPECT_EQ(fabring_config_free(config), FABRING_STATUS_OK); }
  std::string get(const char* name) {
    char text[100] = "untouched";
    EXPECT_EQ(fabring_config_get(config, name, text, sizeof text, nullptr, &error), FABRING_STATUS_OK) << error.message;
    return text;
  }

  fabring_config* config = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
};

TEST_F(Settings, are_set_and_read_by_the_names_of_the_environment) {
  EXPECT_EQ(get("FABRING_TIMEOUT"), "30 min");
  EXPECT_EQ(get("FABRING_RANK"), "");
  ASSERT_EQ(fabring_config_set(config, "FABRING_TIMEOUT", "30s", &error), FABRING_STATUS_OK) << error.message;
  ASSERT_EQ(fabring_config_set(config, "FABRING_RANK", "7", &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(get("FABRING_TIMEOUT"), "30 s");
  EXPECT_EQ(get("FABRING_RANK"), "7");
  ASSERT_EQ(fabring_config_set(config, "FABRING_RANK", "", &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(get("FABRING_RANK"), "7") << "an empty value counts as not set";
}

TEST_F(Settings, that_do_not_exist_name_the_nearest) {
  EXPECT_EQ(fabring_config_set(config, "FABRING_TIMOUT", "30s", &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("FABRING_TIMOUT is not a setting of Fabring; did you mean 'FABRING_TIMEOUT'?"));
  EXPECT_EQ(fabring_config_get(config, "PATH", nullptr, 0, nullptr, &error), FABRING_STATUS_INVALID_ARGUMENT);
}

TEST_F(Settings, of_bad_values_say_what_is_allowed_as_the_environment_does) {
  EXPECT_EQ(fabring_config_set(config, "FABRING_LOG", "loud", &error), FABRING_STATUS_INVALID_ARGUMENT);
  const std::string ours = error.message;
  EXPECT_THAT(ours, HasSubstr("FABRING_LOG=loud: 'loud' is not one of none, error, warning, info, debug"));
  setenv("FABRING_LOG", "loud", 1);
  fabring_config* from_environment = reinterpret_cast<fabring_config*>(1);
  EXPECT_EQ(fabring_config_create_from_environment(&from_environment, &error), FABRING_STATUS_INVALID_ARGUMENT);
  unsetenv("FABRING_LOG");
  EXPECT_EQ(error.message, ours);
  EXPECT_EQ(from_environment, nullptr);
  EXPECT_EQ(get("FABRING_LOG"), "warning") << "a bad value changes nothing";
}

TEST_F(Settings, come_from_the_environment_when_asked) {
  setenv("FABRING_RANK", "1", 1);
  setenv("FABRING_WORLD_SIZE", "3", 1);
  setenv("FABRING_MASTER_ADDR", "127.0.0.1", 1);
  fabring_config_free(config);
  EXPECT_EQ(fabring_config_create_from_environment(&config, &error), FABRING_STATUS_OK) << error.message;
  for (const char* name : {"FABRING_RANK", "FABRING_WORLD_SIZE", "FABRING_MASTER_ADDR"}) unsetenv(name);
  EXPECT_EQ(get("FABRING_WORLD_SIZE"), "3");
}

TEST_F(Settings, that_are_longer_than_the_room_are_cut_and_say_how_long) {
  ASSERT_EQ(fabring_config_set(config, "FABRING_JOB_ID", "0123456789", &error), FABRING_STATUS_OK);
  char text[6] = "xxxxx";
  std::size_t needed = 0;
  EXPECT_EQ(fabring_config_get(config, "FABRING_JOB_ID", text, 4, &needed, &error), FABRING_STATUS_OK);
  EXPECT_STREQ(text, "012");
  EXPECT_EQ(text[4], 'x') << "nothing is written past the room";
  EXPECT_EQ(needed, 10u);
  EXPECT_EQ(fabring_config_get(config, "FABRING_JOB_ID", nullptr, 0, &needed, &error), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_config_get(config, "FABRING_JOB_ID", nullptr, 4, &needed, &error), FABRING_STATUS_INVALID_ARGUMENT);
}

TEST_F(Settings, that_are_missing_fail_the_engine_with_what_to_do) {
  fabring_engine* engine = reinterpret_cast<fabring_engine*>(1);
  EXPECT_EQ(fabring_engine_create(config, &engine, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("FABRING_WORLD_SIZE"));
  EXPECT_EQ(engine, nullptr);
}

}  // namespace
