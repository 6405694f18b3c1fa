/* Fabring for C, for other languages and for programs that load it with dlopen: everything fabring.hpp has.
 *
 *   fabring_error error = FABRING_ERROR_INIT;
 *   fabring_engine* engine = NULL;
 *   fabring_comm* world = NULL;
 *   if (fabring_engine_create_from_environment(&engine, &error)) { puts(error.message); return 3; }
 *   fabring_engine_world(engine, &world, NULL);
 *   fabring_allreduce(world, gradients, gradients, count, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, &error);
 *   fabring_comm_free(world);
 *   fabring_engine_destroy(engine);
 *
 * Answers. A function that can fail returns a status, and describes a failure in *error, which the caller owns; the
 * pointer may be NULL, unlike every other pointer that is not said to be optional. A pointer that must not be NULL, a
 * handle of another kind and a number that is none of an enumeration are FABRING_STATUS_INVALID_ARGUMENT. Where a call
 * fails, what it would have made is set to NULL. No C++ exception leaves the library.
 *
 * Handles are references: freeing one frees the handle, not what it refers to; operations under way go on. A handle is
 * freed once, while no other thread uses that same handle. Freeing NULL is fine.
 *
 * Threads: every function may be called from any thread (docs/threading.md). Collectives of one communicator run in the
 * order they were called: one finds in its buffers what those before it left there, waited for or not. Sends and
 * receives go on beside them and each other. All ranks must call the same collectives on it in the same order.
 *
 * In a child of fork() all handles and memory of before are the parent's: a call on them is
 * FABRING_STATUS_INVALID_ARGUMENT at once, but for what only reads (rank, size, label, nodes, report, settings);
 * freeing, fabring_engine_leave and fabring_engine_destroy succeed and do nothing. A child may make an engine of its
 * own.
 *
 * Structures start with their size, which the ..._INIT initialisers fill in, and grow at their end only; docs/c-api.md
 * says what is stable. */
#ifndef FABRING_FABRING_H
#define FABRING_FABRING_H

#include <stddef.h>
#include <stdint.h>

#define FABRING_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* How a call ended; docs/errors.md has a row for each. */
typedef enum fabring_status_code {
  FABRING_STATUS_OK = 0,
  FABRING_STATUS_INVALID_ARGUMENT = 1, /* the call is wrong; fix it. The communicator stays usable. */
  FABRING_STATUS_MISMATCH = 2,         /* ranks called different things; fix the program */
  FABRING_STATUS_UNSUPPORTED = 3,      /* not possible here; choose another type or algorithm. Stays usable. */
  FABRING_STATUS_UNAVAILABLE = 4,      /* a port, name or provider is missing; fix the environment */
  FABRING_STATUS_TIMEOUT = 5,          /* a deadline passed; the text says who was waited for */
  FABRING_STATUS_PEER_LOST = 6,        /* a rank died or cannot be reached */
  FABRING_STATUS_ABORTED = 7,          /* fabring_comm_abort was called, here or on another rank */
  FABRING_STATUS_OUT_OF_MEMORY = 8,    /* the memory budget or the machine is exhausted */
  FABRING_STATUS_TRANSPORT_ERROR = 9,  /* the fabric failed in a way that names no dead rank */
  FABRING_STATUS_INTERNAL = 10,        /* a bug in Fabring; please report it */
  FABRING_STATUS_DEVICE_ERROR = 11     /* a GPU failed, or its memory is not what it should be */
} fabring_status_code;

/* The numbers below are 32 bits wide wherever they are given to Fabring, so that any value can be checked. */
typedef int32_t fabring_data_type;
enum {
  FABRING_TYPE_FLOAT64 = 0,
  FABRING_TYPE_FLOAT32 = 1,
  FABRING_TYPE_FLOAT16 = 2,
  FABRING_TYPE_BFLOAT16 = 3,
  FABRING_TYPE_INT8 = 4,
  FABRING_TYPE_INT16 = 5,
  FABRING_TYPE_INT32 = 6,
  FABRING_TYPE_INT64 = 7,
  FABRING_TYPE_UINT8 = 8,
  FABRING_TYPE_UINT16 = 9,
  FABRING_TYPE_UINT32 = 10,
  FABRING_TYPE_UINT64 = 11,
  FABRING_TYPE_FLOAT8_E4M3 = 12, /* OCP; PyTorch's float8_e4m3fn */
  FABRING_TYPE_FLOAT8_E5M2 = 13, /* OCP; PyTorch's float8_e5m2 */
  FABRING_TYPE_BOOLEAN = 14      /* one byte; any that is not zero is true; results are 0 or 1 */
};

