/* Uses Fabring without linking to it: a program, or another language, that loads it when it is there.
 * Build: gcc load.c $(pkg-config --cflags fabring) -ldl      Run: fabring run -n 4 -- ./a.out /path/to/libfabring.so */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <fabring/fabring.h>
#include <stdio.h>
#include <string.h>

/* The functions this program needs, with the types that the header gives them. */
static struct {
  const char* (*version)(void);
  const char* (*status_name)(int32_t);
  fabring_status_code (*engine_create_from_environment)(fabring_engine**, fabring_error*);
  fabring_status_code (*engine_world)(fabring_engine*, fabring_comm**, fabring_error*);
  fabring_status_code (*engine_destroy)(fabring_engine*);
  fabring_status_code (*comm_rank)(const fabring_comm*, int32_t*, fabring_error*);
  fabring_status_code (*comm_size)(const fabring_comm*, int32_t*, fabring_error*);
  fabring_status_code (*all_gather)(fabring_comm*, const void*, void*, size_t, fabring_data_type, fabring_error*);
  fabring_status_code (*comm_free)(fabring_comm*);
} fabring;

static int load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int missing = 0;
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 0;
  }
  /* memcpy: C has no cast from an object's address to a function's. */
#define TAKE(name)                                                    \
  do {                                                                \
    void* found = dlsym(library, "fabring_" #name);                   \
    if (!found) ++missing, fprintf(stderr, "no fabring_%s\n", #name); \
    memcpy(&fabring.name, &found, sizeof found);                      \
  } while (0)
  TAKE(version);
  TAKE(status_name);
  TAKE(engine_create_from_environment);
  TAKE(engine_world);
  TAKE(engine_destroy);
  TAKE(comm_rank);
  TAKE(comm_size);
  TAKE(all_gather);
  TAKE(comm_free);
  return missing == 0;
}

static int failed(const char* what, const fabring_error* error) {
  fprintf(stderr, "%s: %s: %s\n", what, fabring.status_name(error->code), error->message);
  return 3;
}

int main(int argc, char** argv) {
  fabring_error error = FABRING_ERROR_INIT;
  fabring_engine* engine = NULL;
  fabring_comm* world = NULL;
  int32_t rank = 0, size = 0, all[1024];
  int wrong = 0;

  if (!load(argc > 1 ? argv[1] : "libfabring.so")) return 3;
  if (fabring.engine_create_from_environment(&engine, &error)) return failed("start", &error);
  if (fabring.engine_world(engine, &world, &error)) return failed("world", &error);
  fabring.comm_rank(world, &rank, NULL);
  fabring.comm_size(world, &size, NULL);
  if (size > 1024) return 3;

  if (fabring.all_gather(world, &rank, all, 1, FABRING_TYPE_INT32, &error)) return failed("all_gather", &error);
  for (int32_t i = 0; i < size; ++i)
    if (all[i] != i) ++wrong;
  printf("rank %d of %d: Fabring %s, %d wrong\n", (int)rank, (int)size, fabring.version(), wrong);

  fabring.comm_free(world);
  fabring.engine_destroy(engine);
  return wrong == 0 ? 0 : 1;
}
