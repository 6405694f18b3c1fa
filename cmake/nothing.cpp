// For the build only: what holds the headers that are compiled once for many targets needs a source.
int main() { return 0; }