typedef int32_t fabring_reduce_op;
enum {
  FABRING_OP_SUM = 0,
  FABRING_OP_PROD = 1,
  FABRING_OP_MIN = 2,
  FABRING_OP_MAX = 3,
  FABRING_OP_AVG = 4, /* of the sum, which may overflow in float16 and fp8 (FABRING_OP_PREMUL_SUM by 1/n does not) */
  FABRING_OP_LOGICAL_AND = 5,
  FABRING_OP_LOGICAL_OR = 6,
  FABRING_OP_LOGICAL_XOR = 7,
  FABRING_OP_BITWISE_AND = 8,
  FABRING_OP_BITWISE_OR = 9,
  FABRING_OP_BITWISE_XOR = 10,
  FABRING_OP_PREMUL_SUM = 11, /* the sum of every rank's elements times a factor of that rank: fabring_run, `factor` */
  FABRING_OP_USER = 12        /* fabring_operation.function */
};

typedef int32_t fabring_collective;
enum {
  FABRING_COLLECTIVE_ALLREDUCE = 0,
  FABRING_COLLECTIVE_REDUCE = 1,
  FABRING_COLLECTIVE_REDUCE_SCATTER = 2,
  FABRING_COLLECTIVE_ALL_GATHER = 3,
  FABRING_COLLECTIVE_BROADCAST = 4,
  FABRING_COLLECTIVE_GATHER = 5,
  FABRING_COLLECTIVE_SCATTER = 6,
  FABRING_COLLECTIVE_ALLTOALL = 7,
  FABRING_COLLECTIVE_BARRIER = 8,
  FABRING_COLLECTIVE_SEND = 9,
  FABRING_COLLECTIVE_RECV = 10
};

/* Where buffers live. */
typedef int32_t fabring_memory;
enum {
  FABRING_MEMORY_DETECT = 0, /* the GPU driver is asked, if this process uses it */
  FABRING_MEMORY_HOST = 1,
  FABRING_MEMORY_DEVICE = 2 /* of fabring_operation.device */
};

enum {
  FABRING_ANY_SOURCE = -1, /* recv from whoever sends first */
  FABRING_ANY_TAG = -1     /* recv whatever the tag */
};

/* What went wrong. Texts end with a NUL; one that is too long is cut. After a call that succeeds: code 0, no texts.
 * Initialise it with FABRING_ERROR_INIT: a call with one that was not fails with the code only, and begins nothing;
 * waits, fabring_comm_abort and fabring_engine_leave do their part all the same.
 *
 * `rank` counts as the job does; fabring_comm_members has the job's number of each rank of a communicator. Of aborted
 * it is who called fabring_comm_abort, or destroyed its engine while operations were under way. What makes a
 * communicator for all ranks of another is named as such in `collective` (split, split_by_node, duplicate, with_plans),
 * and counts in `sequence` as two operations or more. */
typedef struct fabring_error {
  size_t struct_size;
  int32_t code;        /* a fabring_status_code */
  int32_t rank;        /* the rank at fault (not the one that reports); -1: not known */
  uint64_t sequence;   /* number of the operation on its communicator, from 1; 0: not known */
  uint64_t bytes;      /* size of the operation; 0: not known */
  char host[256];      /* host of the rank at fault */
  char collective[32]; /* "allreduce" */
  char message[1024];  /* one sentence or a few: what, where, what to do */
} fabring_error;
#define FABRING_ERROR_INIT                              \
  {                                                     \
    sizeof(fabring_error), 0, -1, 0, 0, {0}, {0}, { 0 } \
  }

/* "0.1.0": of the library that runs, not of this header. */
FABRING_C_API const char* fabring_version(void);

/* "peer_lost", "float32", "sum", "allreduce"; "unknown" for a number that is none of them. Never NULL. */
FABRING_C_API const char* fabring_status_name(int32_t code);
FABRING_C_API const char* fabring_data_type_name(fabring_data_type type);
FABRING_C_API const char* fabring_reduce_op_name(fabring_reduce_op op);
FABRING_C_API const char* fabring_collective_name(fabring_collective collective);

/* From a name, as above or as usual elsewhere (f32, half, e4m3; land, bxor). */
FABRING_C_API fabring_status_code fabring_parse_data_type(const char* text, fabring_data_type* type,
                                                          fabring_error* error);
FABRING_C_API fabring_status_code fabring_parse_reduce_op(const char* text, fabring_reduce_op* op,
                                                          fabring_error* error);
FABRING_C_API fabring_status_code fabring_parse_collective(const char* text, fabring_collective* collective,
                                                           fabring_error* error);

/* Bytes of one element; 0 for a number that is no type. */
FABRING_C_API size_t fabring_data_type_size(fabring_data_type type);
/* 1 or 0: a floating-point type of any width? */
FABRING_C_API int fabring_data_type_is_floating_point(fabring_data_type type);
/* 1 or 0: has the operation a meaning for elements of the type? avg and premul_sum: not of booleans; logical and
 * bitwise operations: not of floating-point numbers; the others always. */
