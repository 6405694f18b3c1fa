/* An outside program in C: a world of one, through the public header only. */
#include <fabring/fabring.h>
#include <stdio.h>

int main(void) {
  const float in[3] = {1, 2, 3};
  float out[3] = {0, 0, 0};
  fabring_error error = FABRING_ERROR_INIT;
  fabring_config* config = NULL;
  fabring_engine* engine = NULL;
  fabring_comm* world = NULL;
  fabring_status_code code = fabring_config_create(&config, &error);
  if (!code) code = fabring_config_set(config, "FABRING_RANK", "0", &error);
  if (!code) code = fabring_config_set(config, "FABRING_WORLD_SIZE", "1", &error);
  if (!code) code = fabring_engine_create(config, &engine, &error);
  if (!code) code = fabring_engine_world(engine, &world, &error);
  if (!code) code = fabring_allreduce(world, in, out, 3, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, &error);
  printf("%s%s: %g %g %g\n", fabring_status_name(code), error.message, out[0], out[1], out[2]);
  fabring_comm_free(world);
  fabring_engine_destroy(engine);
  fabring_config_free(config);
  return code == FABRING_STATUS_OK && out[0] == 1 && out[1] == 2 && out[2] == 3 ? 0 : 1;
}
