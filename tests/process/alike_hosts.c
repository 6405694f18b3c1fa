// Preloaded into a program under test: its network namespace has the number that all who preload it have.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

int stat(const char *path, struct stat *found) {
  int (*next)(const char *, struct stat *) = (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
  const int result = next(path, found);
  if (result == 0 && strcmp(path, "/proc/self/ns/net") == 0) {
    found->st_dev = 4;
    found->st_ino = 4026531840u;
  }
  return result;
}