FABRING_C_API int fabring_supports(fabring_data_type type, fabring_reduce_op op);

/* ---- configuration ---------------------------------------------------------------------------------------------- */

/* Every setting, by the name it has in the environment; `fabring settings` lists them. */
typedef struct fabring_config fabring_config;

/* All settings at their defaults; nothing is read from the environment. At least FABRING_RANK and FABRING_WORLD_SIZE
 * must be set; with more than one rank FABRING_MASTER_ADDR too, and FABRING_MASTER_PORT where 29431 is not free. */
FABRING_C_API fabring_status_code fabring_config_create(fabring_config** config, fabring_error* error);
/* What the environment says: FABRING_* and the launchers' names. Errors: invalid_argument naming the variable. */
FABRING_C_API fabring_status_code fabring_config_create_from_environment(fabring_config** config, fabring_error* error);
/* fabring_config_set(config, "FABRING_TIMEOUT", "30s", &error). An empty value changes nothing, as in the environment;
 * nor do the variables that Kubernetes sets for Services which are named fabring... (FABRING_MASTER_SERVICE_HOST).
 * Errors: invalid_argument for a name that is none of ours (with the nearest that is) or a bad value. */
FABRING_C_API fabring_status_code fabring_config_set(fabring_config* config, const char* name, const char* value,
                                                     fabring_error* error);
/* Writes the value into text[0, size), cut if it is longer, always ending with a NUL; empty when it is not set. `text`
 * may be NULL if `size` is 0. `needed` (optional) gets the length of the whole text without its NUL. The other
 * functions that write a text do likewise. */
FABRING_C_API fabring_status_code fabring_config_get(const fabring_config* config, const char* name, char* text,
                                                     size_t size, size_t* needed, fabring_error* error);
/* What a line of the log is. FABRING_LOG says how much is written at all. */
typedef int32_t fabring_log_level;
enum { FABRING_LOG_ERROR = 1, FABRING_LOG_WARNING = 2, FABRING_LOG_INFO = 3, FABRING_LOG_DEBUG = 4 };
/* Gets one line without its end; `rank` is that of the engine, `text` lives during the call only. It is called from any
 * thread that runs Fabring's code, the program's and Fabring's own, several at once and with locks held: it must be
 * quick (heartbeats wait for it), and must neither call Fabring nor leave by an exception (that ends the process) or
 * longjmp. */
typedef void (*fabring_log_function)(void* context, fabring_log_level level, int32_t rank, const char* text);
/* Who gets the log of engines made with this configuration, instead of stderr; NULL: stderr. `context` is the caller's
 * own, may be NULL, and must live until a function that makes such an engine has failed, or until the engine is
 * destroyed and every call on it has returned. */
FABRING_C_API fabring_status_code fabring_config_set_log(fabring_config* config, fabring_log_function function,
                                                         void* context, fabring_error* error);
FABRING_C_API fabring_status_code fabring_config_free(fabring_config* config);

/* ---- engine ----------------------------------------------------------------------------------------------------- */

/* Owns what communicators share: endpoints, scratch, the control plane. One per process is usual, several work. */
typedef struct fabring_engine fabring_engine;
/* A group of ranks that work together. */
typedef struct fabring_comm fabring_comm;
/* An operation under way. */
typedef struct fabring_work fabring_work;
/* An operation that is ready to be started any number of times, one after the other. */
typedef struct fabring_prepared fabring_prepared;

/* Traffic of this rank since its engine started, as its transport counted it. */
typedef struct fabring_traffic {
  size_t struct_size;
  uint64_t payload_bytes_sent; /* collective data only */
  uint64_t payload_bytes_received;
  uint64_t wire_bytes_sent; /* everything handed to the fabric */
  uint64_t wire_bytes_received;
  uint64_t messages_sent;
} fabring_traffic;
#define FABRING_TRAFFIC_INIT \
  { sizeof(fabring_traffic), 0, 0, 0, 0, 0 }

/* Meets the other ranks: every rank of the job calls it. Errors: invalid_argument, unavailable, timeout (naming the
 * ranks that did not come), mismatch, peer_lost, unsupported, out_of_memory, transport_error. `config` is only read; it
 * may be freed at once. */
FABRING_C_API fabring_status_code fabring_engine_create(const fabring_config* config, fabring_engine** engine,
                                                        fabring_error* error);
/* The same with what the environment says. Engines of one process that meet at one port are made one after the other,
 * in the same order on all ranks; at once only with a FABRING_MASTER_PORT each. */
