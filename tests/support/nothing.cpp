// A program for the build only: tests use the headers that are precompiled for it.
int main() { return 0; }
