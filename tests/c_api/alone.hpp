#pragma once
// A world of one rank, made through fabring.h.

#include <gtest/gtest.h>

#include "fabring/fabring.h"

namespace fabring::c_api::tests {

class Alone : public testing::Test {
 protected:
  void SetUp() override {
    fabring_config* config = nullptr;
    ASSERT_EQ(fabring_config_create(&config, &error), FABRING_STATUS_OK) << error.message;
    ASSERT_EQ(fabring_config_set(config, "FABRING_RANK", "0", &error), FABRING_STATUS_OK) << error.message;
    ASSERT_EQ(fabring_config_set(config, "FABRING_WORLD_SIZE", "1", &error), FABRING_STATUS_OK) << error.message;
    ASSERT_EQ(fabring_engine_create(config, &engine, &error), FABRING_STATUS_OK) << error.message;
    ASSERT_EQ(fabring_config_free(config), FABRING_STATUS_OK);
    ASSERT_EQ(fabring_engine_world(engine, &world, &error), FABRING_STATUS_OK) << error.message;
  }
  void TearDown() override {
    EXPECT_EQ(fabring_comm_free(world), FABRING_STATUS_OK);
    EXPECT_EQ(fabring_engine_destroy(engine), FABRING_STATUS_OK);
  }

  fabring_error error = FABRING_ERROR_INIT;
  fabring_engine* engine = nullptr;
  fabring_comm* world = nullptr;
};

}  // namespace fabring::c_api::tests