FABRING_C_API fabring_status_code fabring_engine_create_from_environment(fabring_engine** engine, fabring_error* error);
/* A key-value store of a framework whose ranks have met already. Both functions are called during
 * fabring_engine_create_with_store and fabring_store_decline only, from any thread but one at a time, and return a
 * fabring_status_code: success, of get FABRING_STATUS_TIMEOUT, or what ends the meeting, for which
 * FABRING_STATUS_UNAVAILABLE is the usual one. A number that is no code counts as invalid_argument,
 * FABRING_STATUS_INTERNAL, which means a bug of Fabring's, as unavailable; the error names the key. They must not leave
 * by an exception, which counts as unavailable, or longjmp. */
typedef struct fabring_store {
  size_t struct_size;
  void* context; /* passed to both; the caller's own, may be NULL */
  /* Publishes `size` bytes, at most 1024, under a key that was not used before. */
  int32_t (*put)(void* context, const char* key, const void* value, size_t size);
  /* Waits at most `nanoseconds` until somebody has published the key (0: only looks) and writes the value into
   * value[0, capacity) and its length into *size. FABRING_STATUS_TIMEOUT when nobody has. */
  int32_t (*get)(void* context, const char* key, uint64_t nanoseconds, void* value, size_t capacity, size_t* size);
} fabring_store;
#define FABRING_STORE_INIT \
  { sizeof(fabring_store), NULL, NULL, NULL }

/* As fabring_engine_create, for ranks that find each other by a store instead of at a master address. Of the
 * configuration FABRING_RANK and FABRING_WORLD_SIZE must be set; FABRING_MASTER_ADDR, if it is, tells which interface
 * is meant. Keys are the engine's own: give every engine a store, or a prefix of keys, of its own. */
FABRING_C_API fabring_status_code fabring_engine_create_with_store(const fabring_config* config,
                                                                   const fabring_store* store, fabring_engine** engine,
                                                                   fabring_error* error);
/* For a rank that cannot call that, as fabring_config_set has refused something: the others, which wait for it in this
 * store, end at once, with its `code` (a fabring_status_code but OK) and `reason`. What
 * fabring_engine_create_with_store refuses, but for null arguments, it tells them itself. Errors: invalid_argument,
 * those of the store. */
FABRING_C_API fabring_status_code fabring_store_decline(const fabring_store* store, int32_t rank, int32_t code,
                                                        const char* reason, fabring_error* error);
/* A new handle to the communicator of all ranks of the job. */
FABRING_C_API fabring_status_code fabring_engine_world(fabring_engine* engine, fabring_comm** world,
                                                       fabring_error* error);
/* Ends what is under way here, also in calls of other threads, with aborted on every rank that takes part, but for
 * messages that have begun to come. Says goodbye and waits, bounded by FABRING_LEAVE_TIMEOUT, until the others have
 * too; for 0.2 s at most where the communicator of all ranks has failed and none of several ranks that was made since,
 * as by a shrink, is well. */
FABRING_C_API fabring_status_code fabring_engine_leave(fabring_engine* engine, fabring_error* error);
/* Leaves, if that was not done, and frees. What is under way ends with aborted; other handles of this engine stay valid
 * and answer aborted until they are freed. Messages that have begun to come to a receive arrive first, bounded too. */
FABRING_C_API fabring_status_code fabring_engine_destroy(fabring_engine* engine);
FABRING_C_API fabring_status_code fabring_engine_traffic(const fabring_engine* engine, fabring_traffic* traffic,
                                                         fabring_error* error);
/* What was chosen at the start and why: transport, interface, nodes, waiting. Lines, with a newline between two. */
FABRING_C_API fabring_status_code fabring_engine_report(const fabring_engine* engine, char* text, size_t size,
                                                        size_t* needed, fabring_error* error);
/* As fabring_config_get, what the engine was made with: as given, but FABRING_SOCKETS_PER_PEER is what is used (of
 * several values the largest), and FABRING_SEGMENT_BYTES where little scratch makes it smaller than usual. */
FABRING_C_API fabring_status_code fabring_engine_setting(const fabring_engine* engine, const char* name, char* text,
                                                         size_t size, size_t* needed, fabring_error* error);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Memory that the ranks of this host read and write directly, for buffers of operations: what is reduced is read where
 * its owner has it, and results are stored where they belong. It is used like any other, which ranks use it need not be
 * agreed on, and where ranks share no memory it is ordinary memory. Aligned to a page, of zeros. Only this rank's
 * business. Errors: out_of_memory, with the size and the limit (FABRING_MAPPED_BYTES). */
FABRING_C_API fabring_status_code fabring_mem_alloc(fabring_engine* engine, size_t bytes, void** memory,
                                                    fabring_error* error);
/* At any time, also after its engine: an operation that works on the memory keeps it until it is over. Freeing NULL is
 * fine; anything else that is not such memory is FABRING_STATUS_INVALID_ARGUMENT. */
FABRING_C_API fabring_status_code fabring_mem_free(void* memory);
/* *shared: 1 if other ranks have this memory of fabring_mem_alloc, given by its first byte, mapped; 0 if it is ordinary
 * memory. Errors: invalid_argument for anything else. */
