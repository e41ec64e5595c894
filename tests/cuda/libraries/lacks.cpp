// A library that uses one which is not there.

extern "C" int stranger();
extern "C" __attribute__((visibility("default"))) int lacks();

int lacks() { return stranger(); }
