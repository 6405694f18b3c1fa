/* Sums one vector over all ranks and checks it. Build: gcc allreduce.c $(pkg-config --cflags --libs fabring)
 * Run: fabring run -n 4 -- ./a.out */
#include <fabring/fabring.h>
#include <stdio.h>

enum { count = 1000 };

static int failed(const char* what, const fabring_error* error) {
  fprintf(stderr, "%s: %s: %s\n", what, fabring_status_name(error->code), error->message);
  return 3;
}

int main(void) {
  fabring_error error = FABRING_ERROR_INIT;
  fabring_engine* engine = NULL;
  fabring_comm* world = NULL;
  int32_t rank = 0, size = 0;
  static float values[count];
  int wrong = 0;

  if (fabring_engine_create_from_environment(&engine, &error)) return failed("start", &error);
  if (fabring_engine_world(engine, &world, &error)) return failed("world", &error);
  fabring_comm_rank(world, &rank, NULL);
  fabring_comm_size(world, &size, NULL);

  for (int i = 0; i < count; ++i) values[i] = (float)(i + rank);
  if (fabring_allreduce(world, values, values, count, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, &error))
    return failed("allreduce", &error);
  for (int i = 0; i < count; ++i) {
    const int expected = i * size + size * (size - 1) / 2; /* small integers: exact in a float */
    if (values[i] != (float)expected) ++wrong;
  }
  printf("rank %d of %d: %d elements summed, %d wrong\n", (int)rank, (int)size, (int)count, wrong);

  fabring_comm_free(world);
  fabring_engine_destroy(engine);
  return wrong == 0 ? 0 : 1;
}