FABRING_C_API fabring_status_code fabring_mem_is_shared(const void* memory, int* shared, fabring_error* error);

/* ---- operations ------------------------------------------------------------------------------------------------- */

/* An operation of the caller: inout[i] = inout[i] (op) in[i] for i < count; `type` is a fabring_data_type, always one
 * of them, in one byte. It must be associative, the same on every rank, and must neither call Fabring nor leave by an
 * exception or longjmp. It is called from any thread that drives the engine, several times at once, with parts of the
 * data. */
typedef void (*fabring_user_function)(void* inout, const void* in, size_t count, uint8_t type, void* context);

/* One of the vectors of a grouped allreduce. In place: in == out. Its layout does not change. */
typedef struct fabring_tensor {
  const void* in;
  void* out;
  size_t count; /* elements */
} fabring_tensor;

/* What a rank asks of a communicator. n is the number of ranks, r the caller's; docs/c-api.md has what each collective
 * reads and writes. Lengths and places are counted in elements. Buffers are aligned to the element. Counts, offsets and
 * the structure itself are only read during the call; `in`, `out`, `function` and `context` must live until the
 * operation is over.
 *
 * Fields that the collective, the op or the memory has no use for are passed over, whatever is in them: op of one that
 * does not reduce; root and tag of one that has none; factor, whole_factor, function, context and commutes of another
 * op; stream and device of buffers in memory of the host; type, op, count, in and out of a barrier. Where that would
 * change what comes out they are refused: counts and offsets of a collective without blocks, tensors of another than
 * allreduce or beside in, out or count, and a wire_type that the operation cannot travel as. */
typedef struct fabring_operation {
  size_t struct_size;
  const void* in;
  void* out;
  size_t count; /* elements of the one block; with n blocks (gather, alltoall, ...) of each */
  fabring_collective collective;
  fabring_data_type type;
  fabring_reduce_op op;
  int32_t root;              /* the root; send: to whom; recv: from whom or FABRING_ANY_SOURCE */
  int32_t tag;               /* send: 0 or more; recv: also FABRING_ANY_TAG */
  int32_t commutes;          /* FABRING_OP_USER: 0 if operands must come in the order of the ranks */
  const size_t* counts;      /* optional: n lengths of the larger buffer's blocks (alltoall: of the input's) instead of
                                `count`; of reduce_scatter, all_gather, gather, scatter, alltoall */
  const size_t* offsets;     /* optional: n places of these blocks; NULL: one after the other */
  const size_t* out_counts;  /* alltoall with counts: n lengths of the output's blocks */
  const size_t* out_offsets; /* optional: n places of these */
  double factor;             /* FABRING_OP_PREMUL_SUM of floating-point types. Refused where the one that the type takes
                                is 1 and the other is neither 1 nor 0 */
  int64_t whole_factor;      /* FABRING_OP_PREMUL_SUM of integers */
  fabring_user_function function; /* FABRING_OP_USER */
  void* context;                  /* passed to it; the caller's own, may be NULL */
  uint64_t timeout_ns;            /* how long it may take from the call, in nanoseconds; 0: FABRING_TIMEOUT */
  void* stream; /* buffers in memory of a GPU: the CUstream (cudaStream_t) it is ordered on; NULL: the default */
  fabring_memory memory;         /* where the buffers live; FABRING_MEMORY_DETECT costs about a microsecond */
  int32_t device;                /* FABRING_MEMORY_DEVICE: the GPU's number in this process; -1: not said, refused */
  const fabring_tensor* tensors; /* optional, of allreduce: these instead of `in`, `out` and `count`; only read during
                                    the call, unlike the buffers they name; in any memory, that of one GPU at most */
  size_t tensor_count;
  int32_t wire_type; /* float32 allreduce, reduce and reduce_scatter that add: FABRING_TYPE_BFLOAT16 or FLOAT16 travels,
                        half the bytes; sums are rounded to it on the way, those of an avg before they are divided: in
                        FLOAT16 65520 is infinity (docs/algorithms.md has the error); FABRING_TYPE_FLOAT32: as it is;
                        0: allreduce as FABRING_WIRE_TYPE says, the others as they are */
  int32_t reserved;  /* 0 */
} fabring_operation;
/* clang-format off */
#define FABRING_OPERATION_INIT                                                                                         \
  {sizeof(fabring_operation), NULL, NULL, 0, FABRING_COLLECTIVE_ALLREDUCE, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, 0, 0, \
   1, NULL, NULL, NULL, NULL, 1.0, 1, NULL, NULL, 0, NULL, FABRING_MEMORY_DETECT, -1, NULL, 0, 0, 0}
/* clang-format on */

