#include "ranks.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace fabring::c_api::tests {

ReservedPort::ReservedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
  port_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() { close(fd_); }

namespace {

void run_rank(int rank, int size, const std::string& port, const std::function<void(Rank)>& rank_main,
              const Settings& more, const std::function<void(std::int32_t, fabring_config*)>& configure) {
  fabring_error error = FABRING_ERROR_INIT;
  fabring_config* config = nullptr;
  ASSERT_EQ(fabring_config_create(&config, &error), FABRING_STATUS_OK) << error.message;
  Settings settings = {{"FABRING_RANK", std::to_string(rank)},
                       {"FABRING_WORLD_SIZE", std::to_string(size)},
                       {"FABRING_MASTER_ADDR", "127.0.0.1"},
                       {"FABRING_MASTER_PORT", port},
                       {"FABRING_TRANSPORT", "tcp"}};
  settings.insert(settings.end(), more.begin(), more.end());
  for (const auto& [name, value] : settings)
    ASSERT_EQ(fabring_config_set(config, name, value.c_str(), &error), FABRING_STATUS_OK) << error.message;
  if (configure) configure(rank, config);
  Rank made{rank, nullptr, nullptr};
  ASSERT_EQ(fabring_engine_create(config, &made.engine, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(fabring_config_free(config), FABRING_STATUS_OK);
  ASSERT_EQ(fabring_engine_world(made.engine, &made.world, &error), FABRING_STATUS_OK) << error.message;
  rank_main(made);
  EXPECT_EQ(fabring_comm_free(made.world), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_engine_destroy(made.engine), FABRING_STATUS_OK);
}

}  // namespace

void run_ranks(int size, const std::function<void(Rank)>& rank_main, const Settings& more,
               const std::function<void(std::int32_t, fabring_config*)>& configure) {
  const ReservedPort port;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { run_rank(rank, size, port.text(), rank_main, more, configure); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fabring::c_api::tests
