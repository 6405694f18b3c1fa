/* Two copies of the library in one process, as when a program and a framework's plugin bring one each: the program is
 * linked to one, the other is a copy of the file, loaded from C. Each runs a world of its own; then one rank of each
 * meet in one world. Arguments: the library, and where its copy goes. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fabring/fabring.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

struct library {
  fabring_status_code (*config_create)(fabring_config**, fabring_error*);
  fabring_status_code (*config_set)(fabring_config*, const char*, const char*, fabring_error*);
  fabring_status_code (*config_free)(fabring_config*);
  fabring_status_code (*engine_create)(const fabring_config*, fabring_engine**, fabring_error*);
  fabring_status_code (*engine_world)(fabring_engine*, fabring_comm**, fabring_error*);
  fabring_status_code (*engine_destroy)(fabring_engine*);
  fabring_status_code (*allreduce)(fabring_comm*, const void*, void*, size_t, fabring_data_type, fabring_reduce_op,
                                   fabring_error*);
  fabring_status_code (*comm_free)(fabring_comm*);
};

static struct library functions_of(void* handle) {
  struct library made;
  void* found;
#define TAKE(name)                                          \
  CHECK((found = dlsym(handle, "fabring_" #name)) != NULL); \
  memcpy(&made.name, &found, sizeof found)
  TAKE(config_create);
  TAKE(config_set);
  TAKE(config_free);
  TAKE(engine_create);
  TAKE(engine_world);
  TAKE(engine_destroy);
  TAKE(allreduce);
  TAKE(comm_free);
  return made;
}

static void copy_file(const char* from, const char* to) {
  static char block[1 << 16];
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  size_t got;
  CHECK(in && out);
  while ((got = fread(block, 1, sizeof block, in)) > 0) CHECK(fwrite(block, 1, got, out) == got);
  CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* A port that nobody else is given while the socket lives: bound, not listening, so that a rank 0 may. */
static int reserve_port(char* text, size_t size) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  const int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  CHECK(bind(fd, (struct sockaddr*)&address, length) == 0);
  CHECK(getsockname(fd, (struct sockaddr*)&address, &length) == 0);
  snprintf(text, size, "%d", ntohs(address.sin_port));
  return fd;
}

struct rank {
  struct library library;
  const char *rank, *size, *port;
  int expected;
};

static void* run_rank(void* argument) {
  const struct rank* self = argument;
  fabring_error error = FABRING_ERROR_INIT;
  fabring_config* config = NULL;
  fabring_engine* engine = NULL;
  fabring_comm* world = NULL;
  enum { count = 1000 };
  int32_t values[count];
  for (int i = 0; i < count; ++i) values[i] = atoi(self->rank) + 1;

#define OK(call)                                                              \
  do {                                                                        \
    if (self->library.call != FABRING_STATUS_OK) {                            \
      fprintf(stderr, "rank %s: %s: %s\n", self->rank, #call, error.message); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
  OK(config_create(&config, &error));
  OK(config_set(config, "FABRING_RANK", self->rank, &error));
  OK(config_set(config, "FABRING_WORLD_SIZE", self->size, &error));
  OK(config_set(config, "FABRING_MASTER_ADDR", "127.0.0.1", &error));
  OK(config_set(config, "FABRING_MASTER_PORT", self->port, &error));
  OK(config_set(config, "FABRING_TRANSPORT", "tcp", &error));
  OK(engine_create(config, &engine, &error));
  OK(config_free(config));
  OK(engine_world(engine, &world, &error));
  OK(allreduce(world, values, values, count, FABRING_TYPE_INT32, FABRING_OP_SUM, &error));
  for (int i = 0; i < count; ++i) CHECK(values[i] == self->expected);
  OK(comm_free(world));
  OK(engine_destroy(engine));
  return NULL;
}

static void run_side_by_side(struct rank* ranks, int count) {
  pthread_t threads[4];
  for (int i = 0; i < count; ++i) CHECK(pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0);
  for (int i = 0; i < count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  copy_file(argv[1], argv[2]);
  void* copy = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (!copy) fprintf(stderr, "%s\n", dlerror());
  CHECK(copy);
  CHECK(fabring_version() != NULL); /* keeps the program linked to the first */
  const struct library first = functions_of(RTLD_DEFAULT), second = functions_of(copy);
  CHECK(first.engine_create != second.engine_create);

  char port[8], another_port[8];
  const int fd = reserve_port(port, sizeof port), another_fd = reserve_port(another_port, sizeof another_port);
  struct rank alone[2] = {{first, "0", "1", port, 1}, {second, "0", "1", port, 1}};
  run_side_by_side(alone, 2);
  struct rank two_worlds[4] = {{first, "0", "2", port, 3},
                               {first, "1", "2", port, 3},
                               {second, "0", "2", another_port, 3},
                               {second, "1", "2", another_port, 3}};
  run_side_by_side(two_worlds, 4);
  struct rank one_of_each[2] = {{first, "0", "2", port, 3}, {second, "1", "2", port, 3}};
  run_side_by_side(one_of_each, 2);

  CHECK(dlclose(copy) == 0);
  struct rank after[1] = {{first, "0", "1", port, 1}};
  run_side_by_side(after, 1);
  close(fd);
  close(another_fd);
  unlink(argv[2]);
  puts("two copies work");
  return 0;
}