/* What a recv got. */
typedef struct fabring_received {
  size_t struct_size;
  int32_t source;
  int32_t tag;
  size_t count; /* elements */
} fabring_received;
#define FABRING_RECEIVED_INIT \
  { sizeof(fabring_received), -1, -1, 0 }

/* Runs it and returns when it is done here: results are in place, buffers are the caller's again. Errors:
 * invalid_argument, unsupported, mismatch, peer_lost, timeout, aborted, transport_error, out_of_memory. */
FABRING_C_API fabring_status_code fabring_run(fabring_comm* comm, const fabring_operation* operation,
                                              fabring_error* error);
/* Begins it and returns at once; the buffers are Fabring's until the work is done. Errors that are known at once, a
 * wrong argument for one, are reported here, others by fabring_work_wait. */
FABRING_C_API fabring_status_code fabring_start(fabring_comm* comm, const fabring_operation* operation,
                                                fabring_work** work, fabring_error* error);
/* Begins operations[0, count), which all have the same struct_size, then waits for all: sends and receives among them
 * go on side by side, so that none may use a buffer that another operation of the group writes: that is
 * invalid_argument, and nothing is begun. Collectives run in their order. The first error, if any; by then nothing of
 * the group is under way any more. */
FABRING_C_API fabring_status_code fabring_run_group(fabring_comm* comm, const fabring_operation* operations,
                                                    size_t count, fabring_error* error);
/* Begins them; works[i] is operations[i]. An operation that is wrong fails alone: fabring_work_wait(works[i]) has the
 * error, which all have where two use each other's buffers. A call that fails has begun nothing. */
FABRING_C_API fabring_status_code fabring_start_group(fabring_comm* comm, const fabring_operation* operations,
                                                      size_t count, fabring_work** works, fabring_error* error);
/* Checks, chooses and builds everything once, so that starting is cheap. Not for send and recv. */
FABRING_C_API fabring_status_code fabring_prepare(fabring_comm* comm, const fabring_operation* operation,
                                                  fabring_prepared** prepared, fabring_error* error);
/* How it would run, and why; the same on every rank. First line: the algorithm's name, a colon, the reason. Then a line
 * for each candidate: its name and its predicted time for exactly this size, or why it was left out. They are in the
 * order in which they are preferred at this size: lowest time first, but between nodes hierarchical or ring also before
 * one that is up to 12% lower. The choice is made for all sizes up to the next power of two, and may be another.
 * Errors: what the operation would be refused for as far as its buffers do not matter; aborted when the engine is gone.
 */
FABRING_C_API fabring_status_code fabring_explain(const fabring_comm* comm, const fabring_operation* operation,
                                                  char* text, size_t size, size_t* needed, fabring_error* error);

/* As fabring_run and fabring_start. A start before the last one is done comes after it, as every collective does: in
 * place it works on the other's result. */
FABRING_C_API fabring_status_code fabring_prepared_run(fabring_prepared* prepared, fabring_error* error);
FABRING_C_API fabring_status_code fabring_prepared_start(fabring_prepared* prepared, fabring_work** work,
                                                         fabring_error* error);
/* fabring_prepared_start, ordered on this CUDA stream (NULL: the default one) instead of the one of the operation that
 * it was prepared with. */
FABRING_C_API fabring_status_code fabring_prepared_start_on(fabring_prepared* prepared, void* stream,
                                                            fabring_work** work, fabring_error* error);
FABRING_C_API fabring_status_code fabring_prepared_free(fabring_prepared* prepared);

/* Waits until the operation is over and the buffers are the caller's again; returns how it ended. */
FABRING_C_API fabring_status_code fabring_work_wait(fabring_work* work, fabring_error* error);
/* The same for at most this many nanoseconds. Past them: timeout, and the operation goes on. */
FABRING_C_API fabring_status_code fabring_work_wait_for(fabring_work* work, uint64_t nanoseconds, fabring_error* error);
/* *done = 1 when the operation is over, well or not, else 0. Makes progress if nobody else does. */
FABRING_C_API fabring_status_code fabring_work_done(fabring_work* work, int* done, fabring_error* error);
/* How it ended; success while it is not done. */
FABRING_C_API fabring_status_code fabring_work_status(const fabring_work* work, fabring_error* error);
/* Of a recv that is done: from whom, which tag, how many. Of any other operation: -1, -1, 0. Errors: invalid_argument
 * while it is not done. */
FABRING_C_API fabring_status_code fabring_work_received(fabring_work* work, fabring_received* received,
                                                        fabring_error* error);
/* Calls function(context) once when the operation is over, well or not: at once if it is, otherwise later in whichever
 * thread makes progress. It must neither block, nor call Fabring, nor leave by an exception (that ends the process) or
 * longjmp: hand over to a thread of your own. One function for an operation; a second call replaces one that was not
 * called yet, which then never is. */
