// A library that depends on a missing library.

extern "C" int stranger();
extern "C" __attribute__((visibility("default"))) int lacks();

int lacks() { return stranger(); }
