// Preloaded into a program: its wall clock is SHIFTED_CLOCK_MS ahead (behind, if negative) of the host's. Clocks that only
// measure durations are left alone.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void shift(long long* seconds, long long* nanoseconds) {
  const char* text = getenv("SHIFTED_CLOCK_MS");
  const long long ms = text ? strtoll(text, NULL, 10) : 0;
  const long long total = *nanoseconds + ms % 1000 * 1000000 + 1000000000;
  *seconds += ms / 1000 + total / 1000000000 - 1;
  *nanoseconds = total % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (syscall(SYS_clock_gettime, clock, now)) return -1;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
  long long seconds = now->tv_sec, nanoseconds = now->tv_nsec;
  shift(&seconds, &nanoseconds);
  now->tv_sec = seconds;
  now->tv_nsec = nanoseconds;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