FABRING_C_API fabring_status_code fabring_work_notify(fabring_work* work, void (*function)(void* context),
                                                      void* context, fabring_error* error);
/* Frees the handle; an operation that is not done goes on, and its buffers must live until it is. */
FABRING_C_API fabring_status_code fabring_work_free(fabring_work* work);

/* The short forms of fabring_run: `count` elements of each block, n ranks. */

/* out[i] = reduction over all ranks of in[i], i < count. In place: in == out. */
FABRING_C_API fabring_status_code fabring_allreduce(fabring_comm* comm, const void* in, void* out, size_t count,
                                                    fabring_data_type type, fabring_reduce_op op, fabring_error* error);
/* An allreduce of each of tensors[0, tensor_count), as one operation: small ones travel together. All ranks give as
 * many, of the same lengths, in the same order. No output overlaps another tensor (one that is shared is listed once);
 * inputs may overlap each other. */
FABRING_C_API fabring_status_code fabring_grouped_allreduce(fabring_comm* comm, const fabring_tensor* tensors,
                                                            size_t tensor_count, fabring_data_type type,
                                                            fabring_reduce_op op, fabring_error* error);
/* An allreduce whose result is on the root only; `out` is not used elsewhere and may be NULL there. */
FABRING_C_API fabring_status_code fabring_reduce(fabring_comm* comm, const void* in, void* out, size_t count,
                                                 fabring_data_type type, fabring_reduce_op op, int32_t root,
                                                 fabring_error* error);
/* in: n blocks of `count`; out: block r of the reduction. In place: out == in + r * count. */
FABRING_C_API fabring_status_code fabring_reduce_scatter(fabring_comm* comm, const void* in, void* out, size_t count,
                                                         fabring_data_type type, fabring_reduce_op op,
                                                         fabring_error* error);
/* in: `count` elements; out: those of all ranks, n * count. In place: in == out + r * count. */
FABRING_C_API fabring_status_code fabring_all_gather(fabring_comm* comm, const void* in, void* out, size_t count,
                                                     fabring_data_type type, fabring_error* error);
/* data[0, count) on every rank = that of the root. */
FABRING_C_API fabring_status_code fabring_broadcast(fabring_comm* comm, void* data, size_t count,
                                                    fabring_data_type type, int32_t root, fabring_error* error);
/* As all_gather, on the root only; `out` is not used elsewhere and may be NULL there. */
FABRING_C_API fabring_status_code fabring_gather(fabring_comm* comm, const void* in, void* out, size_t count,
                                                 fabring_data_type type, int32_t root, fabring_error* error);
/* out: block r of the root's in, n blocks of `count`; `in` is not used elsewhere and may be NULL there. */
FABRING_C_API fabring_status_code fabring_scatter(fabring_comm* comm, const void* in, void* out, size_t count,
                                                  fabring_data_type type, int32_t root, fabring_error* error);
/* Block j of in goes to rank j; block i of out comes from rank i. In place (in == out) costs a copy. */
FABRING_C_API fabring_status_code fabring_alltoall(fabring_comm* comm, const void* in, void* out, size_t count,
                                                   fabring_data_type type, fabring_error* error);
/* Waits until every rank has called it. */
FABRING_C_API fabring_status_code fabring_barrier(fabring_comm* comm, fabring_error* error);
/* To one rank, which receives it with fabring_recv. Messages between two ranks match in order, tag by tag. It may wait
 * for its receive. It does not for up to 4 KiB in memory of the host, as long as what is on its way to that rank and
 * not received takes 66 KiB at most, each message counted with 128 bytes more than it has (16 of 4 KiB, 512 of 4
 * bytes). */
FABRING_C_API fabring_status_code fabring_send(fabring_comm* comm, const void* data, size_t count,
                                               fabring_data_type type, int32_t to, int32_t tag, fabring_error* error);
/* At most `count` elements; a longer message is a mismatch. */
FABRING_C_API fabring_status_code fabring_recv(fabring_comm* comm, void* data, size_t count, fabring_data_type type,
                                               int32_t from, int32_t tag, fabring_error* error);

/* ---- communicators ---------------------------------------------------------------------------------------------- */

FABRING_C_API fabring_status_code fabring_comm_rank(const fabring_comm* comm, int32_t* rank, fabring_error* error);
FABRING_C_API fabring_status_code fabring_comm_size(const fabring_comm* comm, int32_t* size, fabring_error* error);
/* "world", or what the split was given, with '?' for control characters. */
FABRING_C_API fabring_status_code fabring_comm_label(const fabring_comm* comm, char* text, size_t size, size_t* needed,
                                                     fabring_error* error);
/* nodes[r] = node of rank r: equal numbers share a host. `capacity` is the length of `nodes`, at least the number of
 * ranks. */
