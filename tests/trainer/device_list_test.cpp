#include "trainer/job/device_list.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

std::vector<int64_t> indices_in(const std::string& given) {
  return read_device_list(given).indices;
}

std::string refused_list(const std::string& given) {
  return error_of<ConfigError>([&] { read_device_list(given); });
}

}  // namespace

TEST_CASE("devices are named by kind and number") {
  CHECK(read_device_list("cpu").kind == "cpu");
  CHECK(indices_in("cpu") == std::vector<int64_t>{0});
  CHECK(indices_in("cpu,cpu") == std::vector<int64_t>{0, 0});
  CHECK(read_device_list("cuda:2").kind == "cuda");
  CHECK(indices_in("cuda:2") == std::vector<int64_t>{2});
  CHECK(indices_in("cuda:0,cuda:1,cuda:0") == std::vector<int64_t>{0, 1, 0});
  CHECK(indices_in("cuda,cuda:12") == std::vector<int64_t>{0, 12});
}

TEST_CASE("an invalid list of devices is refused, and the message states the reason") {
  CHECK(refused_list("cuda:0,cpu") ==
        "--device cuda:0,cpu: expected devices of one kind, got cuda and cpu; start a separate "
        "worker for each kind");
  for (const char* none : {"", "cpu,", ",cpu", "gpu", "cuda;cuda"})
    CHECK(refused_list(none).find(
              "expected cpu, cuda or cuda:INDEX, or a list such as cuda:0,cuda:1") !=
          std::string::npos);
  CHECK(refused_list("cuda:") ==
        "--device cuda:: expected an index >= 0 after \":\", as in cuda:1, got \"\"");
  CHECK(refused_list("cuda:1,cuda:x") ==
        "--device cuda:1,cuda:x: expected an index >= 0 after \":\", as in cuda:1, got \"x\"");
  CHECK(refused_list("cuda:99999999999999999999").find("got \"99999") != std::string::npos);
}
