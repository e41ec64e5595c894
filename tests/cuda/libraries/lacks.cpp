// A library that depends on two missing libraries.

extern "C" int stranger();
extern "C" int other_stranger();
extern "C" __attribute__((visibility("default"))) int lacks();

int lacks() { return stranger() + other_stranger(); }
