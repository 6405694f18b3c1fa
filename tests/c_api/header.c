/* fabring.h comes first and alone, in C11; its initialisers are constant expressions and complete. */
#include <fabring/fabring.h>

fabring_error header_error = FABRING_ERROR_INIT;
fabring_operation header_operation = FABRING_OPERATION_INIT;
fabring_traffic header_traffic = FABRING_TRAFFIC_INIT;
fabring_received header_received = FABRING_RECEIVED_INIT;

_Static_assert(sizeof(fabring_status_code) == sizeof(int32_t), "a status is passed as 32 bits");