FABRING_C_API fabring_status_code fabring_comm_nodes(const fabring_comm* comm, int32_t* nodes, size_t capacity,
                                                     fabring_error* error);
/* members[r] = number in the job of rank r, by which errors name ranks: of the communicator of all ranks 0, 1, 2, ...
 * `capacity` is the length of `members`, at least the number of ranks. */
FABRING_C_API fabring_status_code fabring_comm_members(const fabring_comm* comm, int32_t* members, size_t capacity,
                                                       fabring_error* error);
/* Splits by colour; ranks of one colour form a communicator ordered by (key, rank). Every rank of this one must call.
 * A negative colour: *made is NULL. `label` is optional; of one longer than 200 bytes the first are taken, and "...".
 * Blocks, as an operation does. Errors: mismatch, peer_lost, timeout, aborted, transport_error, out_of_memory, as of an
 * allreduce on it; unsupported when the engine has no number left for a communicator (2^29 were made). */
FABRING_C_API fabring_status_code fabring_comm_split(fabring_comm* comm, int32_t colour, int32_t key, const char* label,
                                                     fabring_comm** made, fabring_error* error);
/* The ranks of each node, in the order of this communicator. Every rank must call. Errors: as of fabring_comm_split. */
FABRING_C_API fabring_status_code fabring_comm_split_by_node(fabring_comm* comm, const char* label, fabring_comm** made,
                                                             fabring_error* error);
/* The same ranks once more: operations on it match apart from those of this one. Every rank must call. Errors: as of
 * fabring_comm_split. */
FABRING_C_API fabring_status_code fabring_comm_duplicate(fabring_comm* comm, const char* label, fabring_comm** made,
                                                         fabring_error* error);
/* The same ranks once more, whose operations are run by the plans in `text`, of `size` bytes, where these fit: what
 * `fabring plan --json` writes, changed or made by anybody. They are proved before. Every rank must call, with the same
 * text. Errors: invalid_argument with the step that is wrong, or for another number of ranks; unsupported; mismatch if
 * ranks have different texts; others as of fabring_comm_split. `label` is optional. See docs/algorithms.md. */
FABRING_C_API fabring_status_code fabring_comm_with_plans(fabring_comm* comm, const char* text, size_t size,
                                                          const char* label, fabring_comm** made, fabring_error* error);
/* These `count` ranks of this communicator, each once and the caller's among them, as one of their own, in this order.
 * Only they call it; nothing is sent. All of them give the same `number`, below 2^31, that none of them has given to a
 * subgroup of this engine before, also to one that is gone (a counter will do): it is refused. Groups without a common
 * rank may have the same one. `label` is optional. Errors: invalid_argument (a list without this rank, with one that
 * there is not, or with one twice; a number that is none, or was given); aborted once the engine is gone. */
FABRING_C_API fabring_status_code fabring_comm_subgroup(fabring_comm* comm, const int32_t* ranks, size_t count,
                                                        uint32_t number, const char* label, fabring_comm** made,
                                                        fabring_error* error);
/* Those of its ranks that are left, in the same order: all but those that were lost or have left. For a communicator
 * that has failed. They agree on who that is, so all of them get the same one. Every rank that is left must call; waits
 * for them, at most FABRING_TIMEOUT. Where lost ranks may be alive (silent, out of reach), more than half of those that
 * have not ended go on, or the half with the lowest of them; the others get peer_lost. `label` is optional. */
FABRING_C_API fabring_status_code fabring_comm_shrink(fabring_comm* comm, const char* label, fabring_comm** made,
                                                      fabring_error* error);
/* Ends it on every rank: operations under way end with aborted. Local, returns at once. `reason` is optional. */
FABRING_C_API fabring_status_code fabring_comm_abort(fabring_comm* comm, const char* reason, fabring_error* error);
/* For bindings that refuse a call before they make it here: the others, who may wait in it, hear why as of a call that
 * was refused here, unless this rank makes one soon. Of `operation` the collective matters, and of a send or recv root
 * and tag; NULL: a collective, as a start of one that was prepared is. Local, returns at once. `why` is optional. */
FABRING_C_API fabring_status_code fabring_comm_refuse(fabring_comm* comm, const fabring_operation* operation,
                                                      const char* why, fabring_error* error);
/* Likewise of a subgroup, by its number, that this rank does not make: members that wait in it hear why. */
FABRING_C_API fabring_status_code fabring_comm_refuse_subgroup(fabring_comm* comm, uint32_t number, const char* why,
                                                               fabring_error* error);
/* Success while usable; the first error afterwards. */
FABRING_C_API fabring_status_code fabring_comm_health(const fabring_comm* comm, fabring_error* error);
FABRING_C_API fabring_status_code fabring_comm_free(fabring_comm* comm);

#ifdef __cplusplus
}
#endif

#endif /* FABRING_FABRING_H */
